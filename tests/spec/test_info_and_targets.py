"""Querying the judge proxy and overriding the target, with plain HTTP, the Python SDK and Node's fetch."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from tests.conftest import Project
from tests.spec.support import fake_model, judged, models, run, scripted, write

ACCESS = {"judge": {"max_calls": 7}}
NODE = """\
const url = process.env.AGENTV_JUDGE_PROXY_URL;
const headers = { Authorization: `Bearer ${process.env.AGENTV_JUDGE_PROXY_TOKEN}` };
const getInfo = async () => (await fetch(`${url}/info`, { headers })).json();
const invoke = async (request) => {
  const reply = await fetch(`${url}/invoke`, { method: "POST", headers, body: JSON.stringify(request) });
  return [reply.status, await reply.json()];
};
const done = (details) => console.log(JSON.stringify({ score: 1, details }));
"""
SDK = """\
import json
from agentv_eval import UnknownTargetError, create_judge_proxy_client
judge = create_judge_proxy_client()
def get_info():
    info = judge.get_info()
    return {"targetName": info.target_name, "maxCalls": info.max_calls, "callCount": info.call_count,
            "availableTargets": info.available_targets}
def invoke(**request):
    try:
        reply = judge.invoke(**request)
    except UnknownTargetError as error:
        return [error.status, {"error": error.message, "code": error.code}]
    return [200, {"outputMessages": reply.output_messages, "rawText": reply.raw_text}]
def done(**details):
    print(json.dumps({"score": 1, "details": details}))
"""
LANGUAGES = ["http", "sdk", pytest.param("node", marks=pytest.mark.skipif(not shutil.which("node"), reason="no node"))]


def write_in(language: str, project: Project, sources: dict[str, str], config: dict[str, Any]) -> None:
    """Write the same judge script in one of the languages."""
    write(project, sources["http"], ACCESS, config=config)
    if language == "sdk":
        (project.root / "judge.py").write_text(SDK + sources["sdk"])
    elif language == "node":
        (project.root / "judge.mjs").write_text(NODE + sources["node"])
        write(project, "", {**ACCESS, "script": ["node", "judge.mjs"]}, config=config)


@pytest.mark.parametrize("language", LANGUAGES)
def test_code_judge_queries_proxy_info(project: Project, language: str) -> None:
    """Given judge access, when the script requests `/info`, then it gets `targetName`, `maxCalls` and `callCount`,
    the name is that of the configured judge target, and the request is not counted as a call."""
    sources = {
        "http": 'before = ask("/info")[1]\ninvoke()\ndone(before=before, after=ask("/info")[1])',
        "sdk": 'before = get_info()\ninvoke(question="?")\ndone(before=before, after=get_info())',
        "node": 'const before = await getInfo(); await invoke({question: "?"}); '
        "done({before, after: await getInfo()});",
    }
    write_in(language, project, sources, scripted(mini={"provider": "mock", "response": "m"}))
    ran = run(project)
    names = ["assistant", "mini", "strict"]
    expected = {"targetName": "strict", "maxCalls": 7, "callCount": 0, "availableTargets": names}
    assert expected.items() <= ran.details["before"].items()
    assert {**expected, "callCount": 1}.items() <= ran.details["after"].items()
    assert ran.ledger["call_count"] == 1


def test_info_endpoint_requires_authentication(project: Project) -> None:
    """Given a running proxy, when `/info` is requested without a valid token, then the reply is 401 without details."""
    script = """
        done(without=ask("/info", headers={}), wrong=ask("/info", headers={"Authorization": "Bearer x" + TOKEN}),
             right=ask("/info")[0])
    """
    write(project, script, ACCESS)
    details = run(project).details
    assert details["right"] == 200
    for status, body in (details["without"], details["wrong"]):
        assert status == 401
        assert set(body) == {"error", "code"}
        assert body["code"] == "unauthorized"
        assert "strict" not in json.dumps(body)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_code_judge_overrides_target_for_specific_call(project: Project, language: str) -> None:
    """Given several configured targets, when the script names one in a call, then that target is called, and the call
    is counted."""
    sources = {
        "http": 'done(reply=invoke("Which model?", target="gpt-4o-mini"))',
        "sdk": 'done(reply=invoke(question="Which model?", target="gpt-4o-mini"))',
        "node": 'done({reply: await invoke({question: "Which model?", target: "gpt-4o-mini"})});',
    }
    async with fake_model(lambda body: f"I am {body['model']}") as server:
        write_in(language, project, sources, models(server, "gpt-4o-mini", "other"))
        ran = await judged(project)
        assert [request.body["model"] for request in server.requests] == ["gpt-4o-mini"]
    status, body = ran.details["reply"]
    assert (status, body["rawText"]) == (200, "I am gpt-4o-mini")
    assert body["outputMessages"] == [{"role": "assistant", "content": "I am gpt-4o-mini"}]
    assert (ran.ledger["call_count"], ran.ledger["targets"]) == (1, {"gpt-4o-mini": 1})


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("judge_target", ["strict", None], ids=["judge_target", "main target"])
def test_code_judge_uses_default_target_when_not_specified(
    project: Project, language: str, judge_target: str | None
) -> None:
    """When the script names no target, then the default judge is called: the configured `judge_target`, or the main
    target if there is none."""
    sources = {
        "http": 'done(reply=invoke("Who are you?"))',
        "sdk": 'done(reply=invoke(question="Who are you?"))',
        "node": 'done({reply: await invoke({question: "Who are you?"})});',
    }
    config = scripted()
    if judge_target is None:
        del config["defaults"]["judge_target"]
    write_in(language, project, sources, config)
    ran = run(project)
    assert ran.details["reply"][1]["rawText"] == ("strict says yes" if judge_target else "Paris")
    assert ran.ledger["targets"] == {judge_target or "assistant": 1}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_code_judge_specifies_unknown_target(project: Project, language: str) -> None:
    """When the script names an unknown target, then it gets 400 with the names of the available targets, no target is
    called, and nothing is counted."""
    sources = {
        "http": 'done(reply=invoke("?", target="nonexistent"))',
        "sdk": 'done(reply=invoke(question="?", target="nonexistent"))',
        "node": 'done({reply: await invoke({question: "?", target: "nonexistent"})});',
    }
    async with fake_model() as server:
        write_in(language, project, sources, models(server, "mini"))
        ran = await judged(project)
        assert server.calls == 0
        address = server.url
    status, body = ran.details["reply"]
    assert (status, body["code"]) == (400, "unknown_target")
    for name in ("nonexistent", "assistant", "mini", "strict"):
        assert name in body["error"]
    assert address not in body["error"]
    assert ran.ledger["call_count"] == 0
