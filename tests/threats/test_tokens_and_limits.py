"""A token is valid for one proxy only, and call limits are never exceeded, whatever a script does."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from agentv.testing.model_server import Failure
from tests.conftest import Project
from tests.spec.support import fake_model, judged, models, run, scripted, write, write_suite
from tests.threats.heartbeat import Heartbeat

SHELL_JUDGE = (
    """printf '{"score": 1, "details": {"url": "%s", "token": "%s"}}' """
    '"$AGENTV_JUDGE_PROXY_URL" "$AGENTV_JUDGE_PROXY_TOKEN"'
)


def test_every_execution_has_a_unique_token(project: Project) -> None:
    evaluator = {"type": "code_judge", "script": ["sh", "-c", SHELL_JUDGE], "judge": True}
    write_suite(project, [{"id": str(n), "input": "?"} for n in range(200)], execution={"evaluators": [evaluator]})
    project.write("agentv.config.yaml", json.dumps(scripted()))
    ran = run(project, "--workers", "20")
    assert ran.process.returncode == 0, ran.words
    said = [row["evaluator_results"][0]["details"] for row in ran.rows]
    tokens = {details["token"] for details in said}
    assert len(tokens) == 200
    for token in tokens:
        assert len(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))) >= 32
    assert all(details["url"].startswith("http://127.0.0.1:") for details in said)


async def test_token_is_rejected_by_another_proxy(project: Project) -> None:
    """Two scripts run concurrently and use each other's tokens."""
    script = """
        import time
        me = json.load(sys.stdin)["eval_id"]
        def trade(name):
            with open(f"{me}.{name}.part", "w") as file:
                file.write(TOKEN)
            os.rename(f"{me}.{name}.part", f"{me}.{name}")
            other = {"case-0": "case-1", "case-1": "case-0"}[me]
            while not os.path.exists(f"{other}.{name}"):
                time.sleep(0.01)
            return open(f"{other}.{name}").read()
        theirs = trade("token")
        wrong = [ask(path, body, headers={"Authorization": "Bearer " + theirs})[0]
                 for path, body in (("/info", None), ("/invoke", {"question": "?"}))]
        right = invoke()[0]
        trade("finished")
        done(wrong=wrong, right=right)
    """
    async with fake_model() as server:
        write(project, script, {"judge": True}, config=models(server), cases=2)
        ran = await judged(project, "--workers", "2")
        assert server.calls == 2
    for row in ran.rows:
        assert row["evaluator_results"][0]["details"] == {"wrong": [401, 401], "right": 200}


@pytest.mark.parametrize(("judge", "limit"), [({}, 50), ({"max_calls": 10}, 10)], ids=["default", "set to 10"])
async def test_call_over_the_limit_is_refused_with_a_hint(project: Project, judge: dict[str, Any], limit: int) -> None:
    script = f"""
        replies = [invoke() for _ in range({limit} + 1)]
        json.dump(replies, open("replies.json", "w"))
        done(1.0)
    """
    async with fake_model() as server:
        write(project, script, {"judge": judge}, config=models(server))
        ran = await judged(project)
        assert server.calls == limit
    statuses = [status for status, _ in json.loads((project.root / "replies.json").read_text())]
    assert statuses == [200] * limit + [429]
    refusal = json.loads((project.root / "replies.json").read_text())[-1][1]
    assert str(limit) in refusal["error"]
    assert "raise `max_calls`" in refusal["error"]
    assert str(limit) in ran.failure
    assert len(ran.calls) == limit


async def test_concurrent_calls_never_exceed_the_limit(project: Project) -> None:
    script = """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(40) as pool:
            singles = [pool.submit(invoke) for _ in range(30)]
            batch = {"requests": [{"question": "?"}] * 3}
            batches = [pool.submit(ask, "/invokeBatch", batch) for _ in range(10)]
        statuses = [future.result()[0] for future in singles], [future.result()[0] for future in batches]
        json.dump(statuses, open("statuses.json", "w"))
        done()
    """
    async with fake_model(delay=0.02) as server:
        write(project, script, {"judge": {"max_calls": 20}}, config=models(server))
        ran = await judged(project)
        asked = server.calls
    singles, batches = json.loads((project.root / "statuses.json").read_text())
    assert asked == singles.count(200) + 3 * batches.count(200) == ran.ledger["call_count"] <= 20
    assert asked >= 18  # at most two calls can remain when a batch of three is refused
    assert ran.ledger["refused_calls"] == singles.count(429) + 3 * batches.count(429)
    assert "20" in ran.failure


