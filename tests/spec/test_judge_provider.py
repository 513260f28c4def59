"""Scenarios of judge access for scripts: opt-in, authentication and call limits."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project
from tests.spec.support import KEY, fake_model, judged, models, run, scripted, write


async def test_enable_judge_access_for_a_code_judge_evaluator(project: Project) -> None:
    """Given `use_judge_provider: true` and a judge, when the script runs, then its environment names a loopback proxy
    and a token, and it can call the judge through it without ever seeing the credential."""
    script = """
        reply = invoke("Is Paris the capital?")
        done(url=URL, token=TOKEN, reply=reply, environment=dict(os.environ))
    """
    async with fake_model("yes, it is") as server:
        write(project, script, {"use_judge_provider": True}, config=models(server))
        ran = await judged(project)
        assert server.calls == 1
        assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    details = ran.details
    assert details["url"].startswith("http://127.0.0.1:")
    assert len(details["token"]) >= 43
    assert details["reply"][0] == 200
    assert details["reply"][1]["rawText"] == "yes, it is"
    assert details["reply"][1]["outputMessages"] == [{"role": "assistant", "content": "yes, it is"}]
    assert not [name for name, value in details["environment"].items() if KEY in value]
    assert (ran.ledger["target"], ran.ledger["call_count"], ran.ledger["batch_used"]) == ("strict", 1, False)


@pytest.mark.parametrize("option", [{}, {"use_judge_provider": False}], ids=["not set", "false"])
def test_disabled_by_default(project: Project, option: dict[str, bool]) -> None:
    """Given a script without `use_judge_provider`, or with `false`, when it runs, then no proxy variable is set,
    and its result is the same as without any judge."""
    script = 'done(0.75, names=[name for name in os.environ if "PROXY_" in name and "AGENTV" in name])'
    write(project, script, option)
    with_a_judge = run(project)
    write(project, script, option, config={"targets": {"assistant": {"provider": "mock", "response": "Paris"}}})
    without = run(project, "--judge-target", "none")
    assert with_a_judge.details == without.details == {"names": []}
    assert with_a_judge.result["score"] == without.result["score"] == 0.75
    assert "judge_proxy" not in with_a_judge.result
    write(project, script, {"use_judge_provider": True})
    assert len(run(project).details["names"]) == 6


def test_no_judge_provider_available(project: Project) -> None:
    """Given `use_judge_provider: true` and no judge target, when the evaluator runs, then it fails with score 0
    and the error says what to configure."""
    write(project, 'open("started", "w")\ndone()', {"use_judge_provider": True})
    failure = run(project, "--judge-target", "none").failure
    assert "'checker'" in failure
    assert "no judge is available" in failure
    assert "--judge-target" in failure
    assert not (project.root / "started").exists()
    assert run(project).result["score"] == 1
    assert (project.root / "started").exists()


async def test_proxy_rejects_unauthenticated_requests(project: Project) -> None:
    """Given a running proxy, when a request has no valid `Authorization: Bearer`, then it gets 401."""
    script = """
        wrong = [{}, {"Authorization": "Bearer"}, {"Authorization": "Bearer " + TOKEN[:-1]},
                 {"Authorization": "Basic " + TOKEN}, {"Authorization": TOKEN}, {"Cookie": "token=" + TOKEN}]
        refused = [ask("/invoke", {"question": "?"}, headers=headers)[0] for headers in wrong]
        done(refused=refused, right=ask("/invoke", {"question": "?"})[0])
    """
    async with fake_model() as server:
        write(project, script, {"use_judge_provider": True}, config=models(server))
        ran = await judged(project)
        assert server.calls == 1
    assert ran.details == {"refused": [401] * 6, "right": 200}
    assert ran.ledger["call_count"] == 1


def test_proxy_binds_to_loopback_only(project: Project) -> None:
    """When the proxy is started, then its port listens on a loopback address only, and no other address of this
    machine answers on it."""
    script = """
        import socket
        listening = []
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in open(table).read().splitlines()[1:] if os.path.exists(table) else []:
                local, state = line.split()[1], line.split()[3]
                if state == "0A" and int(local.rpartition(":")[2], 16) == PORT:
                    listening.append(local.rpartition(":")[0])

        def answers(address):
            try:
                socket.create_connection((address, PORT), timeout=5).close()
            except OSError:
                return False
            return True

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
                outer = probe.getsockname()[0]
            except OSError:
                outer = "127.0.0.2"
        done(listening=listening, loopback=answers("127.0.0.1"), others=[answers("127.0.0.2"), answers(outer)])
    """
    write(project, script, {"use_judge_provider": True})
    details = run(project).details
    assert details["listening"] in ([], ["0100007F"])  # empty on systems without these files
    assert details["loopback"] is True
    assert details["others"] == [False, False]


@pytest.mark.parametrize("calls", [50, 51])
async def test_default_call_limit(project: Project, calls: int) -> None:
    """Given no `max_calls`, when a script makes more than 50 calls, then only 50 are answered."""
    script = f"done(statuses=[invoke()[0] for _ in range({calls})])"
    async with fake_model() as server:
        write(project, script, {"use_judge_provider": True}, config=models(server))
        ran = await judged(project)
        assert server.calls == 50
    assert (ran.ledger["call_count"], ran.ledger["max_calls"]) == (50, 50)
    if calls == 50:
        assert ran.details["statuses"] == [200] * 50
    else:
        assert "exceeded its judge call limit of 50" in ran.failure


async def test_configured_call_limit(project: Project) -> None:
    """Given `judge_provider.max_calls: 10`, when the script makes an 11th call, then the proxy refuses it and says
    what to do, and the evaluator fails with score 0 although the script claims a score of 1."""
    script = """
        replies = [invoke() for _ in range(11)]
        with open("replies.json", "w") as file:
            json.dump(replies, file)
        done(1.0)
    """
    options = {"use_judge_provider": True, "judge_provider": {"max_calls": 10}}
    async with fake_model() as server:
        write(project, script, options, config=models(server))
        ran = await judged(project)
        assert server.calls == 10
    *answered, refused = json.loads((project.root / "replies.json").read_text())
    assert [status for status, _ in answered] == [200] * 10
    assert refused[0] == 429
    assert refused[1]["code"] == "max_calls_exceeded"
    for word in ("limit of 10", "'checker'", "`max_calls`"):
        assert word in refused[1]["error"]
    assert "max_calls" in ran.failure
    assert (ran.ledger["call_count"], ran.ledger["refused_calls"]) == (10, 1)
    write(project, "done(1.0)", options, config=scripted())
    assert run(project).result["score"] == 1
