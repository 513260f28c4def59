"""Filter expressions choose the same cases as Python does from the rows, and say what is wrong with them."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page

from agentv.view.library import Library
from tests.view.bookshop import Bookshop

Row = dict[str, Any]

CHOOSE = """async ({columns, expressions}) => {
  const {RunModel} = await import("/run_model.js");
  const {parseFilter} = await import("/filter.js");
  const {readColumns} = await import("/packed_columns.js");
  const bytes = Uint8Array.from(atob(columns), (character) => character.charCodeAt(0));
  const data = await readColumns(new Blob([bytes]).stream());
  await data.complete();
  const model = new RunModel(null, "run", null, data);
  return expressions.map((text) => {
    const filter = parseFilter(text);
    if (filter.error) return filter;
    const ids = [];
    for (let c = 0; c < model.cases.count; c++)
      if (filter.test(model, c)) ids.push(model.eval_id.at(model.cases.first[c]));
    return {ids};
  });
}"""
PARSE = """async (expressions) => {
  const {parseFilter} = await import("/filter.js");
  return expressions.map((text) => parseFilter(text).error ?? null);
}"""
EDIT = """async ({text, steps}) => {
  const {parseFilter, condition} = await import("/filter.js");
  for (const [name, value, ...others] of steps)
    text = parseFilter(text).toggled(condition(name, value), [value, ...others].map((one) => condition(name, one)));
  return text;
}"""


def columns(project: Bookshop, run: str) -> str:
    """The bytes of the columns, as base64."""
    return b64encode(Library(project.root).columns(project.runs[run])[0]).decode("ascii")


def scored(row: Row, name: str) -> float | None:
    return next(
        (one["score"] for one in row["evaluator_results"] if one["name"] == name and not one.get("error")), None
    )


def calls(row: Row, tool: str) -> int:
    return sum(call["tool"] == tool for one in row["output_messages"] for call in one.get("tool_calls", ()))


TESTS: dict[str, Callable[[Row], bool]] = {
    "": lambda row: True,
    "score<0.6": lambda row: row["error"] is None and row["score"] < 0.6,
    "score = 1": lambda row: row["error"] is None and row["score"] == 1,
    "verdict!=pass": lambda row: row["error"] is not None or row["verdict"] != "pass",
    "metadata.language=de": lambda row: row["metadata"]["language"] == "de",
    'metadata."language" = "de"': lambda row: row["metadata"]["language"] == "de",
    "metadata.difficulty!=hard": lambda row: row["metadata"]["difficulty"] != "hard",
    "metadata.missing!=x": lambda row: True,
    "evaluator.precision<0.8": lambda row: (one := scored(row, "precision")) is not None and one < 0.8,
    "evaluator.precision=unknown": lambda row: scored(row, "precision") is None,
    "tools.check_policy>0 or tools.lookup_order>1": lambda row: (
        calls(row, "check_policy") > 0 or calls(row, "lookup_order") > 1
    ),
    "suite=agent and not verdict=pass": lambda row: (
        row["suite"] == "agent" and (row["error"] is not None or row["verdict"] != "pass")
    ),
    "id~REFUND": lambda row: "refund" in row["eval_id"],
    "not (id~refund or suite==support)": lambda row: "refund" not in row["eval_id"] and row["suite"] != "support",
    "duration<1 and duration>=0": lambda row: row["duration_ms"] < 1000,
    "answer_length>40": lambda row: len(row["candidate_answer"]) > 40,
    "attempts>1": lambda row: False,
    "tools and not newly_failed": lambda row: any(one.get("tool_calls") for one in row["output_messages"]),
    "score<0.9 and verdict=pass or id=return-a-book": lambda row: (
        (row["error"] is None and row["score"] < 0.9 and row["verdict"] == "pass") or row["eval_id"] == "return-a-book"
    ),
}


def test_filters_choose_the_same_cases_as_python(module_page: Page, rich_project: Bookshop) -> None:
    rows = rich_project.rows("new-prompt")
    chosen = module_page.evaluate(CHOOSE, {"columns": columns(rich_project, "new-prompt"), "expressions": list(TESTS)})
    for (text, test), result in zip(TESTS.items(), chosen, strict=True):
        assert "error" not in result, (text, result)
        assert result["ids"] == [row["eval_id"] for row in rows if test(row)], text
    assert len({len(result["ids"]) for result in chosen}) > 6


def test_cases_with_several_attempts_count_once(module_page: Page, rich_project: Bookshop) -> None:
    rows = rich_project.rows("summaries")
    by_case: dict[str, list[Row]] = {}
    for row in rows:
        by_case.setdefault(row["eval_id"], []).append(row)
    expressions = ["attempts=4", "flaky", "passes<4", "score>0.8"]
    chosen = module_page.evaluate(CHOOSE, {"columns": columns(rich_project, "summaries"), "expressions": expressions})

    def passes(case: list[Row]) -> int:
        return sum(row["verdict"] == "pass" for row in case)

    expected = [
        list(by_case),
        [name for name, case in by_case.items() if 0 < passes(case) < len(case)],
        [name for name, case in by_case.items() if passes(case) < 4],
        [name for name, case in by_case.items() if round(sum(row["score"] for row in case) / len(case), 12) > 0.8],
    ]
    assert [result["ids"] for result in chosen] == expected


ERRORS = {
    "scor<0.6": "unknown name `scor`; names are id, suite, tag, metadata., target, prompt, verdict, score",
    "score<0.6 nd id=a": "expected `and` or `or`, got `nd id=a`",
    "score<": "expected a value after score<, got the end",
    "score<high": "expected a number or `unknown` after score<, got `high`",
    "score~1": "`score` is a number",
    "id<3": "`id` is text",
    "verdict=failed": "expected pass, borderline, fail, error, incomplete, got `failed`",
    "(score<1": "expected `)`, got the end",
    "score<1)": "expected `and` or `or`, got `)`",
    "score=!1": "`score` is a number: use =, !=, <, <=, > or >=",
    "score<1 and": "expected a condition such as score<0.6, got the end",
    'id="a': 'expected a value after id=, got `"a`',
    "metadata.=1": "unknown name `metadata.`",
    "!flaky": "expected a condition",
}


def test_errors_say_what_is_allowed(module_page: Page) -> None:
    for problem, result in zip(ERRORS.values(), module_page.evaluate(PARSE, list(ERRORS)), strict=True):
        assert problem in (result or "")


def test_hostile_expressions_do_not_hang(module_page: Page) -> None:
    expressions = [
        "(" * 100_000,
        "(" * 2_000 + "score<1" + ")" * 2_000,
        "not " * 999 + "flaky",
        "score<1 and " * 300 + "flaky",
        "id~" + "(a+)+" * 700,
        "id~" + "a" * 3_990,
        'id="' + "\\" * 3_990,
        "x" * 4_000,
        "." * 4_000,
        "metadata." + "a." * 1_900 + "a=1",
        " " * 4_000,
        "score<" + "9" * 3_900,
        "\u202e=\u0000",
        "__proto__=1 and constructor=1",
        "metadata.__proto__=1",
    ]
    start = time.monotonic()
    results = module_page.evaluate(PARSE, expressions)
    assert time.monotonic() - start < 5
    accepted = [text[:20] for text, result in zip(expressions, results, strict=True) if result is None]
    assert accepted == [
        "score<1 and score<1 ",
        "id~" + "a" * 17,
        "metadata.a.a.a.a.a.a",
        " " * 20,
        "metadata.__proto__=1",
    ]


def test_clicked_values_are_alternatives_and_can_be_removed(module_page: Page) -> None:
    def edited(text: str, *steps: tuple[str, ...]) -> str:
        result: str = module_page.evaluate(EDIT, {"text": text, "steps": [list(step) for step in steps]})
        return result

    assert edited("", ("tag", "a")) == "tag=a"
    assert edited("tag = a", ("tag", "b", "a")) == "(tag=a or tag=b)"
    assert edited("(tag=a or tag=b)", ("tag", "a", "b")) == "tag=b"
    assert edited("tag=b", ("tag", "b")) == ""
    assert edited("score<1 or flaky", ("tag", "b c")) == '(score<1 or flaky) and tag="b c"'
    assert edited("tag=a and score<1", ("metadata.x y", 'quo"te')) == 'tag=a and score<1 and metadata."x y"="quo\\"te"'
    assert edited("score<1 and not tag=a", ("tag", "a"), ("tag", "a")) == "score<1 and not tag=a"
