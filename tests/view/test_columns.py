"""Columns say the same as the rows they were made from, also while the run is being written."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentv.errors import RecordError
from agentv.messages import Message, TokenUsage, ToolCall
from agentv.record.reading import lines_from
from agentv.record.rows import decode_row, encode_row
from agentv.results import CaseError, CaseResult, PassIf, RowKey, Trials
from agentv.view import columns as columns_module
from agentv.view.column_cache import SUFFIX, ColumnCache, cache_of
from agentv.view.columns import ColumnStore
from agentv.view.packed_columns import unpack
from agentv.view.row_columns import RowColumns
from tests.report.rows import error_row, ledger, result, row
from tests.view.records import WrittenRun, case_of, some_rows

ID = "20261101-090000-000000001"
OUTCOMES = ("pass", "borderline", "fail")


def store_of(run: WrittenRun, **options: Any) -> ColumnStore:
    store = ColumnStore(run.directory, **options)
    store.refresh()
    return store


def names(data: dict[str, Any]) -> list[str]:
    return [f"{data['eval_id'][i]}/{data['attempt'][i]}" for i in range(data["count"])]


strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
amounts = st.none() | st.floats(0, 1e6)
results = st.builds(
    result,
    name=st.sampled_from(["accuracy", "style", "Ω"]),
    score=st.floats(0, 1),
    weight=st.floats(0, 5),
    misses=st.lists(strings, max_size=3).map(tuple),
    error=st.none() | strings,
    judge=st.none() | st.builds(ledger, st.integers(0, 5), amounts),
)
rows = st.builds(
    row,
    eval_id=strings,
    score=st.floats(0, 1),
    suite=st.sampled_from(["s", "t"]),
    target=st.sampled_from(["a", "b"]),
    attempt=st.integers(1, 3),
    error=st.none() | st.builds(CaseError, st.sampled_from(["target", "evaluator", "run", "other"]), strings),
    candidate_answer=strings,
    evaluator_results=st.lists(results, max_size=3).map(tuple),
    cost_usd=amounts,
    duration_ms=amounts,
    threshold=st.none() | st.floats(0, 1),
    token_usage=st.none() | st.builds(TokenUsage, st.integers(0, 10**9), st.integers(0, 10**9)),
    metadata=st.dictionaries(strings, strings | st.integers() | st.booleans() | st.none(), max_size=3),
    trials=st.none() | st.builds(Trials, st.integers(1, 5), st.sampled_from(PassIf), st.booleans()),
    output_messages=st.lists(
        st.builds(
            Message,
            st.just("assistant"),
            strings,
            tool_calls=st.lists(st.builds(ToolCall, st.sampled_from(["x", "y"])), max_size=3).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(given_rows=st.lists(rows, max_size=8, unique_by=lambda one: one.key))
def test_columns_agree_with_the_strict_decoder(
    given_rows: list[CaseResult], tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = WrittenRun(tmp_path_factory.mktemp("run"), ID, given_rows)
    store = store_of(run)
    data, decoded = store.columns(), [decode_row(line) for line in run.directory.results.read_bytes().splitlines()]
    assert data["count"] == len(decoded)
    for at, one in enumerate(decoded):
        assert store.keys()[at] == one.key
        outcome = 3 if one.error is not None else OUTCOMES.index(one.verdict.value)
        assert (data["score"][at], data["outcome"][at]) == (one.score, outcome)
        assert data["threshold"][at] == one.threshold
        assert data["stage"][at] == (data["stages"].index(one.error.stage) if one.error else -1)
        assert data["answer_length"][at] == len(one.candidate_answer)
        assert data["cost_usd"][at] == (None if one.cost_usd is None else round(one.cost_usd, 9))
        assert data["duration_ms"][at] == (None if one.duration_ms is None else round(one.duration_ms, 1))
        usage = one.token_usage
        assert data["tokens"][at] == (None if usage is None else usage.input + usage.output + (usage.cached or 0))
        ledgers = [each.judge for each in one.evaluator_results if each.judge]
        assert data["judge_calls"][at] == sum(each["call_count"] for each in ledgers)
        scores = {each.name: each.score for each in reversed(one.evaluator_results) if each.error is None}
        for number, name in enumerate(data["evaluators"]):
            assert data["evaluator_scores"][number][at] == scores.get(name)
        trials = one.trials or Trials()
        shown = {"count": trials.count, "pass_if": trials.pass_if.value, "stop_early": trials.stop_early}
        assert data["trials"][data["trial"][at]] == shown
        tools = [call.tool for message in one.output_messages for call in message.tool_calls]
        for number, name in enumerate(data["tools"]):
            assert data["tool_calls"][number][at] == tools.count(name)
        for key, index in data["metadata_index"].items():
            value = one.metadata.get(key)
            text = value if isinstance(value, str) else json.dumps(value)
            assert (data["metadata"][key][index[at]] if index[at] >= 0 else None) == (None if value is None else text)
    traces = [one.output_messages if any(each.tool_calls for each in one.output_messages) else () for one in decoded]
    answers = [(one.candidate_answer, trace) for one, trace in zip(decoded, traces, strict=True)]
    assert [answers.index(answer) for answer in answers] == [data["answer"].index(number) for number in data["answer"]]


def test_appended_rows_continue_the_columns(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ID, some_rows(ID, 1.0, 0.5))
    store = store_of(run)
    first, generation = store.columns(), store.generation
    run.append(row("c2", 0.2, run_id=ID, target="other", metadata={"lang": "en"}), error_row("c3", "down", run_id=ID))
    assert store.refresh()
    more, everything = unpack(store.packed(2)), store.columns()
    assert store.generation == generation
    assert (more["start"], more["count"], everything["count"]) == (2, 2, 4)
    assert more["targets"][: len(first["targets"])] == first["targets"]
    for name in ("score", "outcome", "target", "answer"):
        assert first[name] + list(more[name]) == everything[name]
    for name in ("eval_id", "question", "reason"):
        strings = [*dict.fromkeys(first[name]), *more[name].strings]
        assert first[name] + [strings[number] for number in more[name].index] == everything[name]
    assert everything == store_of(run, cached=False).columns()
    assert not store.refresh()


def test_a_start_after_the_end_is_an_empty_reply(tmp_path: Path) -> None:
    store = store_of(WrittenRun(tmp_path, ID, some_rows(ID, 1.0)))
    after, before = unpack(store.packed(9)), unpack(store.packed(-1))
    assert (after["start"], after["count"], list(after["score"]), before["count"]) == (1, 0, [], 1)


def test_replaced_rows_change_the_generation(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ID, [*some_rows(ID, 1.0), error_row("c1", "down", run_id=ID)])
    store = store_of(run)
    before = store.generation
    run.write_rows(some_rows(ID, 1.0, 0.8))
    assert store.refresh()
    assert store.generation != before
    assert (store.columns()["outcome"], store.totals.errors) == ([0, 0], 0)
    run.write_rows([])
    store.refresh()
    assert (store.count, store.columns()["eval_id"]) == (0, [])


def test_a_shorter_file_with_the_same_first_row_changes_the_generation(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ID, some_rows(ID, 1.0, 0.5))
    store = store_of(run)
    before = store.generation
    with run.directory.results.open("r+b") as file:
        file.truncate(len(encode_row(some_rows(ID, 1.0)[0])))
    store.refresh()
    assert (store.count, store.generation != before) == (1, True)


def test_the_first_of_two_rows_with_the_same_key_counts(tmp_path: Path) -> None:
    first, second = row("c0", 0.9, run_id=ID), row("c0", 0.1, run_id=ID)
    store = store_of(WrittenRun(tmp_path, ID, [first, second, row("c1", run_id=ID)]))
    assert (store.columns()["score"], names(store.columns())) == ([0.9, 1.0], ["c0/1", "c1/1"])
    assert store.problems == ["1 row of results.jsonl left out: an earlier row has the same key."]
    assert store.place(1).key == RowKey("geography", "c1", "assistant", 1)


def test_damaged_lines_are_named_and_skipped(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ID, some_rows(ID, 1.0))
    deep = b'{"eval_id":' + b"[" * 100_000 + b"}\n"
    run.append(b"{torn\n", b"\n", deep, b'"text"\n', b'{"eval_id":"x"}\n', row("c1", 0.4, run_id=ID))
    store = store_of(run)
    assert names(store.columns()) == ["c0/1", "c1/1"]
    assert store.problems == ["4 lines of results.jsonl could not be read (lines 2, 3, 4, ...)."]
    assert store.place(1).score == 0.4


def test_an_incomplete_last_line_is_read_when_it_is_complete(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ID, some_rows(ID, 1.0))
    line = encode_row(row("c1", 0.5, run_id=ID))
    run.append(line[:50])
    store = store_of(run)
    assert store.count == 1
    assert store.problems == [
        "The last line of results.jsonl is incomplete, because the run was killed while writing it."
    ]
    run.append(line[50:])
    store.refresh()
    assert (names(store.columns()), store.problems) == (["c0/1", "c1/1"], [])


def test_an_incomplete_last_line_of_a_running_run_is_not_a_problem(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ID, some_rows(ID, 1.0))
    with run.directory.lock():
        run.append(b'{"run_id":')
        assert store_of(run).problems == []


def test_questions_and_tags_come_from_the_version_of_the_case_that_was_run(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ID)
    run.add_cases(case_of("c0", "Old?", tags=("a", "b")), case_of("c1", "Other?"), case_of("c0", "New?", tags=("b",)))
    hashes = [json.loads(line)["sha256"] for line in run.directory.cases.read_text().splitlines()]
    run.append(
        row("c0", run_id=ID, case_sha256=hashes[0]),
        row("c0", run_id=ID, attempt=2, case_sha256=hashes[2]),
        row("unknown", run_id=ID),
    )
    store = store_of(run)
    data = store.columns()
    assert data["question"] == ["Old?", "New?", ""]
    assert [[data["tags"][tag] for tag in data["tag_sets"][number]] for number in data["tag_set"]] == [
        ["a", "b"],
        ["b"],
        [],
    ]
    places = [store.case_place(number) for number in range(3)]
    assert (places[0] is not None, places[2]) == (True, None)
    assert places[0] != places[1]
    assert list(store.case_offsets()) == [place[0] if place else -1 for place in places]


def test_a_row_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    store = store_of(WrittenRun(tmp_path, ID, some_rows(ID, 1.0)))
    for number in (-1, 1, 10**9):
        with pytest.raises(RecordError, match="no row"):
            store.place(number)


def test_costs_that_are_unknown_are_not_zero(tmp_path: Path) -> None:
    judged = result(judge=ledger(2, None))
    paid = result(judge=ledger(1, 0.25))
    store = store_of(
        WrittenRun(
            tmp_path,
            ID,
            [
                row("c0", run_id=ID, cost_usd=None, evaluator_results=(judged,)),
                row("c1", run_id=ID, cost_usd=0.5, evaluator_results=(paid,)),
                row("c2", run_id=ID, evaluator_results=()),
            ],
        )
    )
    data = store.columns()
    assert (data["cost_usd"], data["judge_cost_usd"]) == ([None, 0.5, None], [None, 0.25, 0.0])
    assert store.totals == (3, 0, 0.5, 0.25, 3, 1)


def test_line_that_is_completed_while_it_is_read_is_read_the_next_time(tmp_path: Path) -> None:
    line = encode_row(row("c1", 0.5, run_id=ID))

    class Growing(io.BytesIO):
        """A file whose last line is completed right after its beginning was read."""

        def readline(self, size: int | None = -1, /) -> bytes:
            read = super().readline(size)
            if read and not read.endswith(b"\n"):
                place = self.tell()
                self.seek(0, os.SEEK_END)
                self.write(line[50:])
                self.seek(place)
            return read

    first = encode_row(row("c0", 1.0, run_id=ID))
    file = Growing(first + line[:50])
    assert list(lines_from(file, 0)) == [(0, first)]
    file.seek(len(first))
    assert list(lines_from(file, len(first))) == [(len(first), line)]


def test_incomplete_line_of_a_killed_run_is_reported_to_those_who_followed_it(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ID, some_rows(ID, 1.0))
    with run.directory.lock():
        run.append(b'{"run_id":')
        store = store_of(run)
        assert store.problems == []
    assert store.refresh()
    assert "is incomplete" in store.problems[0]


def test_agents_that_call_other_tools_have_not_answered_the_same(tmp_path: Path) -> None:
    calls = [(ToolCall("search"),), (ToolCall("search"),), (ToolCall("read"),), ()]
    rows = [
        row(
            f"c{n}",
            run_id=ID,
            candidate_answer="Done.",
            output_messages=(Message("assistant", "Done.", tool_calls=one),),
        )
        for n, one in enumerate(calls)
    ]
    assert store_of(WrittenRun(tmp_path, ID, rows)).columns()["answer"] == [0, 0, 1, 2]


# -- the cache on disk


@pytest.fixture
def cached_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WrittenRun:
    """A run that is large enough to be cached."""
    monkeypatch.setattr(columns_module, "_WORTH_CACHING", 100)
    run = WrittenRun(tmp_path, ID, some_rows(ID, 1.0, 0.5, 0.2))
    run.add_cases(case_of("c1", "Cached?"))
    return run


def cache_files(run: WrittenRun) -> list[Path]:
    return sorted(cache_of(run.path).glob(f"*{SUFFIX}"))


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts how often rows are read."""
    reads: list[int] = []
    original = ColumnStore._add_rows

    def counted(store: ColumnStore, rows: RowColumns) -> None:
        reads.append(1)
        original(store, rows)

    monkeypatch.setattr(ColumnStore, "_add_rows", counted)
    return reads


