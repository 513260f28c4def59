"""Cases in JSON Lines: in a referenced file, mixed with YAML cases, or as the suite itself."""

from __future__ import annotations

import io
import json

import pytest

from agentv.jsonio import read
from agentv.suite.json_lines import MAX_LINE_BYTES, iterate_lines
from tests.suite.support import EVALUATORS, cases, load, only_problem, problems, write

LINE = '{"id": "%s", "input": "x"}\n'
SUITE = EVALUATORS + "evalcases: cases.jsonl\n"


def test_cases_are_read_from_a_referenced_jsonl_file(tmp_path):
    write(tmp_path, LINE % "a" + LINE % "b", "cases.jsonl")
    suite = load(tmp_path, SUITE)
    assert suite.ids == ("a", "b")
    assert [(case.id, case.line, case.evaluators[0].name) for case in suite.cases()] == [
        ("a", 1, "has"),
        ("b", 2, "has"),
    ]


def test_yaml_cases_and_files_can_be_mixed(tmp_path):
    write(tmp_path, LINE % "b", "first.jsonl")
    write(tmp_path, LINE % "d", "data/second.jsonl")
    text = EVALUATORS + (
        "evalcases:\n- {id: a, input: x}\n- file: first.jsonl\n- {id: c, input: x}\n- {file: data/second.jsonl}\n"
    )
    assert load(tmp_path, text).ids == ("a", "b", "c", "d")


def test_jsonl_file_can_be_the_suite_itself(tmp_path):
    line = json.dumps({"id": "a", "input": "x", "evaluators": [{"type": "is_json"}]})
    suite = load(tmp_path, line + "\n", "geo.jsonl")
    assert (suite.name, suite.ids, suite.target) == ("geo", ("a",), None)
    assert [case.evaluators[0].name for case in suite.cases()] == ["is_json"]


def test_empty_jsonl_suite_is_reported_with_what_it_needs(tmp_path):
    assert only_problem(tmp_path, "\n \n", "s.jsonl") == "1:1: the suite has no cases; write one JSON case per line"


def test_blank_lines_byte_order_mark_and_crlf_are_accepted(tmp_path):
    write(tmp_path, b'\xef\xbb\xbf{"id": "a", "input": "x"}\r\n\r\n   \r\n {"id": "b", "input": "x"}', "cases.jsonl")
    assert [(case.id, case.line) for case in cases(tmp_path, SUITE)] == [("a", 1), ("b", 4)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"id": "a" "input": "x"}', "12: not valid JSON: expecting ',' delimiter"),
        (b'   {"id": "a",}', "15: not valid JSON: expecting property name enclosed in double quotes"),
        (b'{"id": "a", "input": NaN}', "22: NaN is not a JSON number"),
        (b'{"id": "a", "input": -Infinity}', "22: -Infinity is not a JSON number"),
        (b'{"id": "a", "input": "x", "threshold": 1e999}', "40: the number 1e999 is too large"),
        (b'{"id": ' + b"1" * 5000 + b', "input": "x"}', "8: a number of 5,000 digits is too long"),
        (b'{"id": "a", "input": "\\ud800"}', "22: a lone surrogate (\\ud800 to \\udfff) is not text"),
        (b'{"id": "a", "\\udfff": 1}', "13: a lone surrogate (\\ud800 to \\udfff) is not text"),
        (b'{"id": "a", "input": "x", "id": "b"}', "27: the key `id` occurs twice in one object"),
        (b'{"id": "a", "input": "x", "metadata": {"k": [{"k": 1, "k": 2}]}}', "55: the key `k` occurs twice"),
        (b'{"id": "\xc3\xa9", "input": "\xff"}', "23: not UTF-8: the byte 0xFF"),
        (b'{"id": "a", "metadata": ' + b"[" * 101 + b"]" * 101 + b"}", "nested more than 100 levels deep"),
        (b'{"id": "a", "metadata": ' + b"[" * 100_000, "124: nested more than 100 levels deep"),
        (b"[1]", "1: a case must be a mapping with `id` and `input`, got a list"),
        (b"null", "1: a case must be a mapping with `id` and `input`, got null"),
        (b'"text"', "1: a case must be a mapping with `id` and `input`, got 'text'"),
        (b'{"id": "a", "input": "x"} {"id": "b"}', "27: not valid JSON: more text after the JSON value"),
        (b'{"id": "a", "inptu": "x"}', "13: unknown key `inptu` (did you mean `input`?)"),
        (b'{"id": "\\ud83d\\ude00", "input": "x", "metadata": 5}', "50: `metadata` must be a mapping, got 5"),
        (b"\x00\x00\x00", "1: not valid JSON: expecting value"),
    ],
)
def test_invalid_line_is_reported_with_its_position_and_the_others_are_read(tmp_path, line, expected):
    write(tmp_path, b'{"id": "z", "input": "x"}\n' + line + b'\n{"id": "z", "input": "x"}\n', "cases.jsonl")
    first, second = problems(tmp_path, SUITE)
    assert first.startswith("cases.jsonl:2:")
    assert expected in first
    assert second == "cases.jsonl:3:8: duplicate id 'z' (first at cases.jsonl:1)"


