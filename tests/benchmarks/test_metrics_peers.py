"""The comparison of the ready metrics with DeepEval: our side of the table in the documentation is up to date."""

from __future__ import annotations

import json

import pytest
from benchmarks.metrics_peers import BEGIN, CASES, END, PAGE, PEERS, Case, for_peer, ours, shown, table

from agentv.metrics import METRICS

ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip().splitlines()[2:]
]


def test_every_metric_is_compared_and_every_case_is_in_the_page() -> None:
    assert set(PEERS) == set(METRICS) == {case.metric for case in CASES}
    assert [(case.metric, case.about) for case in CASES] == [(row[0].strip("`"), row[1]) for row in ROWS]


@pytest.mark.parametrize(
    ("case", "row"), list(zip(CASES, ROWS, strict=True)), ids=[f"{c.metric}: {c.about}" for c in CASES]
)
def test_the_page_has_our_score_and_calls(case: Case, row: list[str]) -> None:
    measured = ours(case)
    assert (shown(measured), str(measured["calls"])) == (row[2], row[4].split(" / ")[0]), measured
    assert (row[5] == "equal") == (row[2] == row[3])
    json.dumps(for_peer(case))


def test_an_unexplained_difference_is_marked() -> None:
    case = CASES[0]
    marked = table([case], [{"score": 0.5, "calls": 1}], [{"score": 1.0, "calls": 2}], "Other 1.0")
    assert marked.splitlines()[-1] == f"| `{case.metric}` | {case.about} | 0.5 | 1 | 1 / 2 | **different** |"