def test_a_finished_run_is_read_once(cached_run: WrittenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = store_of(cached_run, cached=False)
    first = store_of(cached_run)
    assert len(cache_files(cached_run)) == 1
    assert cache_files(cached_run)[0].stat().st_mode & 0o077 == 0
    reads = count_reads(monkeypatch)
    again = store_of(cached_run)
    assert reads == []
    assert again.columns() == first.columns() == plain.columns()
    assert again.generation == first.generation == plain.generation
    assert again.totals == plain.totals
    assert [again.place(n) for n in range(3)] == [plain.place(n) for n in range(3)]
    assert [again.case_place(n) for n in range(3)] == [plain.case_place(n) for n in range(3)]
    assert (again.offsets(), again.case_offsets()) == (plain.offsets(), plain.case_offsets())
    assert [again.packed(start) for start in range(4)] == [plain.packed(start) for start in range(4)]


def test_a_cache_of_other_rows_is_not_used(cached_run: WrittenRun) -> None:
    store = store_of(cached_run)
    cached_run.append(row("c3", 0.3, run_id=ID))
    assert store.refresh()
    assert (store.count, store_of(cached_run).count) == (4, 4)
    assert len(cache_files(cached_run)) == 1  # the outdated one was removed
    cached_run.write_rows(some_rows(ID, 0.1, 0.1))
    generation = store.generation
    store.refresh()
    assert (store.columns()["score"], store.generation != generation) == ([0.1, 0.1], True)


def test_replaced_rows_of_a_cached_run_change_the_generation(cached_run: WrittenRun) -> None:
    store = store_of(cached_run)
    generations = [store.generation]
    for score in (0.5, 0.4, 0.5, 0.4):  # the inodes of replaced files are used again
        cached_run.write_rows(some_rows(ID, 1.0, score, 0.2))
        store.refresh()
        generations.append(store.generation)
    assert all(one != other for one, other in pairwise(generations)), generations


def test_pinned_rows_do_not_grow(cached_run: WrittenRun) -> None:
    store = ColumnStore(cached_run.directory)
    store.pin()
    cached_run.append(row("c3", 0.3, run_id=ID))
    assert not store.refresh()
    assert store.count == len(store.columns()["score"]) == 3


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_damaged_cache_is_ignored(cached_run: WrittenRun, damage: str) -> None:
    expected = store_of(cached_run).columns()
    path = cache_files(cached_run)[0]
    contents = path.read_bytes()
    middle = len(contents) // 2
    flipped = contents[:middle] + bytes([contents[middle] ^ 1]) + contents[middle + 1 :]
    path.write_bytes({"cut": contents[:-9], "flipped": flipped, "empty": b"", "other": b"x" * 5_000}[damage])
    assert store_of(cached_run).columns() == expected
    assert path.read_bytes() == contents


def test_a_cache_with_a_valid_digest_and_wrong_contents_is_ignored(cached_run: WrittenRun) -> None:
    store = store_of(cached_run)
    frozen = store._frozen
    assert frozen is not None
    key = store._key()
    ColumnCache(cached_run.path).save(key, replace(frozen, offset=frozen.offset[:1]))
    assert store_of(cached_run).count == 3


def test_a_run_that_is_being_written_is_not_cached(cached_run: WrittenRun) -> None:
    with cached_run.directory.lock():
        store = store_of(cached_run)
        assert (store.count, cache_files(cached_run)) == (3, [])
    store.refresh()
    assert len(cache_files(cached_run)) == 1


def test_a_project_that_cannot_be_written_is_read_without_a_cache(
    cached_run: WrittenRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(13, "denied")

    monkeypatch.setattr("agentv.view.column_cache.make_private", fail)
    assert store_of(cached_run).count == 3
    assert cache_files(cached_run) == []
