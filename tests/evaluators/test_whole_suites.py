"""Complete suites run through the command line; expected scores were calculated manually."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from tests.conftest import Project

CONFIG = """\
targets:
  scripted:
    provider: mock
    rules:
      - match: agent
        token_usage: {input: 900, output: 100, cached: 200}
        cost_usd: 0.02
        output_messages:
          - role: assistant
            tool_calls:
              - {tool: search, input: {query: paris, limit: 5}, output: {hits: 2}}
              - {tool: search, input: {query: rome, limit: 5}, output: {error: timed out}}
          - role: assistant
            tool_calls: [{tool: fetch, input: {url: "https://example.org", options: {depth: 2}}}]
          - {role: assistant, content: Done.}
      - match: invoice
        response: |
          Here is the invoice:
          ```json
          {"number": "INV-7", "total": 104.5, "tax": "12abc", "paid": true,
           "date": "15/01/2025", "due": "2025-02-14T23:30:00-08:00", "sent": "03/04/2025",
           "lines": [{"price": 10}, {"price": 0.4}], "a.b": 1}
          ```
      - {match: prose, response: I cannot find an invoice.}
    response: Done.
"""


def scores(project: Project, cases: list[dict[str, Any]], *, exit_code: int) -> dict[str, dict[str, Any]]:
    """Result rows by eval id; the suite is written as JSON, which is valid YAML."""
    project.write("agentv.config.yaml", CONFIG)
    project.write("suite.yaml", json.dumps({"evalcases": cases}))
    done = project.run("eval", "suite.yaml")
    assert done.returncode == exit_code, f"{done.stdout}{done.stderr}"
    return {row["eval_id"]: row for row in project.rows()}


def by_id(rows: dict[str, dict[str, Any]]) -> dict[str, float]:
    return {name: row["score"] for name, row in rows.items()}


# -- tool_trajectory


def call(tool: str, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args} if args else {"tool": tool}


SEARCH, FETCH, SEND = call("search"), call("fetch"), call("send")
TRAJECTORIES: dict[str, tuple[dict[str, Any], float]] = {
    "any: both tools": ({"mode": "any_order", "minimums": {"fetch": 1, "search": 2}}, 1.0),
    "any: one of two": ({"mode": "any_order", "minimums": {"search": 1, "send": 1}}, 0.5),
    "any: not often enough": ({"mode": "any_order", "minimums": {"search": 3}}, 0.0),
    "any: named in a list": ({"mode": "any_order", "expected": [FETCH, SEARCH, SEARCH, SEND]}, 2 / 3),
    "any: nothing required": ({"mode": "any_order", "minimums": {}}, 1.0),
    "in order": ({"mode": "in_order", "expected": [SEARCH, FETCH]}, 1.0),
    "in order: swapped": ({"mode": "in_order", "expected": [FETCH, SEARCH]}, 0.0),
    "in order: one missing": ({"mode": "in_order", "expected": [SEARCH, SEND, FETCH, FETCH]}, 0.5),
    "in order: the second search": ({"mode": "in_order", "expected": [call("search", query="rome"), FETCH]}, 1.0),
    "in order: other arguments": ({"mode": "in_order", "expected": [call("search", query="oslo"), FETCH]}, 0.5),
    "exact": ({"mode": "exact", "expected": [SEARCH, SEARCH, FETCH]}, 1.0),
    "exact: extra calls": ({"mode": "exact", "expected": [SEARCH, SEARCH]}, 0.0),
    "exact: one too few": ({"mode": "exact", "expected": [SEARCH, SEARCH, FETCH, SEND]}, 0.75),
    "exact: arguments": (
        {
            "mode": "exact",
            "expected": [call("search", limit=5), call("search", limit=6), call("fetch", options={"depth": 2})],
        },
        2 / 3,
    ),
    "exact: none allowed": ({"mode": "exact", "expected": []}, 0.0),
    "negated": ({"mode": "any_order", "minimums": {"send": 1}, "negate": True}, 1.0),
}  # fmt: skip


def test_tool_trajectory_scores_match_manual_calculation(project: Project) -> None:
    cases = [
        {"id": name, "input": "agent", "evaluators": [{"type": "tool_trajectory", **options}]}
        for name, (options, _) in TRAJECTORIES.items()
    ]
    rows = scores(project, cases, exit_code=1)
    assert by_id(rows) == {name: pytest.approx(score) for name, (_, score) in TRAJECTORIES.items()}
    assert all(row["error"] is None for row in rows.values())


def test_tool_trajectory_scores_zero_with_a_reason_without_tool_calls(project: Project) -> None:
    evaluator = {"type": "tool_trajectory", "mode": "in_order", "expected": [SEARCH]}
    rows = scores(project, [{"id": "quiet", "input": "hello", "evaluators": [evaluator]}], exit_code=1)
    assert (rows["quiet"]["score"], rows["quiet"]["error"]) == (0.0, None)
    assert "no tools were called" in rows["quiet"]["reasoning"]


def test_trace_summary_of_a_row_matches_its_messages(project: Project) -> None:
    evaluator = {"type": "tool_trajectory", "mode": "exact", "expected": [SEARCH, SEARCH, FETCH]}
    trace = scores(project, [{"id": "x", "input": "agent", "evaluators": [evaluator]}], exit_code=0)["x"][
        "trace_summary"
    ]
    assert trace.pop("duration_ms") >= 0
    assert trace == {
        "event_count": 3,
        "tool_names": ["fetch", "search"],
        "tool_calls_by_name": {"fetch": 1, "search": 2},
        "error_count": 1,
        "token_usage": {"input": 900, "output": 100, "cached": 200},
        "cost_usd": 0.02,
        "llm_call_count": 3,
    }


# -- field_accuracy

EXPECTED = {
    "number": "INV-7",
    "total": 100,
    "tax": 12,
    "paid": True,
    "date": "2025-01-15",
    "due": "2025-02-14",
    "sent": "2025-04-03",
    "lines": [{"price": 10}, {"price": 0.1}],
    "a.b": 1,
    "currency": "EUR",
}


def field(path: str, match: str = "exact", **options: Any) -> dict[str, Any]:
    return {"path": path, "match": match, **options}


FIELDS: dict[str, tuple[dict[str, Any], float]] = {
    "exact": ({"fields": [field("number"), field("paid"), field('["a.b"]'), field("lines[0].price")]}, 1.0),
    "by weight": ({"fields": [field("number", weight=3), field("total", weight=1)]}, 0.75),
    "weight 0 does not count": ({"fields": [field("number"), field("total", weight=0)]}, 1.0),
    "all or nothing": ({"fields": [field("number"), field("total")], "aggregation": "all_or_nothing"}, 0.0),
    "within 5": ({"fields": [field("total", "numeric_tolerance", tolerance=4.5)]}, 1.0),
    "not within 4.4": ({"fields": [field("total", "numeric_tolerance", tolerance=4.4)]}, 0.0),
    "within 4.5 %": ({"fields": [field("total", "numeric_tolerance", tolerance=0.045, relative=True)]}, 1.0),
    "within 0.3, as written": ({"fields": [field("lines[1].price", "numeric_tolerance", tolerance=0.3)]}, 1.0),
    "12abc is not a number": ({"fields": [field("tax", "numeric_tolerance")]}, 0.0),
    "dates": ({"fields": [field("date", "date"), field("due", "date")]}, 1.0),
    "an ambiguous date": ({"fields": [field("sent", "date")]}, 0.0),
    "day first": ({"fields": [field("sent", "date", formats=["YYYY-MM-DD", "DD/MM/YYYY"])]}, 1.0),
    "month first": ({"fields": [field("sent", "date", formats=["YYYY-MM-DD", "MM/DD/YYYY"])]}, 0.0),
    "missing": ({"fields": [field("number"), field("currency")]}, 0.5),
    "missing and optional": ({"fields": [field("number"), field("currency", required=False)]}, 1.0),
    "not expected": ({"fields": [field("vat"), field("total")]}, 0.5),
}


@pytest.mark.parametrize("expected", [EXPECTED, json.dumps(EXPECTED)], ids=["object", "text"])
def test_field_accuracy_scores_match_manual_calculation(project: Project, expected: Any) -> None:
    cases = [
        {
            "id": name,
            "input": "invoice",
            "expected_messages": [{"role": "assistant", "content": expected}],
            "evaluators": [{"type": "field_accuracy", **options}],
        }
        for name, (options, _) in FIELDS.items()
    ]
    rows = scores(project, cases, exit_code=1)
    assert by_id(rows) == {name: score for name, (_, score) in FIELDS.items()}
    assert all(row["error"] is None for row in rows.values())
    assert "set `formats:" in rows["an ambiguous date"]["misses"][0]
    assert rows["not expected"]["evaluator_results"][0]["warnings"]


def test_field_accuracy_fails_for_invalid_json_and_errors_without_expected_data(project: Project) -> None:
    evaluators = [{"type": "field_accuracy", "fields": [field("number")]}]
    rows = scores(
        project,
        [
            {"id": "prose", "input": "prose", "reference_answer": '{"number": 1}', "evaluators": evaluators},
            {"id": "nothing", "input": "invoice", "evaluators": evaluators},
        ],
        exit_code=3,
    )
    assert (rows["prose"]["score"], rows["prose"]["error"]) == (0.0, None)
    assert "it does not contain a JSON object" in rows["prose"]["misses"][0]
    assert rows["nothing"]["error"]["stage"] == "evaluator"
    assert "the case has no expected data" in rows["nothing"]["error"]["message"]


# -- latency, cost, token_usage, execution_metrics

LIMITS: dict[str, tuple[dict[str, Any], float]] = {
    "in time": ({"type": "latency", "threshold_ms": 60_000}, 1.0),
    "in time, AgentV's spelling": ({"type": "latency", "threshold": 60_000}, 1.0),
    "in time, with a pass line": ({"type": "latency", "threshold_ms": 60_000, "threshold": 0.5}, 1.0),
    "too late": ({"type": "latency", "threshold_ms": 0}, 0.0),
    "in budget": ({"type": "cost", "budget_usd": 0.02}, 1.0),
    "in budget, AgentV's spelling": ({"type": "cost", "budget": 0.02}, 1.0),
    "too expensive": ({"type": "cost", "budget_usd": 0.019}, 0.0),
    "tokens": ({"type": "token_usage", "max_total": 1200, "max_input": 900, "max_output": 100}, 1.0),
    "tokens, camel case": ({"type": "token_usage", "maxTotal": 1200}, 1.0),
    "too many tokens": ({"type": "token_usage", "max_total": 1199, "max_output": 100}, 0.0),
    "too many tokens, camel case": ({"type": "token_usage", "maxInput": 899, "maxOutput": 100}, 0.0),
    "metrics": (
        {
            "type": "execution_metrics",
            "max_tool_calls": 3,
            "max_llm_calls": 3,
            "max_tokens": 1200,
            "max_cost_usd": 0.02,
            "max_duration_ms": 60_000,
        },
        1.0,
    ),
    "three of four": (
        {"type": "execution_metrics", "max_tool_calls": 2, "max_llm_calls": 3, "max_tokens": 1200, "max_cost_usd": 1},
        0.75,
    ),
}


def test_metric_scores_match_manual_calculation(project: Project) -> None:
    cases = [{"id": name, "input": "agent", "evaluators": [options]} for name, (options, _) in LIMITS.items()]
    rows = scores(project, cases, exit_code=1)
    assert by_id(rows) == {name: score for name, (_, score) in LIMITS.items()}


@pytest.mark.parametrize(
    ("evaluator", "figure"),
    [
        ({"type": "cost", "budget": 1}, "cost"),
        ({"type": "token_usage", "max_total": 1}, "token usage"),
        ({"type": "execution_metrics", "max_tool_calls": 1, "max_cost_usd": 1}, "cost"),
    ],
)
def test_unreported_metric_is_an_error_not_a_low_score(
    project: Project, evaluator: dict[str, Any], figure: str
) -> None:
    row = scores(project, [{"id": "x", "input": "hello", "evaluators": [evaluator]}], exit_code=3)["x"]
    assert f"the target did not report {figure}" in row["error"]["message"]


# -- validation errors

BROKEN = """\
evalcases:
  - id: a
    input: agent
    evaluators:
      - {name: one, type: tool_trajectory, mode: in_order}
      - {name: two, type: tool_trajectory, mode: exact, expected: [{tool: a, arg: {}}]}
      - {name: three, type: tool_trajectory, mode: any_order, minimum: {a: 1}}
      - name: four
        type: field_accuracy
        fields:
          - {path: a..b, match: exact}
          - {path: c, match: date, formats: [whenever]}
      - {name: five, type: latency, threshold: fast}
      - {name: six, type: latency, threshold: 1500, threshold_ms: 1500}
      - {name: seven, type: cost, budget: -1}
      - {name: eight, type: cost, budget: 1, budget_usd: 1}
      - {name: nine, type: token_usage, max_totl: 5}
      - {name: ten, type: execution_metrics}
