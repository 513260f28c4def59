"""`agentv targets --ping`: one short call to each target."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from typing import Any

import pytest

from agentv.testing.model_server import Failure, FakeModelServer
from tests.conftest import Project

KEY = "sk-the-right-key-123456"


def chat(name: str, url: str, *, key: str = "'${{ MY_KEY }}'") -> str:
    return f"  {name}: {{provider: openai_compatible, model: m-1, base_url: '{url}', api_key: {key}, max_retries: 0}}\n"


async def ping(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(project.run, "targets", "--ping", *arguments, env={"MY_KEY": KEY})


async def pinged(project: Project, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = await ping(project, "--json", *arguments)
    assert KEY not in done.stdout + done.stderr
    return done.returncode, {row["name"]: row for row in json.loads(done.stdout)}


async def test_ping_prints_latency_and_tokens(project: Project) -> None:
    async with FakeModelServer("pong", api_key=KEY) as server:
        project.write("agentv.config.yaml", "targets:\n" + chat("real", server.url))
        done = await ping(project)
        code, rows = await pinged(project)
        assert [request.body["messages"][-1]["content"] for request in server.requests] == [
            "Reply with the word: pong"
        ] * 2
    assert done.returncode == code == 0
    assert "ok, " in done.stdout
    assert " ms, 11 tokens" in done.stdout
    assert "m-1" in done.stdout
    assert KEY not in done.stdout + done.stderr
    result = rows["real"]["ping"]
    assert result["ok"] is True
    assert result["latency_ms"] > 0
    assert result["token_usage"] == {"input": 10, "output": 1}
    assert result["error"] is None


@pytest.mark.parametrize(
    ("failure", "error", "hint"),
    [
        (Failure(401), "HTTP 401", "`api_key`"),
        (Failure(404), "HTTP 404", "`model`"),
        (Failure(429), "HTTP 429", "quota"),
        (Failure(500), "HTTP 500", "later"),
        (Failure(200, {"Content-Type": "text/html"}, b"<html>hello</html>"), "not JSON", "`base_url`"),
    ],
)
async def test_ping_error_names_the_setting_to_check(project: Project, failure: Failure, error: str, hint: str) -> None:
    async with FakeModelServer(failure) as server:
        project.write("agentv.config.yaml", "targets:\n" + chat("real", server.url))
        code, rows = await pinged(project)
        done = await ping(project)
    assert code == done.returncode == 3
    assert rows["real"]["ping"]["ok"] is False
    assert error in rows["real"]["ping"]["error"]
    assert hint in rows["real"]["ping"]["next_step"]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("real: ")]
    assert error in line
    assert hint in line


async def test_ping_distinguishes_unreachable_from_rejecting_servers(project: Project) -> None:
    with socket.socket() as taken:  # the port is reserved, and no process listens on it
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        project.write("agentv.config.yaml", "targets:\n" + chat("real", url))
        code, rows = await pinged(project)
    assert code == 3
    assert "could not connect" in rows["real"]["ping"]["error"]


async def test_slow_target_times_out(project: Project) -> None:
    async with FakeModelServer(Failure(hang=True)) as server:
        project.write(
            "agentv.config.yaml",
            "targets:\n" + chat("real", server.url) + "  command: {provider: cli, command: [sleep, '600']}\n",
        )
        code, rows = await pinged(project, "--timeout", "0.5")
    assert code == 3
    for name in ("real", "command"):
        assert rows[name]["ping"]["error"] == "no reply within 0.5 s"
        assert "--timeout" in rows[name]["ping"]["next_step"]


async def test_key_echoed_by_a_server_is_masked_in_ping(project: Project) -> None:
    body = json.dumps({"error": {"message": f"the key {KEY} is wrong"}}).encode()
    async with FakeModelServer(Failure(401, body=body)) as server:
        project.write("agentv.config.yaml", "targets:\n" + chat("real", server.url))
        done = await ping(project)
    assert done.returncode == 3
    assert KEY not in done.stdout + done.stderr
    assert "[redacted]" in done.stdout


async def test_targets_are_pinged_concurrently(project: Project) -> None:
    wait = "cat > /dev/null; touch {own}; until [ -e {other} ]; do sleep 0.01; done; echo pong"
    project.write(
        "agentv.config.yaml",
        "targets:\n"
        f"  a: {{provider: cli, command: [sh, -c, '{wait.format(own='a', other='b')}']}}\n"
        f"  b: {{provider: cli, command: [sh, -c, '{wait.format(own='b', other='a')}']}}\n",
    )
    code, rows = await pinged(project)
    assert code == 0
    assert all(row["ping"]["ok"] for row in rows.values())


async def test_ping_runs_the_command_with_the_prompt(project: Project) -> None:
    project.write(
        "agentv.config.yaml", "targets: {agent: {provider: cli, command: [sh, -c, 'cat > seen; echo pong']}}\n"
    )
    code, _ = await pinged(project)
    assert code == 0
    assert (project.root / "seen").read_text() == "Reply with the word: pong"


async def test_target_that_is_not_ready_fails_the_ping(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets:\n  a: {provider: mock, response: pong}\n"
        "  b: {provider: openai, model: m, api_key: '${{ NO_SUCH_VARIABLE }}'}\n",
    )
    done = await ping(project)
    assert done.returncode == 3
    assert "not ready" in done.stdout
    assert "NO_SUCH_VARIABLE" in done.stdout
    code, rows = await pinged(project)
    assert code == 3
    assert [rows[name]["ready"] for name in "ab"] == [True, False]
    assert "NO_SUCH_VARIABLE" in rows["b"]["missing"]


async def test_no_ready_target_exits_with_2(project: Project) -> None:
    project.write(
        "agentv.config.yaml", "targets: {b: {provider: openai, model: m, api_key: '${{ NO_SUCH_VARIABLE }}'}}\n"
    )
    assert (await ping(project)).returncode == 2


async def test_only_selected_targets_are_pinged(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets:\n  a: {provider: mock, response: pong}\n  b: {provider: cli, command: [touch, ran]}\n",
    )
    code, rows = await pinged(project, "--target", "a")
    assert code == 0
    assert list(rows) == ["a"]
    assert not (project.root / "ran").exists()
    done = await ping(project, "--target", "c")
    assert done.returncode == 2
    assert "names the target 'c'" in done.stderr


async def test_replay_target_is_only_opened(project: Project) -> None:
    project.write("answers.jsonl", '{"eval_id": "a", "candidate_answer": "x"}\n')
    project.write("agentv.config.yaml", "targets: {old: {provider: replay, file: answers.jsonl}}\n")
    done = await ping(project)
    assert done.returncode == 0
    assert "ok, file is readable" in done.stdout


def test_targets_without_ping_makes_no_calls(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {b: {provider: cli, command: [touch, ran]}}\n")
    done = project.run("targets", "--json")
    assert done.returncode == 0
    assert "ping" not in json.loads(done.stdout)[0]
    assert not (project.root / "ran").exists()


async def test_ping_reports_the_timeout_that_applied(project: Project) -> None:
    async with FakeModelServer(Failure(hang=True)) as server:
        settings = chat("slow", server.url).replace("max_retries: 0", "max_retries: 0, total_timeout_seconds: 0.5")
        project.write("agentv.config.yaml", "targets:\n" + settings)
        _, rows = await pinged(project, "--timeout", "60")
    result = rows["slow"]["ping"]
    assert result["error"] == "no reply within 0.5 s"
    assert "`total_timeout_seconds`" in result["next_step"]


async def test_ping_limits_the_length_of_the_reply(project: Project) -> None:
    async with FakeModelServer("pong", api_key=KEY) as server:
        project.write("agentv.config.yaml", "targets:\n" + chat("real", server.url))
        code, _ = await pinged(project)
        assert code == 0
        assert [request.body["max_tokens"] for request in server.requests] == [64]


async def test_ping_of_a_model_that_refuses_the_limit_is_repeated_without_it(project: Project) -> None:
    def answer(body: dict[str, Any]) -> str | Failure:
        return Failure(400, body=b'{"error": "max_tokens is not supported"}') if "max_tokens" in body else "pong"

    async with FakeModelServer(answer, api_key=KEY) as server:
        project.write("agentv.config.yaml", "targets:\n" + chat("real", server.url))
        code, rows = await pinged(project)
        assert (code, len(server.requests)) == (0, 2)
    assert rows["real"]["ping"]["ok"] is True