def test_line_with_duplicate_keys_is_still_validated(tmp_path):
    write(tmp_path, '{"id": "a", "id": "b", "inptu": "x", "inptu": "y", "metadata": 1}\n', "cases.jsonl")
    assert [line.split(":", 2)[2] for line in problems(tmp_path, SUITE)] == [
        "13: the key `id` occurs twice in one object",
        "38: the key `inptu` occurs twice in one object",
        "38: unknown key `inptu` (did you mean `input`?)",
        "64: `metadata` must be a mapping, got 1",
    ]


def test_duplicate_id_in_two_files_is_reported_with_both_positions(tmp_path):
    write(tmp_path, LINE % "a", "cases.jsonl")
    text = EVALUATORS + "evalcases:\n- {id: a, input: x}\n- file: cases.jsonl\n- {id: a, input: y}\n"
    assert sorted(problems(tmp_path, text)) == [
        "5:8: duplicate id 'a' (first at suite.yaml:3)",
        "cases.jsonl:1:8: duplicate id 'a' (first at suite.yaml:3)",
    ]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("evalcases: cases.json", "2:12: there is no file 'cases.json' in "),
        ("evalcases: notes.txt", "2:12: the form of 'notes.txt' is unknown; files with cases end with `.csv`, "),
        (
            "evalcases: 5",
            "2:12: `evalcases` must be a list of cases, the path of a file with cases, or a mapping with ",
        ),
        ("evalcases: {id: a}", "2:12: `evalcases` must be a list of cases, the path of a file with cases, or a "),
        ("evalcases: [{file: x.yaml}]", "2:20: there is no file 'x.yaml' in "),
        ("evalcases: [{file: [a]}]", "2:20: `file` must be a string, got a list"),
        ("evalcases: missing.jsonl", "2:12: there is no file 'missing.jsonl' in "),
        ("evalcases: [{file: ../../../../../../../../etc/x.jsonl}]", "2:20: there is no file"),
        ("evalcases: folder.jsonl", "2:12: the directory 'folder.jsonl' contains no files with cases (.csv, "),
    ],
)
def test_reference_without_cases_is_reported(tmp_path, reference, expected):
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "notes.txt").touch()
    assert only_problem(tmp_path, EVALUATORS + reference + "\n").startswith(expected)


def test_line_that_is_too_long_is_rejected_and_the_next_is_read(tmp_path):
    with write(tmp_path, LINE % "a", "cases.jsonl").open("ab") as file:
        file.truncate(file.tell() + 3 * MAX_LINE_BYTES)
        file.seek(0, 2)
        file.write(b"\n" + (LINE % "a").encode())
    assert problems(tmp_path, SUITE) == [
        "cases.jsonl:2:1: the line is longer than 32 MiB",
        "cases.jsonl:3:8: duplicate id 'a' (first at cases.jsonl:1)",
    ]


def test_iterate_lines_yields_a_value_or_an_error():
    lines = [b'{"a": 1.10}\n', b"\n", b'{"a": 1, "a": 2}\n', b"{\n"]
    assert list(iterate_lines(io.BytesIO(b"".join(lines)))) == [
        (1, {"a": 1.1}, None),
        (3, None, "the key `a` occurs twice in one object (column 10)"),
        (4, None, "not valid JSON: expecting property name enclosed in double quotes (column 2)"),
    ]


def test_jsonio_reads_plain_floats():
    assert type(read("1.10")) is float
