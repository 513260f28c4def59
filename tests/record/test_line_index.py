"""The index of lines finds records by key, also while the file is being written."""

from __future__ import annotations

import json
from pathlib import Path

from agentv.codec import encode
from agentv.evidence import JudgeCallRecord
from agentv.jsonio import dump_line
from agentv.record.line_index import CaseIndex, JudgeCallIndex
from agentv.record.run_dir import RunDirectory
from agentv.results import RowKey

KEY = RowKey('su"ite', "fränce\n", "t\\1", 2)


def line(index: int, key: RowKey = KEY) -> str:
    record = JudgeCallRecord(*key, evaluator="e", index=index, target="judge", status="ok")
    return f"{dump_line(encode(record))}\n"


def test_lines_are_found_by_key_and_new_lines_after_a_refresh(tmp_path: Path):
    run = RunDirectory(tmp_path)
    index = JudgeCallIndex(run)
    index.refresh()
    assert index.calls(KEY) == []  # no file yet
    older = json.loads(line(3))
    unordered = json.dumps({"evaluator": older.pop("evaluator"), **older})  # a line of an older version
    text = f"{line(1)}{line(9, KEY._replace(attempt=22))}not JSON\n[1]\n{unordered}\n{line(4)[:-9]}"
    run.judge_calls.write_text(text, encoding="utf-8")
    index.refresh()
    assert [call.index for call in index.calls(KEY)] == [1, 3]
    with run.judge_calls.open("a", encoding="utf-8") as file:
        file.write(line(4)[-9:])
    index.refresh()
    assert [call.index for call in index.calls(KEY)] == [1, 3, 4]
    index.forget(*KEY)
    assert index.calls(KEY) == []
    assert len(index) == 1


def test_damaged_record_is_skipped_and_the_last_line_of_a_case_counts(tmp_path: Path):
    run = RunDirectory(tmp_path)
    start = '{"suite":"s","eval_id":"a","input_messages":'
    first, last = (f'{start}[{{"role":"user","content":"{text}"}}],"sha256":"x"}}\n' for text in ("one", "two"))
    run.cases.write_text(f"{first}{last}{start}5}}\n", encoding="utf-8")
    index = CaseIndex(run)
    index.refresh()
    case = index.case(RowKey("s", "a", "t", 1))
    assert case is not None
    assert case.input_messages[0].text == "two"
    assert index.case(RowKey("s", "b", "t", 1)) is None
