"""`labels.jsonl`: appended by several processes, read with whatever a killed one left."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentv.errors import RecordError, UsageError
from agentv.record.human_labels import (
    LONGEST_LABEL_LINE,
    HumanLabel,
    LabelValue,
    append_label,
    current_user,
    new_label,
    read_labels,
)
from agentv.record.run_dir import RunDirectory
from agentv.results import RowKey

KEY = RowKey("capitals", "france", "mock", 1)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", {"run_id": "r"})


def given(run: RunDirectory, key: RowKey, label: LabelValue | None, by: str, note: str = "") -> HumanLabel:
    added = new_label(key, "Paris", label, note, by)
    append_label(run, added)
    return added


def test_labels_are_read_back_as_they_were_given(run: RunDirectory):
    note = 'no "unit", see\n\tline 2 \x1b[31m \N{ZERO WIDTH SPACE}{"suite":"x"} é'
    added = given(run, KEY, LabelValue.FAIL, "anna", note)

    assert read_labels(run).labels == (added,)
    assert added.note == note
    assert added.is_of("Paris")
    assert not added.is_of("Paris.")
    assert run.labels.stat().st_mode & 0o777 == 0o600


def test_last_label_of_a_row_and_person_counts(run: RunDirectory):
    given(run, KEY, LabelValue.PASS, "anna")
    others = given(run, KEY, LabelValue.FAIL, "ben")
    given(run, KEY._replace(attempt=2), LabelValue.PASS, "anna")
    given(run, KEY._replace(attempt=2), None, "anna")
    last = given(run, KEY, LabelValue.UNSURE, "anna")

    assert read_labels(run).labels == (others, last)
    assert read_labels(run).by_row() == {KEY: [others, last]}


def test_run_without_labels_has_none(run: RunDirectory):
    assert read_labels(run).labels == ()
    assert not run.labels.exists()


@pytest.mark.parametrize(
    "damaged",
    [
        b"{",
        b"[]",
        b"null",
        b'{"suite":1}',
        b"\xff\xfe",
        b"{" * 5000,
        b'{"suite":"a"' + b" " * LONGEST_LABEL_LINE + b"}",
    ],
    ids=["cut", "list", "null", "type", "encoding", "deep", "long"],
)
def test_damaged_lines_are_counted_and_skipped(run: RunDirectory, damaged: bytes):
    first = given(run, KEY, LabelValue.PASS, "anna")
    with run.labels.open("ab") as file:
        file.write(damaged + b"\n\n")
    last = given(run, KEY, LabelValue.FAIL, "ben")

    read = read_labels(run)
    assert read.labels == (first, last)
    assert read.damaged == 1


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_incomplete_line_does_not_damage_the_next_label(run: RunDirectory, kept: int):
    given(run, KEY, LabelValue.PASS, "anna")
    run.labels.write_bytes(run.labels.read_bytes()[:kept])

    assert read_labels(run).labels == ()
    last = given(run, KEY, LabelValue.FAIL, "ben")

    assert last in read_labels(run).labels
    assert read_labels(run).damaged == (kept > 0)


def test_label_behind_an_incomplete_line_is_found(run: RunDirectory):
    added = given(run, KEY, LabelValue.PASS, "anna", 'quoted {"suite":"capitals"}')
    line = run.labels.read_bytes()
    run.labels.write_bytes(line[:30] + line)

    assert read_labels(run).labels == (added,)
    assert read_labels(run).damaged == 1


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_special_files_are_refused(run: RunDirectory, tmp_path: Path, kind: str):
    if kind == "link":
        (tmp_path / "elsewhere").write_text("secret\n")
        run.labels.symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(run.labels)
    else:
        run.labels.mkdir()

    for act in (lambda: read_labels(run), lambda: given(run, KEY, LabelValue.PASS, "anna")):
        with pytest.raises(RecordError, match="must be a regular file"):
            act()
    with pytest.raises(RecordError, match="must be a regular file"):
        RunDirectory.open(run.path)
    if kind == "link":
        assert (tmp_path / "elsewhere").read_text() == "secret\n"


def test_full_disk_is_reported_and_later_labels_are_safe(run: RunDirectory):
    given(run, KEY, LabelValue.PASS, "anna")
    size = run.labels.stat().st_size
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, old[1]))  # the next line is written in part
    try:
        with pytest.raises(RecordError, match=r"could not write .*labels\.jsonl: ENOSPC") as refused:
            given(run, KEY, LabelValue.FAIL, "anna")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, before)
    assert refused.value.next_step == "The label was not saved."
    last = given(run, KEY, LabelValue.UNSURE, "anna")
    assert read_labels(run).labels == (last,)
    assert read_labels(run).damaged == 1


_WRITER = """
import sys
from pathlib import Path
from agentv.record.human_labels import LabelValue, append_label, new_label
from agentv.record.run_dir import RunDirectory
from agentv.results import RowKey

run, name = RunDirectory.open(Path(sys.argv[1])), sys.argv[2]
sys.stdout.write("ready"); sys.stdout.flush(); sys.stdin.read(1)
for i in range(1, 101):
    append_label(run, new_label(RowKey("s", "c", "t", i), "a" * i, LabelValue.PASS, name * 300, name))
"""


def test_several_processes_append_without_losing_labels(run: RunDirectory):
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(run.path), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for name in "abc"
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.read(5) == b"ready"
    for writer in writers:
        writer.communicate(b"x", timeout=60)

    read = read_labels(run)
    assert read.damaged == 0
    assert {(label.by, label.attempt) for label in read.labels} == {(by, i) for by in "abc" for i in range(1, 101)}


def test_too_long_notes_are_refused(run: RunDirectory):
    with pytest.raises(UsageError, match="at most 2,000 characters, got 2,001"):
        new_label(KEY, "Paris", LabelValue.PASS, "x" * 2001)
    with pytest.raises(RecordError, match="at most 1,048,576 bytes"):
        append_label(run, replace(new_label(KEY, "Paris", None), eval_id="x" * LONGEST_LABEL_LINE))


def test_user_is_the_variable_or_the_login_name(monkeypatch: pytest.MonkeyPatch):
    assert current_user({"AGENTV_USER": " Anna\n\x1b[31mB. "}) == "Anna B."
    assert current_user({"AGENTV_USER": "x" * 200}) == "x" * 80
    monkeypatch.setenv("LOGNAME", "ben")
    assert current_user({}) == "ben"
    assert current_user({"AGENTV_USER": " "}) == "ben"