async def test_failed_calls_count_towards_the_limit(project: Project) -> None:
    script = """
        replies = []
        while not replies or replies[-1][0] != 429:
            replies.append(invoke())
        json.dump(replies, open("replies.json", "w"))
        done()
    """
    async with fake_model(Failure(500)) as server:
        write(project, script, {"judge": {"max_calls": 6}}, config=models(server))
        ran = await judged(project)
        assert server.calls == 6
        server.reply = "well again"
        write(project, "done(status=invoke()[0])", {"judge": {"max_calls": 6}}, config=models(server))
        assert (await judged(project)).details == {"status": 200}
    replies = json.loads((project.root / "replies.json").read_text())
    assert [status for status, _ in replies] == [502] * 6 + [429]
    assert (ran.ledger["call_count"], ran.ledger["failed_calls"], ran.ledger["refused_calls"]) == (6, 6, 1)
    assert "6" in ran.failure


async def test_rejected_requests_do_not_count_as_calls(project: Project, heartbeat: Heartbeat) -> None:
    script = """
        large = b'{"question": "' + b"x" * (9 << 20) + b'"}'
        def too_large():
            try:
                return ask("/invoke", large)[0]
            except OSError:  # the proxy may close the connection before the whole body is sent
                return 413
        refused = []
        for _ in range(20):
            refused.append(ask("/invoke", {"question": "?"}, headers={})[0])
            refused.append(ask("/invoke", {"question": ""})[0])
            refused.append(ask("/invoke", b"{")[0])
            refused.append(invoke(target="nonexistent")[0])
            refused.append(ask("/nowhere", {"question": "?"})[0])
            refused.append(ask("/invoke")[0])
            refused.append(ask("/invokeBatch", {"requests": [{"question": "?"}, {}]})[0])
        refused += [too_large(), too_large()]
        done(refused=refused, answered=[invoke()[0] for _ in range(5)])
    """
    async with fake_model() as server:
        write(project, script, {"judge": {"max_calls": 5}}, config=models(server))
        ran = await judged(project, env=heartbeat.env)
        assert server.calls == 5
    assert ran.details["refused"] == [401, 400, 400, 400, 404, 405, 400] * 20 + [413, 413]
    assert ran.details["answered"] == [200] * 5
    assert (ran.ledger["call_count"], ran.ledger["refused_calls"]) == (5, 0)
    heartbeat.assert_steady()


async def test_info_is_accurate_and_does_not_count_as_a_call(project: Project) -> None:
    script = """
        seen = [ask("/info")]
        for _ in range(4):
            invoke()
            seen += [ask("/info"), ask("/info")]
        json.dump(seen, open("seen.json", "w"))
        done()
    """
    async with fake_model() as server:
        write(project, script, {"judge": {"max_calls": 3}}, config=models(server))
        ran = await judged(project)
        assert server.calls == 3
    seen = json.loads((project.root / "seen.json").read_text())
    assert {status for status, _ in seen} == {200}
    assert [info["callCount"] for _, info in seen] == [0, 1, 1, 2, 2, 3, 3, 3, 3]
    assert {(info["targetName"], info["maxCalls"]) for _, info in seen} == {("strict", 3)}
    assert "3" in ran.failure


async def test_invalid_request_at_the_limit_does_not_fail_the_evaluator(project: Project) -> None:
    script = """
        invoke()
        done(statuses=[ask("/invoke", {})[0], invoke(target="unknown")[0], ask("/info")[0]])
    """
    async with fake_model() as server:
        write(project, script, {"judge": {"max_calls": 1}}, config=models(server))
        ran = await judged(project)
        assert server.calls == 1
    assert ran.details == {"statuses": [400, 400, 200]}
