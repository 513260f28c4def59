"""Cases from CSV, TSV, JSON, JSON Lines, YAML and Parquet files, directories and globs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.suite.support import cases, load, only_problem, problems, write

HEAD = "execution: {evaluators: [{type: contains}]}\n"
CSV = 'id,question,answer,topic\nfr,"Capital of\nFrance?",Paris,geo\nes,"Say ""Madrid""",Madrid,geo\n'


def test_columns_become_fields_and_variables(tmp_path):
    write(tmp_path, CSV.encode(), "qa.csv")
    entry = "{file: qa.csv, columns: {reference_answer: answer, metadata.topic: topic}, vars: {answer: -, tone: kind}}"
    first, second = cases(tmp_path, f"{HEAD}evalcases: {entry}\n")
    assert (first.id, first.question, first.reference_answer) == ("fr", "Capital of\nFrance?", "Paris")
    assert second.question == 'Say "Madrid"'
    assert first.metadata == {"topic": "geo"}
    assert first.vars == {
        "id": "fr", "question": "Capital of\nFrance?", "answer": "Paris", "topic": "geo", "tone": "kind"
    }  # fmt: skip
    assert (first.line, second.line) == (2, 4)


def test_every_form_gives_the_same_cases(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet  # noqa: PLC0415 - as above

    rows = [{"input": "One?", "answer": "1", "key": "a"}, {"input": "Two?", "answer": "2", "key": "b"}]
    text = "".join(f"{row['input']};{row['answer']};{row['key']}\n" for row in rows)
    write(tmp_path, f"input;answer;key\n{text}".encode(), "semicolons.csv")
    write(tmp_path, ("input\tanswer\tkey\n" + text.replace(";", "\t")).encode(), "table.tsv")
    write(tmp_path, json.dumps(rows), "rows.json")
    write(tmp_path, json.dumps({"name": "x", "data": rows}), "nested.json")
    write(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "rows.jsonl")
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    columns = "columns: {reference_answer: answer, id: key}"
    for name in (
        "semicolons.csv, delimiter: ';'",
        "table.tsv",
        "rows.json",
        "nested.json",
        "rows.jsonl",
        "rows.parquet",
    ):
        loaded = cases(tmp_path, f"{HEAD}evalcases: {{file: {name}, {columns}}}\n")
        assert [(case.id, case.question, case.reference_answer) for case in loaded] == [
            ("a", "One?", "1"),
            ("b", "Two?", "2"),
        ], name


def test_ids_depend_on_the_content_of_rows_alone(tmp_path):
    def ids(text: str) -> tuple[str, ...]:
        write(tmp_path, text.encode(), "qa.csv")
        return load(tmp_path, "execution: {evaluators: [{type: is_json}]}\nevalcases: qa.csv\n").ids

    first = ids("input,n\nx,1\ny,2\n")
    assert ids("input,n\ny,2\nx,1\n") == first[::-1]
    assert len(set(ids("input,n\nx,1\nx,1\nx,3\n"))) == 3
    assert all(name.startswith("row-") for name in first)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input,a\nx,1,2\n", "qa.csv:2:1: the row must have 2 cells like the header, got 3"),
        ("input,input\nx,1\n", "qa.csv:1:1: the header has two columns named 'input'"),
        ("input,\nx,1\n", "qa.csv:1:1: column 2 of the header has no name"),
        ("input;answer\nx;1\n", "qa.csv:1:1: the header has only one column; if cells are separated by ';', set "),
        ('input\nx\n"never closed\n', "qa.csv:3:1: not valid CSV: a quoted cell that begins here is never closed"),
        ('input\n"a" b\n', "qa.csv:2:1: not valid CSV: a quote inside a quoted cell must be doubled"),
        (
            "input\na\ngr\xfc\xdf\n\xdf".encode("latin-1"),
            "qa.csv:3:3: not UTF-8: the byte 0xFC ('ü' in Windows-1252); ",
        ),
        ("input\nx\n".encode("utf-16"), "qa.csv:1:1: the file is UTF-16 and must be UTF-8; convert it with `iconv"),
        ("input\nx\n".encode("utf-16-be"), "qa.csv:1:1: the file is UTF-16"),
        ("id,input\na,x\0y\n", "qa.csv:2:3: `input` contains a NUL character"),
        ("", "2:12: 'qa.csv' contains no cases; the first line must name the columns"),
        ("input\n", "2:12: 'qa.csv' contains no cases"),
        ("input,threshold\nx,high\n", "qa.csv:2:3: `threshold` must be a number from 0 to 1, got 'high'"),
        ("a,threshold,input\n1,2,x\n", "qa.csv:2:3: `threshold` must be a number <= 1, got 2"),
        ('\n"a,\nb",threshold,input\n1,high,x\n', "qa.csv:4:3: `threshold` must be a number from 0 to 1, got 'high'"),
        ("other\nx\n", "2:12: no column of qa.csv is the input: set `columns: {input: COLUMN}`, or add `prompts`; "),
        ("id,input\na,x\na,y\n", "qa.csv:3:1: duplicate id 'a' (first at qa.csv:2)"),
    ],
)
def test_bad_cells_are_reported_with_line_and_column(tmp_path, text, expected):
    write(tmp_path, text if isinstance(text, bytes) else text.encode(), "qa.csv")
    suite = "execution: {evaluators: [{type: is_json}]}\nevalcases: qa.csv\n"
    assert only_problem(tmp_path, suite).startswith(expected)


