"""Full-text search finds the rows whose detail contains the text, as the HTML file does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentv.view import searching
from agentv.view.library import Library
from tests.report.rows import row
from tests.view.bookshop import Bookshop
from tests.view.records import WrittenRun, call_of, case_of, some_rows

ID = "20261101-090000-000000001"


def found(library: Library, text: str, address: str = ID) -> list[int]:
    *_, (share, rows) = library.search(address, text, lambda: False)
    assert share == 1
    return rows


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


def expected(library: Library, text: str, address: str = ID) -> list[int]:
    """What `FileSource.search` finds: it looks at the details."""
    rows = []
    for number in range(library.column_data(address)["count"]):
        detail = library.detail(address, number)
        parts = [detail["row"], detail["case"], detail["judge_calls"]]
        if any(text.lower() in each.lower() for each in strings(parts)):
            rows.append(number)
    return rows


ALPHABET = 'aAkKiIsSéÉßẞσςΣяЯİıK中😀"\\/\n\t\x01\x7f u0:{}n-'  # noqa: RUF001 - letters with unusual cases
words = st.text(ALPHABET, max_size=6)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    answers=st.lists(words, min_size=1, max_size=4),
    asked=words,
    replied=words,
    needle=st.text(ALPHABET, min_size=1, max_size=4),
)
def test_search_finds_what_details_contain(
    answers: list[str], asked: str, replied: str, needle: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [row(f"c{n}", run_id=ID, candidate_answer=answer) for n, answer in enumerate(answers)]
    run = WrittenRun(tmp_path_factory.mktemp("run"), ID, rows)
    run.add_cases(case_of("c0", asked))
    run.add_calls(call_of(rows[-1], reply={"rawText": replied}))
    library = Library(run.path.parents[2])
    assert found(library, needle) == expected(library, needle)
    for answer in answers:
        for text in {answer, answer.upper(), answer[1:], answer[:-1].swapcase()} - {""}:
            assert found(library, text) == expected(library, text)


@pytest.mark.parametrize("text", ["shipping", "SHIPPING COST", "careful-judge", "yes", "“", "é", "passage: ", "0.9"])
def test_search_in_real_runs(rich_project: Bookshop, text: str) -> None:
    library, address = Library(rich_project.root), rich_project.runs["new-prompt"]
    assert found(library, text, address) == expected(library, text, address)


def test_names_of_fields_are_not_found(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ID, [row("c0", run_id=ID, metadata={"language": "german"}), row("c1", run_id=ID)])
    run.append(row("c2", run_id=ID, candidate_answer='a \\"language\\": b'), row("c3", run_id=ID, reasoning="language"))
    library = Library(tmp_path)
    assert found(library, "language") == [2, 3]
    assert found(library, "german") == [0]
    assert found(library, "candidate_answer") == []
    assert found(library, "null") == []


def test_letters_of_escapes_are_not_found(tmp_path: Path) -> None:
    answers = ["\new", "\\new", "new", "\x1b[0m", "u001b"]
    run = WrittenRun(tmp_path, ID, [row(f"{n}", run_id=ID, candidate_answer=text) for n, text in enumerate(answers)])
    library = Library(run.path.parents[2])
    assert found(library, "new") == [1, 2]
    assert found(library, "ew") == [0, 1, 2]
    assert found(library, "\\n") == [1]
    assert found(library, "001b") == [4]
    assert found(library, "\x1b") == [3]


def test_strings_that_other_programs_have_escaped_are_found(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ID, [row("c0", run_id=ID, candidate_answer="Zürich", metadata={"a": "x/y"})])
    line = json.loads(run.directory.results.read_text())
    run.directory.results.write_text(json.dumps(line, ensure_ascii=True) + "\n")
    library = Library(tmp_path)
    assert found(library, "ZÜRICH") == found(library, "x/y") == [0]


def test_an_empty_text_finds_everything(tmp_path: Path) -> None:
    WrittenRun(tmp_path, ID, some_rows(ID, 1.0, 0.5))
    assert list(Library(tmp_path).search(ID, "", lambda: False)) == [(1.0, [0, 1])]


def test_search_ignores_lines_that_are_not_rows(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ID, [row("c0", run_id=ID, candidate_answer="needle")])
    run.append(row("c0", run_id=ID, candidate_answer="needle"), b'{"x":"needle"}\n', b"needle {\n", b'{"torn":"needle')
    run.add_calls(call_of(row("gone", run_id=ID), question="needle"))
    with run.directory.judge_calls.open("a") as file:
        file.write('{"suite":["needle"],"eval_id":"needle"}\n')
    run.add_cases(case_of("unused", "needle"))
    assert found(Library(tmp_path), "needle") == [0]


def test_rows_across_blocks_and_long_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = (10, 5_000, 3, 30_000, 7)
    rows = [row(f"c{n}", run_id=ID, candidate_answer="x" * size + "needle") for n, size in enumerate(sizes)]
    WrittenRun(tmp_path, ID, rows)
    library = Library(tmp_path)
    for block in (1, 7, 900, 4_096, 1 << 20):
        monkeypatch.setattr(searching, "_BLOCK", block)
        assert found(library, "needle") == [0, 1, 2, 3, 4]
    monkeypatch.setattr(searching, "_BLOCK", 900)
    monkeypatch.setattr(searching, "LONGEST_LINE", 20_000)
    assert found(library, "needle") == [0, 1, 2, 4]


def test_progress_is_reported_and_the_search_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_BLOCK", 1_000)
    monkeypatch.setattr(searching, "_REPORTS", -1.0)
    rows = [row(f"c{n}", run_id=ID, candidate_answer="needle") for n in range(50)]
    WrittenRun(tmp_path, ID, rows)
    library = Library(tmp_path)
    steps = list(library.search(ID, "needle", lambda: False))
    shares = [share for share, _ in steps]
    assert shares == sorted(shares)
    assert (len(shares) > 10, shares[-1], steps[-1][1]) == (True, 1.0, list(range(50)))
    assert all(rows == sorted(rows) for _, rows in steps)
    blocks = iter(range(5))
    stopped = list(library.search(ID, "needle", lambda: next(blocks, None) is None))
    assert stopped[-1][0] < 1
    assert 0 < len(stopped[-1][1]) < 50


def test_a_search_ends_although_the_run_grows(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path, ID, some_rows(ID, 1.0, 1.0))
    library = Library(tmp_path)

    def grow() -> bool:
        number = len(run.directory.results.read_bytes().splitlines())
        assert number < 20
        run.append(row(f"c{number}", run_id=ID))
        return False

    assert list(library.search(ID, "assistant", grow))[-1] == (1.0, [0, 1])
    assert found(library, "assistant")[:3] == [0, 1, 2]
