"""`agentv eval` on the command line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agentv.testing.model_server import FakeModelServer, completion
from tests.conftest import Project

ROW_KEYS = {
    "run_id", "eval_id", "suite", "target", "attempt", "score", "verdict", "error", "candidate_answer",
    "output_messages", "hits", "misses", "reasoning", "evaluator_results", "trace_summary", "token_usage",
    "cost_usd", "duration_ms", "started_at", "metadata",
}  # fmt: skip
RESULT_KEYS = {
    "name", "type", "score", "weight", "verdict", "error", "warnings", "hits", "misses", "reasoning", "details",
    "duration_ms",
}  # fmt: skip


def test_eval_scores_records_and_summarizes_a_suite(capitals: Project) -> None:
    done = capitals.run("eval", "capitals.yaml")
    assert done.returncode == 1, done.stderr
    rows = {row["eval_id"]: row for row in capitals.rows()}
    assert {name: (row["score"], row["verdict"]) for name, row in rows.items()} == {
        "france": (1.0, "pass"),
        "italy": (0.7, "borderline"),
        "spain": (0.0, "fail"),
    }
    assert "2 of 3 cases did not pass" in done.stdout
    assert "does not contain 'Madrid'" in done.stdout
    assert ".agentv/runs/" in done.stdout


def test_row_has_every_field_and_is_strict_json(capitals: Project) -> None:
    capitals.run("eval", "capitals.yaml")
    row = next(row for row in capitals.rows() if row["eval_id"] == "italy")
    assert set(row) >= ROW_KEYS
    assert row["suite"] == "capitals"
    assert row["target"] == "scripted"
    assert row["attempt"] == 1
    assert row["error"] is None
    assert row["token_usage"] == {"input": 5, "output": 1}
    assert row["cost_usd"] == 0.001
    assert row["output_messages"] == [{"role": "assistant", "content": "Rome"}]
    assert set(row["evaluator_results"][0]) >= RESULT_KEYS
    assert [result["name"] for result in row["evaluator_results"]] == ["names-rome", "whole-sentence"]


def test_run_json_describes_the_run(capitals: Project) -> None:
    capitals.run("eval", "capitals.yaml", "--threshold", "0.5")
    manifest = capitals.manifest()
    assert manifest["status"] == "finished"
    assert manifest["total"] == 3
    assert manifest["options"]["threshold"] == 0.5
    assert manifest["summary"]["passed"] == 2
    assert manifest["run_id"] == capitals.run_dirs()[-1].name
    assert str(capitals.root / "capitals.yaml") in manifest["digests"]


def test_json_prints_only_one_object_on_stdout(capitals: Project) -> None:
    done = capitals.run("eval", "capitals.yaml", "--json")
    summary = json.loads(done.stdout)
    assert {key: summary[key] for key in ("total", "passed", "borderline", "failed", "errors", "exit_code")} == {
        "total": 3,
        "passed": 1,
        "borderline": 1,
        "failed": 1,
        "errors": 0,
        "exit_code": 1,
    }
    assert summary["mean_score"] == pytest.approx(1.7 / 3)
    assert Path(summary["run_dir"]).name == summary["run_id"]
    assert done.returncode == 1


def test_quiet_prints_nothing(capitals: Project) -> None:
    done = capitals.run("eval", "capitals.yaml", "--quiet")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 1)


def test_progress_is_plain_lines_without_a_terminal(capitals: Project) -> None:
    done = capitals.run("eval", "capitals.yaml")
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 3
    assert any("pass" in line and "france" in line for line in lines)
    assert "\x1b" not in done.stderr + done.stdout


def test_exit_code_is_0_when_every_case_passes(capitals: Project) -> None:
    assert capitals.run("eval", "capitals.yaml", "--case", "france").returncode == 0


def test_failing_target_is_an_error_row_and_exits_with_3(capitals: Project) -> None:
    capitals.write("agentv.config.yaml", "targets: {scripted: {provider: mock, status: 401, error: bad key}}\n")
    done = capitals.run("eval", "capitals.yaml")
    assert done.returncode == 3
    for row in capitals.rows():
        assert row["score"] == 0
        assert row["error"]["stage"] == "target"
        assert "bad key" in row["error"]["message"]
    assert capitals.manifest()["summary"]["errors"] == 3
    assert capitals.manifest()["summary"]["failed"] == 0


def test_failing_evaluator_is_an_error_not_a_low_score(capitals: Project) -> None:
    capitals.write(
        "broken.yaml",
        """\
        evalcases:
          - id: no-reference
            input: What is the capital of France?
            evaluators:
              - {type: python, value: 1 / 0}
              - {type: contains, value: Paris}
        """,
    )
    done = capitals.run("eval", "broken.yaml")
    (row,) = capitals.rows()
    assert done.returncode == 3
    assert row["error"]["stage"] == "evaluator"
    assert row["score"] == 0.5
    assert row["verdict"] == "fail"
    assert row["evaluator_results"][0]["error"]


def test_cases_are_selected_by_glob(capitals: Project) -> None:
    capitals.run("eval", "capitals.yaml", "--case", "*a*n*", "--case", "italy")
    assert sorted(row["eval_id"] for row in capitals.rows()) == ["france", "italy", "spain"]
    capitals.run("eval", "capitals.yaml", "--case", "s*")
    assert [row["eval_id"] for row in capitals.rows()] == ["spain"]


def test_unmatched_glob_stops_the_run_with_a_suggestion(capitals: Project) -> None:
    done = capitals.run("eval", "capitals.yaml", "--case", "itly")
    assert done.returncode == 2
    assert "did you mean `italy`?" in done.stderr
    assert capitals.run_dirs() == []


def test_every_case_runs_on_every_target_with_repeats(capitals: Project) -> None:
    capitals.write(
        "agentv.config.yaml",
        "targets: {a: {provider: mock, response: Paris}, b: {provider: mock, response: Rome}}\n",
    )
    done = capitals.run("eval", "capitals.yaml", "--target", "a", "--target", "b", "--repeat", "2", "--json")
    rows = capitals.rows()
    assert len({(r["eval_id"], r["target"], r["attempt"]) for r in rows}) == len(rows) == 12
    assert set(json.loads(done.stdout)["by_target"]) == {"a", "b"}


def test_command_line_target_overrides_the_target_of_a_case(capitals: Project) -> None:
    capitals.write(
        "agentv.config.yaml",
        "targets: {a: {provider: mock, response: A}, b: {provider: mock, response: B}}\ndefaults: {target: a}\n",
    )
    capitals.write(
        "own.yaml",
        """\
        evalcases:
          - {id: first, input: x, evaluators: [{type: equals, value: A}]}
          - {id: second, input: x, execution: {target: b}, evaluators: [{type: equals, value: B}]}
        """,
    )
    assert capitals.run("eval", "own.yaml").returncode == 0
    assert {row["eval_id"]: row["target"] for row in capitals.rows()} == {"first": "a", "second": "b"}
    capitals.run("eval", "own.yaml", "--target", "a")
    assert {row["target"] for row in capitals.rows()} == {"a"}


@pytest.mark.parametrize(
    ("suite", "expected"),
    [
        ("execution: {target: scriptd}\nevalcases: [{id: a, input: x}]", "1:21: "),
        ("evalcases: [{id: a, input: x, execution: {target: scriptd}}]", "1:"),
    ],
)
def test_unknown_target_in_a_suite_is_reported_at_its_line(capitals: Project, suite: str, expected: str) -> None:
    suite = suite.replace("input: x", "input: x, evaluators: [{type: contains, value: x}]")
    capitals.write("wrong.yaml", suite)
    done = capitals.run("eval", "wrong.yaml")
    assert done.returncode == 2
    assert f"wrong.yaml:{expected}" in done.stderr
    assert "did you mean `scripted`?" in done.stderr
    assert capitals.run_dirs() == []


def test_unknown_target_option_lists_available_targets(capitals: Project) -> None:
    for option in ("--target", "--judge-target"):
        done = capitals.run("eval", "capitals.yaml", option, "scriptd")
        assert done.returncode == 2
        assert "scripted" in done.stderr


def test_eval_without_configuration_suggests_init(project: Project) -> None:
    project.write("suite.yaml", "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: x}]}]\n")
    done = project.run("eval", "suite.yaml")
    assert done.returncode == 2
    assert "agentv init" in done.stderr
    assert not (project.root / ".agentv").exists()


def test_missing_variable_is_an_error_row_if_another_target_is_ready(capitals: Project) -> None:
    capitals.write(
        "agentv.config.yaml",
        "targets:\n  scripted: {provider: mock, response: Paris}\n"
        "  real: {provider: openai, model: m, api_key: '${{ NO_SUCH_KEY }}'}\n",
    )
    both = capitals.run("eval", "capitals.yaml", "--target", "scripted", "--target", "real")
    assert both.returncode == 3
    failed = [row for row in capitals.rows() if row["target"] == "real"]
    assert len(failed) == 3
    assert all("NO_SUCH_KEY" in row["error"]["message"] for row in failed)
    alone = capitals.run("eval", "capitals.yaml", "--target", "real")
    assert alone.returncode == 2
    assert "NO_SUCH_KEY" in alone.stderr
    assert "agentv.config.yaml:3" in alone.stderr
    assert len(capitals.run_dirs()) == 1


def test_case_can_lower_its_threshold(capitals: Project) -> None:
    suite = (capitals.root / "capitals.yaml").read_text()
    capitals.write("capitals.yaml", suite.replace("- id: italy", "- id: italy\n    threshold: 0.7"))
    capitals.run("eval", "capitals.yaml", "--threshold", "0.99")
    assert {row["eval_id"]: row["verdict"] for row in capitals.rows()}["italy"] == "pass"


def test_out_receives_the_same_rows_and_replaces_the_file(capitals: Project) -> None:
    capitals.write("rows.jsonl", "old\n")
    capitals.run("eval", "capitals.yaml", "--out", "rows.jsonl")
    run = capitals.run_dirs()[-1]
    assert (capitals.root / "rows.jsonl").read_bytes() == (run / "results.jsonl").read_bytes()


def test_run_dir_is_used_and_rejected_if_it_contains_a_run(capitals: Project) -> None:
    assert capitals.run("eval", "capitals.yaml", "--run-dir", "here").returncode == 1
    before = (capitals.root / "here" / "results.jsonl").read_bytes()
    again = capitals.run("eval", "capitals.yaml", "--run-dir", "here")
    assert again.returncode == 2
    assert "already contains a run" in again.stderr
    assert (capitals.root / "here" / "results.jsonl").read_bytes() == before


def test_several_paths_make_one_run(capitals: Project) -> None:
    case = "evalcases: [{{id: {0}, input: France, evaluators: [{{type: contains, value: Paris}}]}}]\n"
    capitals.write("evals/one.yaml", case.format("a"))
    capitals.write("evals/deep/two.yaml", case.format("b"))
    capitals.write("evals/notes.yaml", "not: a suite\n")
    assert capitals.run("eval", "evals").returncode == 0
    assert sorted((row["suite"], row["eval_id"]) for row in capitals.rows()) == [("one", "a"), ("two", "b")]
    assert capitals.run("eval", "evals/**/*o.yaml").returncode == 0
    assert [row["suite"] for row in capitals.rows()] == ["two"]


def test_suites_with_the_same_name_cannot_share_case_ids(capitals: Project) -> None:
    case = "evalcases: [{id: a, input: France, evaluators: [{type: contains, value: Paris}]}]\n"
    capitals.write("one/eval.yaml", case)
    capitals.write("two/eval.yaml", case)
    done = capitals.run("eval", "one", "two")
    assert done.returncode == 2
    assert "dataset:" in done.stderr
    capitals.write("two/eval.yaml", "dataset: second\n" + case)
    assert capitals.run("eval", "one", "two").returncode == 0


def test_outputs_are_graded_without_a_target(capitals: Project) -> None:
    (capitals.root / "agentv.config.yaml").unlink()
    capitals.write(
        "answers.jsonl",
        """\
        {"eval_id": "france", "candidate_answer": "Paris", "cost_usd": 0.5}
        {"eval_id": "italy", "target": "other", "output_messages": [{"role": "assistant", "content": "Rome."}]}
        """,
    )
    done = capitals.run("eval", "capitals.yaml", "--outputs", "answers.jsonl")
    rows = {row["eval_id"]: row for row in capitals.rows()}
    assert done.returncode == 3
    assert rows["france"]["verdict"] == "pass"
    assert rows["france"]["cost_usd"] == 0.5
    assert (rows["italy"]["verdict"], rows["italy"]["target"]) == ("pass", "other")
    assert "no answer" in rows["spain"]["error"]["message"]


def test_results_file_can_be_used_as_outputs(capitals: Project) -> None:
    capitals.run("eval", "capitals.yaml", "--repeat", "2")
    first = capitals.run_dirs()[-1]
    capitals.run("eval", "capitals.yaml", "--outputs", str(first / "results.jsonl"))
    again = next(run for run in capitals.run_dirs() if run != first)

    def scores(run: Path) -> dict[tuple[str, str, int], float]:
        return {(r["eval_id"], r["target"], r["attempt"]): r["score"] for r in capitals.rows(run)}

    assert scores(again) == scores(first)
    assert len(scores(first)) == 6


def test_outputs_for_unknown_cases_are_rejected(capitals: Project) -> None:
    capitals.write("answers.jsonl", '{"eval_id": "no-such-case", "candidate_answer": "x"}\n')
    done = capitals.run("eval", "capitals.yaml", "--outputs", "answers.jsonl")
    assert done.returncode == 2
    assert "no-such-case" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nowhere.yaml"],
        ["nothing/*.yaml"],
        ["capitals.yaml", "--workers", "0"],
        ["capitals.yaml", "--config", "x"],
    ],
)
def test_usage_errors_exit_with_2_and_run_nothing(capitals: Project, arguments: list[str]) -> None:
    done = capitals.run("eval", *arguments)
    assert done.returncode == 2
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr
    assert capitals.run_dirs() == []


def test_mock_results_are_labelled_scripted(capitals: Project) -> None:
    assert "scripted model" in capitals.run("eval", "capitals.yaml").stdout
    assert capitals.manifest()["scripted"] is True


def test_timeout_option_ends_a_slow_command(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {slow: {provider: cli, command: [sleep, '600']}}\n")
    project.write("suite.yaml", "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: x}]}]\n")
    done = project.run("eval", "suite.yaml", "--timeout", "0.5")
    assert done.returncode == 3
    assert "0.5 s" in project.rows()[0]["error"]["message"]


def test_cli_target_runs_in_the_directory_of_its_configuration(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        """\
        targets:
          app:
            provider: cli
            command: [python, app.py, "{PROMPT}"]
            healthcheck: {type: command, command: test -f app.py}
          below: {provider: cli, command: [pwd], cwd: tools}
        """,
    )
    project.write("app.py", "import sys; print('answer to', sys.argv[1])\n")
    project.write("tools/notes.txt", "")
    cases = """\
        evalcases:
          - {id: beside, input: x, execution: {target: app}, evaluators: [{type: equals, value: answer to x}]}
          - {id: below, input: x, execution: {target: below}, evaluators: [{type: ends_with, value: /project/tools}]}
        """
    project.write("evals/deep/suite.yaml", cases)
    assert project.run("eval", "evals/deep/suite.yaml").returncode == 0
    assert project.run("eval", "suite.yaml", cwd=project.root / "evals/deep").returncode == 0


OPENAI_MESSAGES = [
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"city": "Oslo"}'}},
            {"id": "c2", "type": "function", "function": {"name": "book", "arguments": "not JSON"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "found"},
    {"role": "assistant", "content": "Booked."},
]


@pytest.mark.parametrize("source", ["cli", "outputs"])
def test_tool_calls_in_the_format_of_openai_are_understood(project: Project, source: str) -> None:
    project.write("answer.json", json.dumps({"output_messages": OPENAI_MESSAGES}))
    project.write("answers.jsonl", json.dumps({"eval_id": "a", "output_messages": OPENAI_MESSAGES}) + "\n")
    project.write("agentv.config.yaml", "targets: {agent: {provider: cli, command: [cat, answer.json]}}\n")
    trajectory = "{type: tool_trajectory, mode: exact, expected: [{tool: search, args: {city: Oslo}}, {tool: book}]}"
    project.write("suite.yaml", f"evalcases: [{{id: a, input: x, evaluators: [{trajectory}]}}]\n")
    done = project.run("eval", "suite.yaml", *(("--outputs", "answers.jsonl") if source == "outputs" else ()))
    assert done.returncode == 0, done.stdout
    (row,) = project.rows()
    assert row["output_messages"][0]["tool_calls"] == [
        {"tool": "search", "input": {"city": "Oslo"}, "id": "c1"},
        {"tool": "book", "input": "not JSON", "id": "c2"},
    ]
    assert row["output_messages"][1]["metadata"] == {"tool_call_id": "c1"}


def test_tool_call_of_an_unknown_shape_gets_the_expected_one(project: Project) -> None:
    call = {"name": "search", "arguments": {"city": "Oslo"}}
    project.write("answer.json", json.dumps({"output_messages": [{"role": "assistant", "tool_calls": [call]}]}))
    project.write("agentv.config.yaml", "targets: {agent: {provider: cli, command: [cat, answer.json]}}\n")
    project.write("suite.yaml", "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: x}]}]\n")
    assert project.run("eval", "suite.yaml").returncode == 3
    message = project.rows()[0]["error"]["message"]
    assert '`output_messages[0].tool_calls[0]` must be `{"tool": "search", "input": {...}}`' in message
    assert '"function": {"name": "search", "arguments": "{...}"}' in message
    assert "got an object with `name`, `arguments`" in message


def test_run_stops_if_its_only_target_is_unavailable(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {gpt: {provider: openai, model: x}}\n")
    project.write("suite.yaml", "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: x}]}]\n")
    done = project.run("eval", "suite.yaml", "--run-dir", "run", env={"OPENAI_API_KEY": ""})
    assert done.returncode == 2
    assert "set `api_key` or OPENAI_API_KEY" in done.stderr
    assert "Traceback" not in done.stderr
    assert (project.root / "run" / "results.jsonl").read_text() == ""


async def test_answer_that_was_cut_off_is_named_in_the_summary(project: Project) -> None:
    reply = completion("Paris is the capital of")
    reply["choices"][0]["finish_reason"] = "length"
    async with FakeModelServer(reply) as server:
        target = f"{{provider: openai, model: x, base_url: '{server.url}', api_key: k}}"
        project.write("agentv.config.yaml", f"targets: {{m: {target}}}")
        project.write("suite.yaml", "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: Paris}]}]")
        done = await asyncio.to_thread(project.run, "eval", "suite.yaml", "--run-dir", "run")
    assert done.returncode == 0, done.stderr
    assert "1 answer cut off at the token limit: see `max_output_tokens` of the target" in done.stdout
    (row,) = project.rows(project.root / "run")
    assert row["finish_reason"] == "length"
