"""Names that `--share` masks, in all forms in which they are written."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agentv.record.run_dir import RunDirectory
from agentv.view.share import Masker, keys, masker_of
from tests.view.bookshop import RUNS, Bookshop
from tests.view.decoding import Decoded
from tests.view.opening import Files

HOME = "/home/maria.keller"
PROJECT = f"{HOME}/work/shop agent"


@pytest.fixture
def masker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Masker:
    """The masker of a run that was made on this machine, which is Maria's."""
    monkeypatch.setenv("HOME", HOME)
    monkeypatch.setenv("LOGNAME", "mkeller")
    monkeypatch.setenv("GATEWAY", "https://gateway.intern.example:8443/v1")
    monkeypatch.setattr(socket, "gethostname", lambda: "laptop-17.corp.example")
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "laptop-17", "6.1", "#1", "x86_64")))
    manifest = {
        "run_id": "r",
        "cwd": PROJECT,
        "digests": {f"{PROJECT}/evals/a.yaml": "0", "/opt/acme/judges/precision.py": "1", "/usr/lib/x.py": "2"},
        "configuration": {
            f"{PROJECT}/agentv.config.yaml": {
                "targets": {
                    "a": {"base_url": "http://llm.intern.example/v1", "command": ["/srv/acme/bin/agent", "--fast"]},
                    "b": {"base_url": "${{ GATEWAY }}"},
                    "c": {"base_url": "http://127.0.0.1:8080"},
                }
            }
        },
    }
    rows = [
        {"eval_id": "a", "candidate_answer": "ok", "error": None},
        {
            "eval_id": "b",
            "error": {"stage": "target", "message": "https://10.1.2.3/x: refused; see /data/logs/run.log"},
        },
        {
            "eval_id": "c",
            "evaluator_results": [{"evaluator_results": [{"error": "/mnt/judges/j.py: line 3"}], "error": None}],
        },
    ]
    (tmp_path / "run.json").write_text(json.dumps(manifest))
    (tmp_path / "results.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "labels.jsonl").write_text('{"by": "jonas"}\nnot JSON\n')
    return masker_of([RunDirectory(tmp_path)])


def masked(masker: Masker, value: Any) -> Any:
    return json.loads(masker.json(json.dumps(value, ensure_ascii=False)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"in {PROJECT}/evals/a.yaml: line 3", "in [project]/evals/a.yaml: line 3"),
        (f"first\n{PROJECT}\nlast", "first\n[project]\nlast"),
        (f"{PROJECT}.", "[project]."),
        (f"{PROJECT}-old/x", "[home]/work/shop agent-old/x"),
        (f"{HOME}/.config", "[home]/.config"),
        ("/home/other/x and /Users/Ann/y", "[home]/x and [home]/y"),
        ("/tmp/x1/y", "[temp]/x1/y"),
        ("\n/tmp/x", "\n[temp]/x"),
        ("file:///tmp/x", "file://[temp]/x"),
        (f"file://{quote(PROJECT)}/a", "file://[project]/a"),
        (f"?path={quote(PROJECT, safe='')}%2Fa", "?path=[project]%2Fa"),
        (f"%3A%2F%2F{quote(quote(PROJECT, safe=''), safe='')}", "%3A%2F%2F[project]"),
        (json.dumps({"path": PROJECT}), '{"path": "[project]"}'),
        (json.dumps(json.dumps(f"\n{PROJECT}")), r'"\"\\n[project]\""'),
        (PROJECT.replace("/", "\\/"), "[project]"),
        ("/opt/acme/judges/precision.py", "[dir-4]/precision.py"),
        ("/srv/acme/bin/agent --fast", "[dir-3]/agent --fast"),
        ("/mnt/judges/j.py", "[dir-2]/j.py"),
        ("cat /data/logs/run.log", "cat [dir-1]/run.log"),
        ("/usr/lib/x.py /etc/passwd /api/v1/users /v1/chat/completions", None),
        ("https://example.com/opt/acme", None),
        ("mkeller@laptop-17: ssh laptop-17.corp.example", "[user]@[host-1]: ssh [host-1]"),
        ("maria.keller wrote, MKELLER wrote", "[user-2] wrote, [user] wrote"),
        ("by jonas, not jonason", "by [user-3], not jonason"),
        ("\tjonas\njonas", "\t[user-3]\n[user-3]"),
        ("POST http://llm.intern.example/v1", "POST http://[host-2]/v1"),
        ("http%3A%2F%2FLLM.intern.example%2Fv1", "http%3A%2F%2F[host-2]%2Fv1"),
        ("connect to gateway.intern.example:8443", "connect to [host-3]:8443"),
        ("10.1.2.3 and 127.0.0.1 and localhost", "[host-4] and 127.0.0.1 and localhost"),
        ("The project of the host was a pass for the user; root cause: test error.", None),
    ],
)
def test_names_are_masked_in_every_form(masker: Masker, text: str, expected: str | None) -> None:
    expected = text if expected is None else expected
    assert masked(masker, {"answer": [text, {text: text}]}) == {"answer": [expected, {expected: expected}]}


