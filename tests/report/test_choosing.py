"""A row is chosen by the name of its case, or because it is the worst."""

from __future__ import annotations

import pytest

from agentv.errors import UsageError
from agentv.record.reading import RowHead
from agentv.report.choosing import Choice, Wanted, choose, counterpart, largest_drop
from agentv.results import RowKey, Verdict, verdict_for


def head(
    eval_id: str, score: float, *, suite: str = "s", target: str = "t", attempt: int = 1, errored: bool = False
) -> RowHead:
    verdict = Verdict.FAIL if errored else verdict_for(score)
    return RowHead(RowKey(suite, eval_id, target, attempt), score, verdict, errored, 0, 0)


HEADS = [
    head("returns-1", 0.3),
    head("returns-2", 0.1),
    head("refund", 0.0, errored=True),
    head("greets", 1.0),
    head("greets", 0.9, suite="other"),
    head("returns-1", 0.2, target="u"),
    head("returns-1", 1.0, attempt=2),
    head("2", 1.0),
    head("a/b", 1.0),
]


def chosen(case: str | None = None, target: str | None = None, attempt: int | None = None) -> Choice:
    return choose(HEADS, Wanted(case, target, attempt), "run")


@pytest.mark.parametrize(
    ("wanted", "key"),
    [
        ((), ("s", "returns-2", "t", 1)),
        (("returns-1",), ("s", "returns-1", "u", 1)),
        (("returns-1", "t"), ("s", "returns-1", "t", 1)),
        (("returns-1", None, 2), ("s", "returns-1", "t", 2)),
        (("other/greets",), ("other", "greets", "t", 1)),
        (("s/gr",), ("s", "greets", "t", 1)),
        (("ref",), ("s", "refund", "t", 1)),
        (("re*",), ("s", "returns-2", "t", 1)),
        (("*",), ("s", "returns-2", "t", 1)),
        (("a/b",), ("s", "a/b", "t", 1)),
    ],
    ids=str,
)
def test_row_is_chosen_by_name(wanted: tuple[str], key: tuple[str, str, str, int]):
    assert chosen(*wanted).head.key == key


def test_neighbours_of_a_row_are_known():
    choice = chosen("returns-1", "t")
    assert [sibling.key[2:] for sibling in choice.siblings] == [("t", 1), ("t", 2), ("u", 1)]
    assert choice.not_passed == 4
    assert choice.next_worst is not None
    assert choice.next_worst.key.eval_id == "refund"
    assert chosen("refund").next_worst is None


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (("retruns-1",), r"run run has no case 'retruns-1' \(did you mean `returns-1`\?\)"),
        (("returns",), r"'returns' is ambiguous: 2 cases match.\nUse one of returns-1, returns-2;"),
        (("greets",), r"ambiguous: 2 cases match.\nUse one of other/greets, s/greets;"),
        (("zzz*",), "has no case 'zzz"),
        ((None, "zz"), r"has no target 'zz'\.\nIts targets: `t` and `u`"),
        ((None, None, 3), r"has no attempt 3\.\nIt has attempts 1 to 2"),
        (("refund", "u"), r"case 'refund' has no row with target 'u' in run run\.\nIt has: target t attempt 1"),
    ],
    ids=str,
)
def test_unknown_and_ambiguous_names_are_reported(wanted: tuple[str], message: str):
    with pytest.raises(UsageError, match=message):
        chosen(*wanted)


def test_run_without_rows_is_reported():
    with pytest.raises(UsageError, match="run run has no rows yet"):
        choose([], Wanted(), "run")


def test_row_of_another_run_is_of_the_same_case_and_if_possible_of_the_same_target_and_attempt():
    found = counterpart(head("returns-1", 0.5, attempt=2), HEADS)
    assert found is not None
    assert found.key == ("s", "returns-1", "t", 2)
    found = counterpart(head("returns-1", 0.5, target="new"), HEADS)
    assert found is not None
    assert found.key == ("s", "returns-1", "u", 1)
    assert counterpart(head("unknown", 0.5), HEADS) is None


def test_largest_drop_is_found():
    before = [head("a", 0.9), head("b", 0.9), head("c", 0.5), head("d", 1.0, errored=True)]
    after = [head("a", 0.8), head("b", 0.2), head("c", 0.0, errored=True), head("d", 0.0), head("new", 0.0)]
    drop = largest_drop(after, before)
    assert drop is not None
    assert drop.key.eval_id == "b"
    assert largest_drop(before, before) is None
