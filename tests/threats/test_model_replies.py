"""No reply of a model server can exhaust the runtime, outlive the timeout of the call, or be read incompletely."""

from __future__ import annotations

import gzip
import json
import re
import time
import zlib
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.parse import quote

import pytest

from tests.conftest import Project
from tests.spec.support import KEY, fake_model, judged, scripted, write
from tests.threats.heartbeat import LIMIT_MS, Heartbeat
from tests.threats.hostile_server import HostileServer, http_reply

MIB = 2**20
ATTEMPTS = 3
"""A busy machine can stop the thread that masks while it holds the interpreter lock, and the event loop with it."""
SUITE = "evalcases: [{id: a, input: hello}]\nexecution: {evaluators: [{type: contains, value: hello}]}\n"
ANSWER = json.dumps({"choices": [{"message": {"content": "hello " + "world " * 5000}}]}).encode()


def completion(filler: bytes) -> bytes:
    return b'{"choices": [{"message": {"content": "hello"}}], "filler": [' + filler + b"]}"


def ask(project: Project, server: HostileServer, heartbeat: Heartbeat, **settings: Any) -> dict[str, dict[str, Any]]:
    """The rows of a run with one target per reply."""
    targets = {name: server.target(name, timeout_seconds=8, **settings) for name in server.replies}
    project.write("agentv.config.yaml", json.dumps({"targets": targets}))
    project.write("suite.yaml", SUITE)
    named = [argument for name in targets for argument in ("--target", name)]
    done = project.run("eval", "suite.yaml", *named, env={"MODEL_KEY": KEY, **heartbeat.env})
    assert "Traceback" not in done.stderr
    rows = {row["target"]: row for row in project.rows(project.run_dirs()[-1])}
    assert rows.keys() == targets.keys(), f"{done.returncode} {done.stderr}"
    return rows


EMPTY_LISTS = completion(b",".join([b"[]"] * 2_600_000))
PARSED = {
    "lists": http_reply(EMPTY_LISTS),
    "objects": http_reply(completion(b",".join([b'{"":{}}'] * 1_000_000))),
    "deep": http_reply(completion(b"[" * 500_000 + b"]" * 500_000)),
    "small": http_reply(ANSWER),
}
REFUSED = {
    "error": http_reply(b"model " * 1_300_000, status="400 Bad"),
    "over": http_reply(b" " * (8 * MIB + 1)),
    "declared": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
    "bomb": http_reply(gzip.compress(bytes(200 * MIB), 1), "Content-Encoding: gzip"),
    "members": http_reply(gzip.compress(b"", 1) * 100_000, "Content-Encoding: gzip"),
    "small": http_reply(ANSWER),
}
EXPECTED = {
    "lists": "more than 200,000 values",
    "objects": "more than 200,000 values",
    "deep": "not JSON",
    "error": "returned HTTP 400: model model",
    "over": "is larger than 8 MiB and was not read",
    "declared": "is larger than 8 MiB and was not read",
    "bomb": "is larger than 8 MiB and was not read",
    "members": "has more than 1000 members",
}


@pytest.mark.parametrize("replies", [PARSED, REFUSED], ids=["parsed", "refused"])
def test_huge_replies_are_errors_and_block_no_other_call(
    project: Project, tmp_path: Path, replies: dict[str, bytes]
) -> None:
    heartbeat = Heartbeat(tmp_path)
    started = time.monotonic()
    with HostileServer(replies) as server:
        rows = ask(project, server, heartbeat)
    assert time.monotonic() - started < 60
    messages = {name: row["error"]["message"] for name, row in rows.items() if row["error"]}
    assert messages.keys() == replies.keys() - {"small"}
    for name, message in messages.items():
        assert EXPECTED[name] in message
        assert len(message) < 3000
    heartbeat.assert_steady()


def test_large_answer_is_read_and_recorded_without_blocking_other_calls(project: Project, tmp_path: Path) -> None:
    prose = "hello world, these are 50 percent: 50%. \n" * 40_000
    escaped = "%41&#65;\\u0041" * 20_000
    replies = {
        name: http_reply(json.dumps({"choices": [{"message": {"content": text}}]}).encode())
        for name, text in (("prose", prose), ("escaped", f"hello {escaped}"), ("key", prose + KEY))
    }
    heartbeat = Heartbeat(tmp_path)
    with HostileServer(replies) as server:
        for _ in range(ATTEMPTS):
            rows = ask(project, server, heartbeat)
            if heartbeat.measured["longest_ms"] <= LIMIT_MS:
                break
    assert rows["prose"]["candidate_answer"] == prose
    assert rows["escaped"]["candidate_answer"].endswith(escaped)
    assert rows["key"]["candidate_answer"] == f"{prose}[redacted]"
    heartbeat.assert_steady()


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_several_compressed_members_are_read_completely(project: Project, tmp_path: Path, coding: str) -> None:
    pack = gzip.compress if coding == "gzip" else zlib.compress
    third = len(ANSWER) // 3
    packed = pack(ANSWER[:third]) + pack(b"") + pack(ANSWER[third:])
    replies = {
        "members": http_reply(packed, f"Content-Encoding: {coding}"),
        "padded": http_reply(packed + bytes(100), f"Content-Encoding: {coding}"),
        "cut": http_reply(packed[:-20], f"Content-Encoding: {coding}"),
    }
    with HostileServer(replies) as server:
        rows = ask(project, server, Heartbeat(tmp_path))
    assert rows["members"]["candidate_answer"] == rows["padded"]["candidate_answer"] == "hello " + "world " * 5000
    assert re.search("connection before the reply was complete", rows["cut"]["error"]["message"])


async def test_judge_reply_full_of_escapes_is_masked_without_blocking_other_calls(
    project: Project, heartbeat: Heartbeat
) -> None:
    script = """
        from agentv_eval import create_judge_proxy_client
        reply = create_judge_proxy_client().invoke(question="q").raw_text
        print(json.dumps({"score": 1, "reasoning": reply[-30:]}))
    """
    async with fake_model("%41" * 700_000 + quote(KEY, safe="")) as server:
        judge = {"provider": "openai", "model": "m", "base_url": server.url, "api_key": "${{ MODEL_KEY }}"}
        write(project, "import json\n" + dedent(script), {"judge": {}}, config=scripted(judge=judge))
        ran = await judged(project, env=heartbeat.env)
    assert ran.result["error"] is None
    assert ran.result["reasoning"].endswith("%41[redacted]")
    heartbeat.assert_steady(200)  # masking takes 1.3 s in the loop; its thread competes with it for two busy cores