def test_keys_and_words_of_the_record_stay(masker: Masker) -> None:
    row = {"verdict": "pass", "score": 1.0, "error": {"stage": "target", "message": ""}, "metadata": {"user": "root"}}
    assert masked(masker, row) == row


def test_name_of_a_user_that_is_a_key_of_rows_is_not_masked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOGNAME", "score")
    monkeypatch.setattr(socket, "gethostname", lambda: "target")
    (tmp_path / "run.json").write_text("not JSON")
    text = '{"score": 1, "target": "a"}'
    assert masker_of([RunDirectory(tmp_path)]).json(text) == text


def test_project_at_the_root_of_the_file_system_masks_no_slash() -> None:
    assert Masker({"/app": "[project]"}, {}, {}).json('"/app/x /api/app x/app"') == '"[project]/x /api/app x/app"'


def masker_for(monkeypatch: pytest.MonkeyPatch, run: Path, user: str, *by: str) -> Masker:
    monkeypatch.setenv("LOGNAME", user)
    run.mkdir(exist_ok=True)
    (run / "run.json").write_text(json.dumps({"run_id": "r"}))
    (run / "labels.jsonl").write_text("".join(f"{json.dumps({'by': name})}\n" for name in by))
    return masker_of([RunDirectory(run)])


@pytest.mark.parametrize("user", ["100234", "3953", "true", "null"])
def test_name_that_looks_like_a_number_is_masked_in_strings_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user: str
) -> None:
    value = {"row": 100234, "score": 0.7100234, "bytes": [3953], "is": [True, None], "by": f'{user}: " is it'}
    shown = masked(masker_for(monkeypatch, tmp_path, user), value)
    assert shown == {**value, "by": '[user]: " is it'}


def test_short_names_in_labels_are_masked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    masker = masker_for(monkeypatch, tmp_path, "nn", "李明", "JD", "Alice Smith")
    assert masked(masker, ["李明", "JD", "Alice Smith", "jd"]) == ["[user]", "[user-2]", "[user-3]", "jd"]


def test_many_backslashes_take_linear_time(masker: Masker) -> None:
    text = json.dumps({"answer": "\\" * 200_000 + f"{HOME}/x" + "a" * 200_000})
    started = time.perf_counter()
    assert HOME not in masker.json(text)
    assert time.perf_counter() - started < 20  # quadratic: minutes


def test_directory_whose_name_is_not_utf_8_can_be_shared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    odd.mkdir()
    monkeypatch.chdir(odd)
    assert masked(masker_for(monkeypatch, tmp_path, "maria"), f"by maria in {tmp_path}/x").startswith("by [user] in ")


def test_every_key_of_a_file_is_known(rich_project: Bookshop, tmp_path: Path) -> None:
    of_users = ("metadata", "metadata_index", "input", "output", "details", "options", "targets", "tool_calls_by_name")
    found: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            found.update(value)
            for key, part in value.items():
                if key not in of_users or not isinstance(part, dict):
                    walk(part)
        elif isinstance(value, list):
            for part in value:
                walk(part)

    path = Files(rich_project.root, tmp_path).path(RUNS["new-prompt"], RUNS["baseline"])
    file = Decoded.read(path)
    for name in file.json:
        walk(file[name])
    assert found - keys() == set(), "add these to _KEYS in view/share.py"