def test_problems_in_json_are_reported_with_line_and_column(tmp_path):
    rows = '{"version": 1, "rows": [\n  {"q": "x", "threshold": 0.5}, {"q": "y",\n    "threshold": "high"},\n  7\n]}'
    write(tmp_path, rows, "rows.json")
    write(tmp_path, '[\n  {"id": "a", "input": "x"},\n  {"id": "a",\n   "inptu": "x"}\n]', "cases.json")
    write(tmp_path, '\n{\n  "id": "b",\n  "inptu": "x"}', "one.json")
    head = "execution: {evaluators: [{type: is_json}]}\n"
    entries = "[{file: rows.json, columns: {input: q}}, {file: cases.json}, {file: one.json}]"
    assert sorted(problems(tmp_path, f"{head}evalcases: {entries}\n")) == [
        "cases.json:3:10: duplicate id 'a' (first at cases.json:2)",
        "cases.json:4:4: unknown key `inptu` (did you mean `input`?)",
        "one.json:4:3: unknown key `inptu` (did you mean `input`?)",
        "rows.json:3:18: `threshold` must be a number, got 'high'",
        "rows.json:4:3: a row must be an object with a value for each column",
    ]


def test_equal_rows_of_two_files_have_different_ids(tmp_path):
    for name in ("a.csv", "b.csv"):
        write(tmp_path, b"input,answer\nx,y\n", f"rows/{name}")
    ids = [
        case.id for case in cases(tmp_path, f"{HEAD}evalcases: {{file: rows, columns: {{reference_answer: answer}}}}\n")
    ]
    assert ids[1] == f"{ids[0]}-2"


def test_unknown_columns_and_fields_are_reported_at_the_suite(tmp_path):
    write(tmp_path, CSV.encode(), "qa.csv")
    text = f"{HEAD}evalcases:\n  - file: qa.csv\n    columns: {{reference_answer: anser}}\n"
    assert only_problem(tmp_path, text) == (
        "4:33: qa.csv has no column 'anser' (did you mean `answer`?); columns: `id`, `question`, `answer` and `topic`"
    )
    text = f"{HEAD}evalcases: {{file: qa.csv, columns: {{referense: answer}}}}\n"
    assert only_problem(tmp_path, text).startswith("2:37: unknown field `referense`")
    write(tmp_path, b'id,question\nfr,"x" y\nes,z,z\n\nde,ok\n', "bad.csv")
    text = f"{HEAD}evalcases: {{file: bad.csv, columns: {{referense: q, expected_outcome: qestion}}}}\n"
    found = [problem.partition(";")[0] for problem in problems(tmp_path, text)]
    assert sorted(found) == [
        "2:38: unknown field `referense` (did you mean `reference_answer`?)",
        "2:49: bad.csv has no column 'q'",
        "2:70: bad.csv has no column 'qestion' (did you mean `question`?)",
        "bad.csv:2:1: not valid CSV: a quote inside a quoted cell must be doubled, or a delimiter is missing after it",
        "bad.csv:3:1: the row must have 2 cells like the header, got 3",
    ]


