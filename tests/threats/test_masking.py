"""No output of a run contains a key, in whatever form a server, a script or a command under test writes it."""

from __future__ import annotations

import base64
import html
import json
import random
import re
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.spec.support import KEY
from tests.threats.hostile_server import HostileServer, http_reply

CHOOSE = random.Random(11)
SUITE = "evalcases: [{id: a, input: hello}]\nexecution: {evaluators: [{type: contains, value: hello}]}\n"
PIECES = [KEY[at : at + 8] for at in range(len(KEY) - 7)]


def some(escape: Callable[[str], str]) -> str:
    return "".join(escape(char) if CHOOSE.random() < 0.5 else char for char in KEY)


def every(escape: Callable[[str], str]) -> str:
    return "".join(map(escape, KEY))


FORMS = {
    "raw": KEY,
    "percent": every(lambda char: f"%{ord(char):02X}"),
    "some percent": some(lambda char: f"%{ord(char):02x}"),
    "percent twice": some(lambda char: f"%25{ord(char):02x}"),
    "unicode": every(lambda char: f"\\u{ord(char):04x}"),
    "some unicode": some(lambda char: f"\\u{ord(char):04X}"),
    "unicode twice": some(lambda char: f"\\\\u{ord(char):04x}"),
    "decimal": every(lambda char: f"&#{ord(char)};"),
    "some decimal": some(lambda char: f"&#{ord(char):07d};"),
    "hexadecimal": some(lambda char: f"&#x{ord(char):x};"),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 of a header": base64.urlsafe_b64encode(f"Bearer {KEY}".encode()).decode().rstrip("="),
    "base64 at 1": base64.b64encode(f"x{KEY}yz".encode()).decode(),
}