"""


def test_every_problem_is_reported_at_its_position(project: Project) -> None:
    project.write("agentv.config.yaml", CONFIG)
    project.write("suite.yaml", BROKEN)
    done = project.run("validate", "suite.yaml")
    assert done.returncode == 2
    reported = [line.partition("suite.yaml:")[2] for line in done.stderr.splitlines() if "suite.yaml:" in line]
    assert [line.split(": ")[0] for line in reported] == [
        "5:9", "6:78", "7:63", "11:20", "12:45", "13:37", "14:36", "15:43", "16:35", "17:41", "18:9",
    ]  # fmt: skip
    words = [
        "`mode: in_order` requires `expected`",
        "did you mean `args`?",
        "did you mean `minimums`?",
        "invalid path 'a..b': a key is missing after 'a.'",
        "date format",
        "must be a number of milliseconds >= 0, got 'fast'",
        "with `threshold_ms`, `threshold` must be a score from 0 to 1",
        "`budget` must be a number >= 0",
        "`budget` and `budget_usd` are aliases",
        "did you mean `max_total`?",
        "no limit is set",
    ]
    for line, expected in zip(reported, words, strict=True):
        assert expected in line


def test_editor_schema_accepts_both_spellings(project: Project) -> None:
    schema = json.loads(project.run("schema").stdout)["suite"]
    validator = jsonschema.Draft202012Validator(schema)

    def problems(evaluator: dict[str, Any]) -> int:
        case = {"id": "a", "input": "x", "evaluators": [evaluator]}
        return len(list(validator.iter_errors({"evalcases": [case]})))

    evaluators = [options for options, _ in LIMITS.values()]
    evaluators += [{"type": "tool_trajectory", **options} for options, _ in TRAJECTORIES.values()]
    evaluators += [{"type": "field_accuracy", **options} for options, _ in FIELDS.values()]
    assert [problems(each) for each in evaluators] == [0] * len(evaluators)
    assert problems({"type": "latency"})
    assert problems({"type": "latency", "threshold": -1})
    assert problems({"type": "tool_trajectory", "mode": "exact", "expected": [{"args": {}}]})
    assert problems({"type": "field_accuracy", "fields": []})