def test_rows_of_json_lines_can_lack_columns(tmp_path):
    write(tmp_path, '{"q": "One?"}\n{"q": "Two?", "a": "2"}\n', "rows.jsonl")
    entry = "{file: rows.jsonl, columns: {input: q, reference_answer: COLUMN}}"
    text = f"execution: {{evaluators: [{{type: is_json}}]}}\nevalcases: {entry}\n"
    first, second = cases(tmp_path, text.replace("COLUMN", "a"))
    assert (first.reference_answer, second.reference_answer) == (None, "2")
    assert "rows.jsonl has no column 'b'" in only_problem(tmp_path, text.replace("COLUMN", "b"))


def test_directories_and_globs_are_read_in_order(tmp_path):
    write(tmp_path, "- {id: b1, input: x}\n- {id: b2, input: x}\n", "more/b.yaml")
    write(tmp_path, "id: a\ninput: x\n", "more/a.yml")
    write(tmp_path, "tests:\n  - {id: c, input: x}\n", "more/deep/c.yaml")
    write(tmp_path, '{"id": "d", "input": "x"}\n', "more/d.jsonl")
    write(tmp_path, "ignored", "more/notes.txt")
    write(tmp_path, "broken: [", "more/.hidden.yaml")
    head = "execution: {evaluators: [{type: is_json}]}\n"
    assert load(tmp_path, f"{head}evalcases: more\n").ids == ("a", "b1", "b2", "d", "c")
    assert load(tmp_path, f"{head}tests: more/*.yaml\n").ids == ("b1", "b2")
    assert load(tmp_path, f"{head}tests: [{{id: own, input: x}}, {{file: more/a.yml}}]\n").ids == ("own", "a")
    assert only_problem(tmp_path, f"{head}evalcases: none/*.csv\n").startswith("2:12: no file matches 'none/*.csv' in ")


def test_problems_in_files_of_cases_are_reported_there(tmp_path):
    write(tmp_path, "- id: a\n  input: x\n- id: b\n  inptu: y\n", "more.yaml")
    write(tmp_path, "evalcases: [{id: c, input: x}]\nexecution: {}\n", "suite2.yaml")
    write(tmp_path, '[{"id": "d"}]', "cases.json")
    head = "execution: {evaluators: [{type: is_json}]}\n"
    text = f"{head}evalcases: [{{file: more.yaml}}, {{file: suite2.yaml}}, {{file: cases.json}}]\n"
    assert sorted(problems(tmp_path, text)) == [
        "cases.json:1:2: case 'd' has no input: add `input: ...`",
        "more.yaml:4:3: unknown key `inptu` (did you mean `input`?)",
        "suite2.yaml:2:1: `execution` has no effect in a file of cases: move it to the suite",
    ]