def decoded(text: str) -> Iterator[str]:
    """The text, and with up to four levels of each escaping undone."""
    for _ in range(5):
        yield text
        text = html.unescape(urllib.parse.unquote(text))
        text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text).replace("\\\\", "\\")
    for token in re.findall(r"[A-Za-z0-9+/_-]{11,}", text):
        for skipped in range(4):
            piece = token[skipped:].replace("-", "+").replace("_", "/")
            yield base64.b64decode(piece[: len(piece) // 4 * 4]).decode("latin-1")


def assert_no_piece(text: str) -> None:
    for form in decoded(text):
        assert not [piece for piece in PIECES if piece in form], form[:500]


def written(directory: Path) -> str:
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def replies(form: str) -> dict[str, bytes]:
    """A reply with the key in each of the places that an error message can quote."""
    pad = "x" * (75 - len("HTTP/1.1 "))
    body = json.dumps({"choices": [{"message": {"content": "hello"}}]}).encode()
    error = {"error": {"message": f"bad key {form}", "detail": form}}
    return {
        "first-line": f"{pad}{form}\r\n\r\n".encode(),
        "status": http_reply(body, status=f"299 {form}") + b"",
        "bad-status": http_reply(body, status=f"{form} {form}"),
        "transfer-encoding": http_reply(body, f"Transfer-Encoding: {pad}{form}"),
        "content-length": b"HTTP/1.1 200 OK\r\nContent-Length: " + f"{pad}{form}".encode() + b"\r\n\r\n",
        "content-encoding": http_reply(body, f"Content-Encoding: {pad}{form}"),
        "content-type": http_reply(b"<p>no", f"Content-Type: {'y' * 150}{form}"),
        "location": http_reply(b"", f"Location: http://127.0.0.1/{'z' * 150}{form}\x9b31m", status="307 Moved"),
        "body": http_reply(f"<p>{'w' * 150}{form}\x1b[31m".encode()),
        "error": http_reply(json.dumps(error).encode(), status="401 No"),
        "error-html": http_reply(f"{'v' * 1950}{form}".encode(), status="403 No"),
        "upstream": http_reply(json.dumps({"choices": [{"error": {"message": form}}]}).encode()),
        "finish": http_reply(json.dumps({"choices": [{"message": {}, "finish_reason": form}]}).encode()),
        "answer": http_reply(json.dumps({"choices": [{"message": {"content": f"hello {form}"}}]}).encode()),
    }


def test_key_in_any_form_and_place_of_a_reply_is_masked(project: Project) -> None:
    """Every place of a reply with every form of the key, in one run."""
    everything = {
        f"{place}-{number}": reply
        for number, form in enumerate(FORMS.values())
        for place, reply in replies(form).items()
    }
    with HostileServer(everything) as server:
        project.write("suite.yaml", SUITE)
        config = {"targets": {name: server.target(name) for name in everything}}
        project.write("agentv.config.yaml", json.dumps(config))
        named = [argument for name in everything for argument in ("--target", name)]
        done = project.run("eval", "suite.yaml", *named, "--run-dir", "run", "--verbose", env={"MODEL_KEY": KEY})
    assert done.returncode == 3, done.stderr
    rows = project.rows(project.root / "run")
    assert len(rows) == len(everything)
    assert_no_piece(done.stdout + done.stderr)
    for row in rows:
        assert_no_piece(json.dumps(row, ensure_ascii=False))
        if row["error"]:
            assert len(row["error"]["message"]) < 4500
            assert not {"\x1b", "\x9b"} & set(row["error"]["message"])
            assert "[redacted]" in row["error"]["message"] or row["target"].startswith(("status", "bad", "content-l"))
        else:
            assert "[redacted]" in row["candidate_answer"] or row["target"].startswith("status")
    assert_no_piece(written(project.root / "run"))
    for shape in ("markdown", "junit", "github"):
        assert_no_piece(project.run("report", "run", "--format", shape).stdout)
    assert_no_piece(project.run("eval", "--resume", "run", "--json", env={"MODEL_KEY": KEY}).stdout)


@pytest.mark.parametrize("form", ["raw", "unicode", "base64"])
def test_key_across_the_cut_of_a_long_log_is_masked(project: Project, form: str) -> None:
    """The last 64 kB of stderr are kept. The key begins before them, at several offsets.

    What follows it consists of long forms of the key: once they are masked, the cut is among the characters shown.
    """
    project.write("long.txt", "".join(f"&#{ord(char):040d};" for char in KEY))
    project.write(
        "talk.py",
        "import pathlib, sys\nform, room = pathlib.Path('form.txt').read_text(), 64 * 1024 - int(sys.argv[1])\n"
        "sys.stdin.read()\nlong = pathlib.Path('long.txt').read_text()\n"
        "rest = '.' * (room % len(long)) + long * (room // len(long))\n"
        "sys.stderr.write('.' * 300_000 + form + rest)\nsys.exit(1)\n",
    )
    spelled = FORMS[form]
    project.write("form.txt", spelled)  # not an argument: other tests watch all command lines for the key
    offsets = range(4, len(spelled), max(1, len(spelled) // 6))
    targets = {f"t{offset}": {"provider": "cli", "command": ["python", "talk.py", str(offset)]} for offset in offsets}
    model = {"provider": "openai_compatible", "base_url": "http://127.0.0.1:9", "model": "m", "api_key": "${{ K }}"}
    cases = [
        {"id": f"c{offset}", "input": "x", "evaluators": [{"type": "code_judge", "script": target["command"]}]}
        for offset, target in zip(offsets, targets.values(), strict=True)
    ]
    ok = {"provider": "mock", "response": "ok"}
    project.write("agentv.config.yaml", json.dumps({"targets": {**targets, "ok": ok, "model": model}}))
    project.write("suite.yaml", SUITE)
    project.write("judged.yaml", json.dumps({"evalcases": cases}))
    named = [argument for name in targets for argument in ("--target", name)]
    shown = project.run("eval", "suite.yaml", *named, "--run-dir", "one", env={"K": KEY})
    judged = project.run("eval", "judged.yaml", "--target", "ok", "--run-dir", "two", env={"K": KEY})
    assert (shown.returncode, judged.returncode) == (3, 3)
    assert_no_piece(shown.stdout + shown.stderr + judged.stdout + judged.stderr)
    for name in ("one", "two"):
        rows = project.rows(project.root / name)
        assert len(rows) == len(offsets)
        for row in rows:
            assert_no_piece(row["error"]["message"])
            assert row["error"]["message"].count("[redacted]") > 40


def test_key_printed_by_a_script_or_a_command_is_masked(project: Project) -> None:
    """Every form of the key, in one run: a case per form, whose target prints it and whose judges print it."""
    for number, form in enumerate(FORMS.values()):
        project.write(f"form{number}.txt", form)
    project.write(
        "judge.py",
        "import json, pathlib, sys\nform = pathlib.Path(json.load(sys.stdin)['eval_id'] + '.txt').read_text()\n"
        "print(form, file=sys.stderr)\nif len(sys.argv) > 1:\n    sys.exit(form)\n"
        "result = {'score': 0.5, 'hits': [form], 'misses': ['x' * 595 + form], 'reasoning': form}\n"
        "print(json.dumps({**result, 'details': {form: [form, {'deep': form}]}}))\n",
    )
    model = {"provider": "openai_compatible", "base_url": "http://127.0.0.1:9", "model": "m", "api_key": "${{ K }}"}
    echo = {"provider": "cli", "command": ["cat", "{EVAL_ID}.txt"]}
    project.write("agentv.config.yaml", json.dumps({"targets": {"echo": echo, "model": model}}))
    judges = [
        {"name": "good", "type": "code_judge", "script": ["python", "judge.py"]},
        {"name": "bad", "type": "code_judge", "script": ["python", "judge.py", "fail"]},
    ]
    cases = [{"id": f"form{number}", "input": "x"} for number in range(len(FORMS))]
    project.write("suite.yaml", json.dumps({"evalcases": cases, "execution": {"evaluators": judges}}))
    done = project.run("eval", "suite.yaml", "--target", "echo", "--run-dir", "run", "-v", env={"K": KEY})
    assert done.returncode == 3
    rows = project.rows(project.root / "run")
    assert len(rows) == len(FORMS)
    for row in rows:
        assert "[redacted]" in row["candidate_answer"]
        assert "[redacted]" in row["evaluator_results"][0]["hits"][0]
        assert "[redacted]" in row["evaluator_results"][1]["error"]
    assert_no_piece(done.stdout + done.stderr)
    assert_no_piece(written(project.root / "run"))
    for shape in ("markdown", "junit", "github"):
        assert_no_piece(project.run("report", "run", "--format", shape).stdout)
