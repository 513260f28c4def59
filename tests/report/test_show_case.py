"""A case is shown with its question, answer, arithmetic, evaluators and judge calls, safely and within the width."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentv.codec import encode
from agentv.evidence import CaseRecord, EvaluatorRecord, JudgeCallRecord
from agentv.jsonio import dump_line
from agentv.messages import Message, TokenUsage, ToolCall
from agentv.record.reading import RunReader
from agentv.record.rows import encode_row
from agentv.record.run_dir import RunDirectory
from agentv.report.case_view import CaseView, score_sentences
from agentv.report.choosing import Wanted, choose
from agentv.report.show_case import render_case, render_list
from agentv.report.show_diff import diff_to_dict, render_diff
from agentv.report.terminal import Look, columns
from agentv.results import CaseError, CaseResult, Verdict
from tests.report.rows import result, row

NASTY = "\x1b[2J\x1b]0;title\x07red\u202eder \x9b31m\r\n::set-env name=x::y\n##[error]no"


def recorded(
    path: Path,
    rows: list[CaseResult],
    cases: list[CaseRecord] | None = None,
    calls: list[JudgeCallRecord] | None = None,
) -> RunReader:
    run = RunDirectory.create(path, {"run_id": path.name, "started_at": path.name, "cwd": str(path)})
    run.results.write_bytes(b"".join(map(encode_row, rows)))
    for file, records in ((run.cases, cases), (run.judge_calls, calls)):
        if records is not None:
            file.write_text("".join(f"{dump_line(encode(record))}\n" for record in records), encoding="utf-8")
    return RunReader.open(path)


def shown(reader: RunReader, look: Look | None = None, **wanted: Any) -> str:
    choice = choose(reader.heads(), Wanted(**wanted), "run")
    return render_case(CaseView.read(reader, choice.head), choice, [("agentv eval x", "run it again")], look or Look())


def full_case(**changes: Any) -> tuple[CaseResult, CaseRecord, list[JudgeCallRecord]]:
    judged = (
        result("judge", 0.8, weight=1.0, reasoning="Mostly right.", hits=("names the city",), misses=("no river",)),
        result(
            "rubric",
            0.2,
            type="rubric",
            details={
                "checks": [
                    {"id": "days", "satisfied": False, "reasoning": "It says 14.", "weight": 3},
                    {"id": "polite", "satisfied": True, "reasoning": "", "weight": 1},
                ],
                "model": "x",
            },
            warnings=("the judge returned unknown criteria",),
        ),
    )
    messages = (
        Message("assistant", "Let me look.", tool_calls=(ToolCall("search", {"q": "Paris"}, output="found it"),)),
        Message("assistant", "Paris"),
    )
    fields: dict[str, Any] = {
        "candidate_answer": "Paris",
        "output_messages": messages,
        "evaluator_results": judged,
        "threshold": 0.8,
        "token_usage": TokenUsage(10, 20),
        "cost_usd": 0.5,
        "duration_ms": 1500.0,
        "model": "large-1",
        "started_at": "2026-01-02T03:04:05.678Z",
    }
    recorded_row = row("paris", 0.5, **(fields | changes))
    case = CaseRecord(
        recorded_row.suite,
        "paris",
        "abc",
        (Message("system", "Be brief."), Message("user", "What is the capital of France?")),
        expected_outcome="Names Paris.",
        reference_answer="It is Paris.",
        threshold=0.8,
        evaluators=(
            EvaluatorRecord("judge", "llm_judge", threshold=0.9),
            EvaluatorRecord("rubric", "rubric", options={"rubrics": [{"id": "days", "description": "says 30 days"}]}),
        ),
        metadata={"lang": "fr"},
        tags=("geo", "slow"),
        file="suite.yaml",
        line=7,
    )
    key = recorded_row.key
    common: dict[str, Any] = {"system_prompt": "You are a judge.", "reply": {"rawText": '{"score": 0.8}'}}
    calls = [
        JudgeCallRecord(*key, "rubric", 1, "strict", "ok", question="Check.", cache_hit=True, **common),
        JudgeCallRecord(
            *key, "judge", 1, "strict", "ok", model="small-2", question="Grade Paris.", retries=2, waited_ms=3000.0,
            duration_ms=1200.0, token_usage=TokenUsage(400, 50), cost_usd=0.0011, **common,
        ),
        JudgeCallRecord(*key, "judge", 2, "strict", "failed", code="upstream_error", error="503 from the judge"),
    ]  # fmt: skip
    return recorded_row, case, calls


def test_everything_about_a_case_is_shown(tmp_path: Path):
    recorded_row, case, calls = full_case()
    text = shown(recorded(tmp_path / "run", [row("other"), recorded_row], [case], calls), Look(width=100))
    assert text.startswith("✗ paris  fail 0.50, needs 0.80\n  suite     geography (suite.yaml:7)\n")
    for part in (
        "target    assistant, model large-1",
        "run       run, 2026-01-02 03:04:05",
        "usage     1.5 s, 10 tokens in, 20 out, $0.5000",
        "tags      geo, slow",
        'metadata  {"lang": "fr"}',
        "Question\n  system\n    Be brief.\n\n  user\n    What is the capital of France?\n",
        "Expected\n  Names Paris.\n",
        "Reference answer\n  It is Paris.\n",
        "Answer\n  Paris\n",
        'Tool calls  1 call\n  assistant: Let me look.\n  1. search {"q": "Paris"}\n    found it\n',
        "Score\n  0.5 x 0.80 + 0.5 x 0.20 = 0.50, needs 0.80\n",
        "✓ judge (llm_judge)  pass 0.80, needs 0.90  weight 1, 0 ms\n"
        "    Mostly right.\n    + names the city\n    - no river\n",
        "    - days: says 30 days (weight 3)\n      It says 14.\n    + polite\n"
        "    warning: the judge returned unknown criteria\n"
        '    details: {"model": "x"}\n',
        "Judge calls  3 calls\n  1. judge → strict (small-2)  ok\n"
        "    1.2 s, 400 tokens in, 50 out, $0.0011, waited 3.0 s for a free place, 2 retries\n"
        "    system prompt\n      You are a judge.\n    prompt\n      Grade Paris.\n    reply\n"
        '      {"score": 0.8}\n',
        "  2. judge → strict  failed (upstream_error)\n    0 ms\n    503 from the judge\n    The prompt and the reply",
        "  3. rubric → strict  ok\n    0 ms, from the cache\n    system prompt: as in call 1\n    prompt\n      Check.",
        "Next\n  run it again  agentv eval x",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    ("fields", "sentences"),
    [
        ({}, ["0.5 x 0.80 + 0.5 x 0.20 = 0.50, needs 0.80"]),
        ({"threshold": None}, ["0.5 x 0.80 + 0.5 x 0.20 = 0.50"]),
        ({"evaluator_results": (result("one", 0.5),)}, ["0.50, needs 0.80"]),
        ({"evaluator_results": ()}, ["0.50, needs 0.80"]),
        (
            {"evaluator_results": (result("a", 1.0, weight=2.0), result("b", 0.0), result("c", 0.3, weight=0.0))},
            ["0.67 x 1.00 + 0.33 x 0.00 = 0.50, needs 0.80", "c: weight 0, not part of the score"],
        ),
        (
            {"evaluator_results": (result("a", 1.0), result("b", 0.2, required=True)), "threshold": 0.125},
            ["b is required and did not pass: the score is 0",
             "without `required`: 0.5 x 1.00 + 0.5 x 0.20 = 0.60, needs 0.125"],
        ),
        (
            {"evaluator_results": (result("a", 0.0, error="no judge"),), "error": CaseError("evaluator", "no judge")},
            ["0.50, needs 0.80", "a errored: the case is counted as an error, not as a failure"],
        ),
        ({"evaluator_results": (), "error": CaseError("target", "down")}, ["no score: target error"]),
    ],
    ids=["two", "old", "one", "none", "weights", "required", "evaluator error", "target error"],
)  # fmt: skip
def test_score_is_explained(fields: dict[str, Any], sentences: list[str]):
    shown_row, _, _ = full_case(**fields)
    assert score_sentences(shown_row, shown_row.threshold) == sentences


@pytest.mark.parametrize("unicode", [True, False])
def test_untrusted_text_is_harmless_and_fits_the_width(tmp_path: Path, unicode: bool):
    recorded_row, case, calls = full_case(candidate_answer=f"{NASTY} {'word ' * 100}{'x' * 300}", model=NASTY)
    case = CaseRecord(
        case.suite, "paris", "a", (Message("user", f"    {'code ' * 40}"), Message("tool", [{"a": NASTY}]))
    )
    calls[0] = JudgeCallRecord(*recorded_row.key, NASTY, 1, NASTY, "ok", question=NASTY * 10, reply={"x": NASTY})
    reader = recorded(tmp_path / "run", [recorded_row], [case], calls)
    look = Look(width=80, unicode=unicode)
    text = shown(reader, look)
    assert [line for line in text.split("\n") if columns(line) > 80] == []
    view = CaseView.read(reader, reader.heads()[0])
    other = render_diff(view, view, look)
    for page in (text, other):
        assert page.isascii() or unicode
        assert not any(character in page for character in "\x1b\x07\x9b\u202e\r")
        assert not re.search(r"^\s*::", page, re.MULTILINE)
        assert "##[" not in page
    assert ("␛[2J" if unicode else "\\u241b[2J") in text
    # Indented lines stay indented when they are wrapped.
    assert [line[:8] for line in text.split("\n") if "code" in line] == ["        "] * 3


def test_runs_of_older_versions_are_shown_without_the_question(tmp_path: Path):
    old = row("old", 0.3, candidate_answer="Lyon", misses=("Paris",))
    text = shown(recorded(tmp_path / "run", [old]))
    assert "This run was recorded without its cases" in text
    assert "Answer\n  Lyon" in text
    assert "- Paris" in text
    assert "Judge calls" not in text


def test_errors_and_other_attempts_are_shown(tmp_path: Path):
    failed = row("x", 0.0, error=CaseError("target", "connection refused"), evaluator_results=(), attempt=2)
    reader = recorded(tmp_path / "run", [row("x", 1.0), failed, row("x", 0.7, attempt=3)])
    text = shown(reader, Look(width=100), attempt=2)
    assert text.startswith("! x  target error\n")
    assert "Error  of the target\n  connection refused\n" in text
    assert "also    this is attempt 2, 1/3 passed; attempt 1: pass 1.00; attempt 3: borderline 0.70" in text
    assert "no score: target error" in text


def test_members_files_and_expected_tool_calls_are_shown(tmp_path: Path):
    member = result("inner", 0.0, type="regex", misses=("does not match 'z'",))
    both = result("both", 0.0, type="composite", misses=("[inner] does not match 'z'",), evaluator_results=(member,))
    asked = Message("user", [{"type": "text", "value": "Review this."}, {"type": "file", "value": "code.py"}])
    expected = (Message("assistant", {"a": 1}, tool_calls=(ToolCall("search", {"q": 1}),)),)
    case = CaseRecord("geography", "x", "abc", (asked,), expected_messages=expected)
    text = shown(recorded(tmp_path / "run", [row("x", 0.0, evaluator_results=(both,))], [case]))
    assert "Question\n  Review this.\n  (file code.py)\n" in text
    assert 'Expected messages\n  assistant\n    {"a": 1}\n    → search {"q": 1}\n' in text
    assert text.count("does not match") == 1


def test_judge_calls_of_superseded_rows_are_counted_only(tmp_path: Path):
    key = row("x", 0.1).key
    calls = [
        JudgeCallRecord(*key, "accuracy", 1, "strict", "failed", question="first"),
        JudgeCallRecord(*key, "accuracy", 1, "strict", "ok", question="second", execution=2),
    ]
    reader = recorded(tmp_path / "run", [row("x", 0.1)], None, calls)
    reader.directory.superseded.write_bytes(encode_row(row("x", 0.0)))
    text = shown(reader)
    assert "second" in text
    assert "first" not in text
    assert "and 1 call of rows that were superseded (see --json)" in text


@pytest.mark.parametrize(("count", "sentence"), [(1, "1 call was taken from"), (3, "3 calls were taken from")])
def test_calls_taken_from_the_record_are_counted(tmp_path: Path, count: int, sentence: str):
    judged = result("judge", 0.5, judge={"call_count": 4, "from_record": count})
    resumed = row("x", 0.5, evaluator_results=(judged,))
    calls = [JudgeCallRecord(*resumed.key, "judge", index, "strict", "ok") for index in range(1, 5)]
    text = shown(recorded(tmp_path / "run", [resumed], None, calls))
    assert f"{sentence} the record when the run was resumed" in text


def test_damaged_lines_are_counted(tmp_path: Path):
    reader = recorded(tmp_path / "run", [row("x", 0.1)])
    with reader.directory.results.open("ab") as file:
        file.write(b"garbage\n{}\n")
    assert "Damaged\n  2 lines of results.jsonl could not be read and were skipped." in shown(reader)


def test_rows_are_listed_in_one_line_each(tmp_path: Path):
    failed = row("e", 0.0, error=CaseError("target", "no"), evaluator_results=(), target="b")
    reader = recorded(tmp_path / "run", [row("x", 0.1), failed, row("long" * 40, suite="other")])
    lines = render_list(reader.heads(), Look(width=60)).split("\n")
    assert lines[0] == "0.10  fail        geography/x  (assistant)"
    assert lines[1] == "   -  error       geography/e  (b)"
    assert columns(lines[2]) == 60


# -- two runs


def two_runs(tmp_path: Path) -> tuple[CaseView, CaseView]:
    old, case, _ = full_case(candidate_answer="It is Lyon. It has\n  two rivers.")
    new_case = CaseRecord(
        **{name: getattr(case, name) for name in CaseRecord.__slots__} | {"expected_outcome": "Paris!"}
    )
    judged = (result("judge", 1.0, hits=("names the city",)), old.evaluator_results[1], result("new", 1.0))
    new, _, _ = full_case(candidate_answer="It is Paris. It has\n  two rivers.", evaluator_results=judged)
    new = CaseResult(**{n: getattr(new, n) for n in CaseResult.__slots__} | {"score": 0.9, "verdict": Verdict.PASS})
    readers = [recorded(tmp_path / "one", [old], [case]), recorded(tmp_path / "two", [new], [new_case])]
    before, after = (CaseView.read(reader, reader.heads()[0]) for reader in readers)
    return before, after


def test_two_runs_are_stacked_on_a_narrow_terminal(tmp_path: Path):
    views = two_runs(tmp_path)
    text = render_diff(*views, Look(width=80))
    assert all(columns(line) <= 80 for line in text.split("\n")[:-2])
    for part in (
        "paris  fail 0.50 → pass 0.90  (+0.400)\n",
        "The case was changed between the runs: expected outcome.",
        "Expected\n  [-Names-] Paris[-.-]{+!+}",
        "Answer\n  It is [-Lyon-]{+Paris+}. It has\n    two rivers.\n",
        "Score\n  before  0.5 x 0.80 + 0.5 x 0.20 = 0.50, needs 0.80\n  after   0.33 x 1.00 +",
        "judge  +0.200\n  before  ✓ pass 0.80\n          Mostly right.\n",
        "new\n  before  (not used)\n  after   ✓ pass 1.00",
    ):
        assert part in text, text
    assert diff_to_dict(*views)["case_changed"] == ["expected outcome"]
    assert json.dumps(diff_to_dict(*views))


def test_two_runs_are_side_by_side_on_a_wide_terminal(tmp_path: Path):
    text = render_diff(*two_runs(tmp_path), Look(width=120, color=True))
    assert "It is \x1b[31mLyon\x1b[0m. It has" in text
    assert "It is \x1b[32mParis\x1b[0m. It has" in text
    plain = render_diff(*two_runs(tmp_path / "again"), Look(width=120))
    lines = [line for line in plain.split("\n") if "│" in line]
    assert {line.index("│") for line in lines} == {60}
    assert "  It is Lyon. It has" + " " * 40 + "│ It is Paris. It has" in lines
