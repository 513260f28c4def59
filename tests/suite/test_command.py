"""`agentv validate` and `agentv eval` report the same problems and never hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite.support import write

CONFIG = "targets: {scripted: {provider: mock, response: '{}'}}\n"


def agentv(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    write(folder, CONFIG, "agentv.config.yaml")
    return subprocess.run(
        [sys.executable, "-m", "agentv", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )


@pytest.mark.parametrize("command", ["validate", "eval"])
def test_problems_are_printed_to_stderr_with_positions_and_nothing_runs(tmp_path, command):
    write(tmp_path, '{"id": "a", "inptu": "x"}\n', "cases.jsonl")
    write(
        tmp_path,
        """\
        execution: {evaluators: [{type: is_json}]}
        evalcases:
          - {id: a, input: x, thresold: 1}
          - file: cases.jsonl
        """,
    )
    run = agentv(tmp_path, command, "suite.yaml")
    assert run.returncode == 2
    assert "suite.yaml:3:23: unknown key `thresold` (did you mean `threshold`?)\n" in run.stderr
    assert "cases.jsonl:1:13: unknown key `inptu` (did you mean `input`?)\n" in run.stderr
    assert "cases.jsonl:1:8: duplicate id 'a' (first at suite.yaml:3)\n" in run.stderr
    assert "Traceback" not in run.stderr
    assert run.stdout == ""
    assert not (tmp_path / ".agentv").exists()


@pytest.mark.parametrize("command", ["validate", "eval"])
def test_alias_bomb_custom_tag_and_pipe_are_rejected(tmp_path, command):
    bomb = "x-0: &a0 lol\n" + "".join(f"x-{i}: &a{i} [{f'*a{i - 1}, ' * 10}]\n" for i in range(1, 12))
    write(tmp_path, bomb + "evalcases: []\n", "bomb.yaml")
    write(tmp_path, "evalcases: !!python/object/apply:os.system ['touch executed']\n", "tag.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    for name, expected in [
        ("bomb.yaml", "bomb.yaml:6:56: aliases expand to more than 100,000 values here"),
        ("tag.yaml", "tag.yaml:1:12: the tag `!!python/object/apply:os.system` is not allowed here"),
        ("pipe.yaml", "pipe.yaml:1:1: the suite file is not a regular file"),
    ]:
        run = agentv(tmp_path, command, name)
        assert (run.returncode, "Traceback" in run.stderr) == (2, False)
        assert expected in run.stderr
    assert not (tmp_path / "executed").exists()


def test_resume_reports_a_schema_file_that_changed(tmp_path):
    schema = write(tmp_path, '{"type": "object"}', "schemas/answer.json")
    write(tmp_path, "evalcases: [{id: a, input: x, evaluators: [{type: json_schema, schema: schemas/answer.json}]}]\n")
    run = agentv(tmp_path, "eval", "suite.yaml", "--json")
    assert run.returncode == 0, run.stderr
    directory = json.loads(run.stdout)["run_dir"]
    assert agentv(tmp_path, "eval", "--resume", directory).returncode == 0
    schema.write_text('{"type": "array"}')
    again = agentv(tmp_path, "eval", "--resume", directory)
    assert again.returncode == 2
    assert f"{schema} has changed" in again.stderr


def test_scalars_are_kept_as_written_in_rows(tmp_path):
    write(tmp_path, b"caf\xc3\xa9\r\nsecond line\n", "note.md")
    write(
        tmp_path,
        """\
        evalcases:
          - id: 010
            input: [{role: user, content: [{type: text, value: True}, {type: file, value: note.md}]}]
            metadata: {when: 2024-01-01, big: 0x1F}
            evaluators: [{type: is_json}]
        """,
    )
    run = agentv(tmp_path, "eval", "suite.yaml", "--out", "rows.jsonl", "--quiet")
    assert run.returncode == 0, run.stderr
    (row,) = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    assert (row["eval_id"], row["metadata"]) == ("010", {"when": "2024-01-01", "big": 31})
