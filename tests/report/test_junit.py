"""JUnit XML that CI systems accept."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentv.report.annotations import Place
from agentv.report.junit import render_junit
from agentv.results import CaseResult, RowKey, Trials
from tests.report.rows import error_row, result, row
from tests.report.sources import HOSTILE

LEGAL = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")


def report(rows: list[CaseResult], *arguments) -> ET.Element:
    text = "".join(render_junit(rows, *arguments))
    assert LEGAL.fullmatch(text)
    return ET.fromstring(text.encode("utf-8"))


def check_counts(root: ET.Element) -> None:
    """Check the structure that every JUnit XML parser relies on."""
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.tag == "testsuite"
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "")) == len(cases)
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("errors", "")) == len(suite.findall("testcase/error"))
        assert float(suite.get("time", "")) >= 0
        for case in cases:
            assert case.get("name")
            assert case.get("classname")
            assert float(case.get("time", "")) >= 0
            assert next(child.tag for child in case) == "properties"
            assert {child.tag for child in case} <= {"properties", "failure", "error"}
            assert len(case) <= 2
    for name in ("tests", "failures", "errors"):
        assert int(root.get(name, "")) == sum(int(suite.get(name, "")) for suite in root)


def test_failed_and_borderline_are_failures_and_errored_is_an_error():
    rows = [row("good"), row("near", 0.7), row("bad", 0.1, misses=("names Lyon",)), error_row("broken", "no JSON")]
    root = report(rows)
    check_counts(root)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("4", "2", "1")
    kinds = {case.get("name"): [child.tag for child in case][1:] for case in root.iter("testcase")}
    assert kinds == {"good": [], "near": ["failure"], "bad": ["failure"], "broken": ["error"]}
    failure = root.find("testsuite/testcase[@name='bad']/failure")
    assert failure is not None
    assert failure.get("message") == "score 0.10, fail: missed: names Lyon"
    assert failure.get("type") == "fail"
    assert "accuracy (llm_judge): fail, score 0.10\n  missed: names Lyon" in (failure.text or "")


def test_one_test_suite_per_suite_and_target_in_any_order_of_rows():
    rows = [row("a", suite=s, target=t) for _ in range(1) for t in ("x", "y") for s in ("s", "t")]
    root = report(rows)
    check_counts(root)
    assert [suite.get("name") for suite in root] == ["s (x)", "s (y)", "t (x)", "t (y)"]
    assert len({(case.get("classname"), case.get("name")) for case in root.iter("testcase")}) == 4


def test_attempts_of_a_case_are_one_test_case():
    repeated = [row("a"), row("a", 0.2, attempt=2, misses=("no",)), error_row("a", "down", attempt=3), row("b")]
    root = report([replace(each, trials=Trials(3)) for each in repeated])
    flaky, other = root.iter("testcase")
    assert (flaky.get("name"), other.get("name"), root.get("tests"), root.get("errors")) == ("a", "b", "2", "2")
    error = flaky.find("error")
    assert error is not None
    assert error.get("message") == "1 of 3 attempts errored; attempt 2: score 0.20, fail: missed: no"
    assert flaky.findtext("system-out") == (
        "attempt 1: score 1.00, pass\nattempt 2: score 0.20, fail: missed: no\nattempt 3: target error: down"
    )
    missing = other.find("error")
    assert missing is not None
    assert missing.get("message") == "2 of 3 attempts are missing; 1/1 passed"


def test_rows_without_trials_pass_if_more_than_half_of_the_attempts_pass():
    (case,) = report([row("a"), row("a", 0.7, attempt=2)]).iter("testcase")
    failure = case.find("failure")
    assert failure is not None
    assert str(failure.get("message")).startswith(
        "score 0.85, borderline, 1/2 flaky; attempt 2: score 0.70, borderline"
    )
    assert [case.get("name") for case in report([row("a")]).iter("testcase")] == ["a"]


def test_times_and_properties_are_written():
    root = report(
        [row("a", duration_ms=1234.5, cost_usd=0.002, started_at="2026-01-14T10:15:00+00:00")], {"run_id": "r1"}
    )
    suite, case = root[0], root[0].find("testcase")
    assert case is not None
    assert (root.get("time"), suite.get("time"), case.get("time")) == ("1.234", "1.234", "1.234")
    assert suite.get("timestamp") == "2026-01-14T10:15:00"
    properties = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert properties["run_id"] == "r1"
    assert (properties["score"], properties["verdict"], properties["cost_usd"]) == ("1", "pass", "0.002")


def test_case_that_did_not_pass_has_its_file_and_line():
    def locate(key: RowKey) -> Place | None:
        return Place("evals/a.yaml", 7) if key.eval_id == "a" else None

    cases = list(report([row("a", 0.1), row("b", 0.1)], {}, locate).iter("testcase"))
    assert [(case.get("file"), case.get("line")) for case in cases] == [("evals/a.yaml", "7"), (None, None)]


def hostile_rows(text: str) -> list[CaseResult]:
    judged = (result(text or "e", 0.1, misses=(text,), reasoning=text, type=text),)
    names = {"suite": text, "target": text, "candidate_answer": text}
    return [row(f"a{text}", 0.1, evaluator_results=judged, **names), error_row(f"b{text}", text, text, **names)]


def test_markup_and_commands_in_rows_are_escaped():
    text = "".join(render_junit(hostile_rows(HOSTILE)))
    check_counts(ET.fromstring(text.encode("utf-8")))
    assert "<img" not in text
    assert "]]>" not in text
    assert "##[" not in text
    assert not re.search(r"^\s*::", text, re.MULTILINE)
    failure = ET.fromstring(text.encode("utf-8")).find(".//failure")
    assert failure is not None
    assert "::stop-commands::x\n##[add-mask]y <img src=x onerror=alert(1)> | `c` ]]>" in (failure.text or "")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
@settings(max_examples=50, deadline=None)
def test_any_text_produces_well_formed_xml(text: str):
    check_counts(report(hostile_rows(f"s{text}"), {"scripted": text}))


@pytest.mark.parametrize("character", ["\x00", "\x0b", "\x1b", "\x7f", "\ufffe", "\uffff"])
def test_characters_not_allowed_in_xml_are_replaced(character: str):
    root = report(hostile_rows(f"before{character}after"))
    assert "before" in ET.tostring(root, encoding="unicode")


def test_no_rows_produce_an_empty_report():
    root = report([])
    check_counts(root)
    assert root.get("tests") == "0"


def test_long_answers_are_truncated():
    text = "".join(render_junit([row("a", 0.1, candidate_answer="x" * 1_000_000, misses=("y" * 1_000_000,))]))
    assert len(text) < 20_000


def test_incomplete_run_adds_a_test_case_with_an_error():
    root = report([row("a")], None, lambda _: None, lambda rows: f"{20 - rows} of 20 results missing")
    check_counts(root)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "0", "1")
    error = root.find("testsuite[@name='agentv']/testcase/error")
    assert error is not None
    assert error.get("message") == "19 of 20 results missing"