@pytest.mark.parametrize("name", ["cases.yaml", "cases.json"])
def test_vars_of_a_file_apply_to_its_cases(tmp_path, name):
    both: list[dict[str, Any]] = [{"id": each, "input": "{{ tone }} {{ b }} {{ c }} {{ d }}"} for each in "xy"]
    both[1]["vars"] = {"tone": "case"}
    write(tmp_path, json.dumps({"vars": {"tone": "file", "b": "file"}, "cases": both}), name)
    head = "execution: {evaluators: [{type: is_json}]}\nvars: {tone: suite, b: suite, c: suite, d: suite}\n"
    entry = f"{{file: {name}, vars: {{tone: entry, b: entry, c: entry}}}}"
    questions = [case.question for case in cases(tmp_path, f"{head}evalcases: {entry}\n")]
    assert questions == ["file file entry suite", "case file entry suite"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vars: [a]\nCASES", "1:7: `vars` must be a mapping from names to values, got a list"),
        ("CASES\nvars: {a: b}", "2:1: `vars` must be above the list of cases: move it up"),
        ("vars: {a: .inf}\nCASES", "1:11: must be a finite number; put it in quotes to use it as a string"),
    ],
)
def test_vars_of_a_file_must_be_a_mapping_above_its_cases(tmp_path, text, expected):
    write(tmp_path, text.replace("CASES", "cases: [{id: x, input: x}]"), "cases.yaml")
    found = problems(tmp_path, "execution: {evaluators: [{type: is_json}]}\nevalcases: cases.yaml\n")
    assert found == [f"cases.yaml:{expected}"]


def test_tests_is_an_alias_of_evalcases(tmp_path):
    head = "execution: {evaluators: [{type: is_json}]}\n"
    assert load(tmp_path, f"{head}tests: [{{id: a, input: x}}]\n").ids == ("a",)
    both = f"{head}tests: [{{id: a, input: x}}]\nevalcases: [{{id: b, input: x}}]\n"
    assert only_problem(tmp_path, both) == "3:1: `evalcases` is an alias of `tests`: keep one of them"


def test_file_added_after_validation_is_not_read(tmp_path):
    write(tmp_path, "- {id: b, input: x}\n", "more/b.yaml")
    suite = load(tmp_path, "execution: {evaluators: [{type: is_json}]}\nevalcases: more\n")
    write(tmp_path, "- {id: a, input: x}\n", "more/a.yaml")
    assert [case.id for case in suite.cases()] == ["b"]


def test_files_outside_the_repository_are_refused(tmp_path):
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    write(tmp_path, "id,input\na,x\n", "out.csv")
    (tmp_path / "repo" / "link.csv").symlink_to(tmp_path / "out.csv")
    text = "execution: {evaluators: [{type: is_json}]}\nevalcases: '*.csv'\n"
    assert "is outside" in only_problem(Path(tmp_path / "repo"), text)


def test_dataset_of_hugging_face_is_read_from_a_directory(tmp_path):
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_list([{"question": "One?", "answer": "1"}, {"question": "Two?", "answer": "2"}])
    datasets.DatasetDict({"test": data, "train": data}).save_to_disk(str(tmp_path / "qa"))
    entry = "{hf: qa, split: test, columns: {reference_answer: answer}}"
    loaded = cases(tmp_path, f"{HEAD}evalcases: {entry}\n")
    assert [(case.question, case.reference_answer) for case in loaded] == [("One?", "1"), ("Two?", "2")]
    text = f"{HEAD}evalcases: {{hf: qa, columns: {{reference_answer: answer}}}}\n"
    assert only_problem(tmp_path, text).endswith("`split` must be one of test, train, got nothing")


def test_split_of_a_dataset_without_splits_is_an_error(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_list([{"question": "One?", "answer": "1"}]).save_to_disk(str(tmp_path / "qa"))
    text = f"{HEAD}evalcases: {{hf: qa, split: test, columns: {{reference_answer: answer}}}}\n"
    assert only_problem(tmp_path, text).endswith("the dataset 'qa' has no splits: remove `split`")
    assert len(cases(tmp_path, text.replace(" split: test,", ""))) == 1


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("file://qa.csv", "2:13: write the path without `file://`: qa.csv"),
        ("{file: 'file://qa.csv'}", "2:20: write the path without `file://`: qa.csv"),
        ("[qa.csv]", "2:14: a case must be a mapping with `id` and `input`, got 'qa.csv'; to read cases from a file, "
         "write `{file: PATH}`"),
    ],
)  # fmt: skip
def test_other_spellings_of_a_file_are_reported_with_the_right_one(tmp_path, entry, expected):
    write(tmp_path, CSV.encode(), "qa.csv")
    assert only_problem(tmp_path, f"{HEAD}evalcases:  {entry}\n") == expected
