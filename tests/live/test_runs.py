"""Whole runs of the command line against third-party servers, also through a proxy that corrupts replies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import pytest

from agentv.testing.fault_proxy import FaultProxy, answer, cut, drip, flood, reset, silence, silence_after_head, spoil
from tests.conftest import Project
from tests.live import targets
from tests.live.servers import ANSWER, QUESTION, LiveServer

SLOW_DOWN = answer(429, b'{"error": {"message": "slow"}}', headers={"Retry-After": "0.2"})
JUDGE = """\
from agentv_eval import code_judge

@code_judge
def asks(input, judge):
    reply = judge.invoke(question="Is it right?")
    return {"score": 1.0 if reply.raw_text == "yes" else 0.0}
"""


def configure(project: Project, entries: Mapping[str, Mapping[str, Any]], **defaults: str) -> None:
    project.write("agentv.config.yaml", json.dumps({"targets": entries, "defaults": defaults}))


def cases(project: Project, names: list[str], evaluator: Mapping[str, Any] | None = None) -> None:
    """A suite with a case per name. All of them ask the question that the servers can answer."""
    chosen = [evaluator or {"type": "contains", "value": "Paris"}]
    written = [{"id": name, "input": QUESTION, "evaluators": chosen} for name in names]
    project.write("suite.yaml", json.dumps({"evalcases": written}))


def failures(project: Project) -> dict[str, str]:
    """Errors by case id."""
    return {row["eval_id"]: row["error"]["message"] for row in project.rows() if row["error"]}


@pytest.mark.parametrize("which", ["aimock", "mockllm"])
def test_every_provider_works_against_third_party_servers(project: Project, request: pytest.FixtureRequest, which: str):
    server: LiveServer = request.getfixturevalue(which)
    known = targets.AIMOCK if which == "aimock" else targets.MOCKLLM
    names = [name for name in known if find_spec(targets.LIBRARIES.get(name, "json").partition(".")[0])]
    configure(project, {name: targets.settings(name, server.url) for name in names})
    cases(project, ["france"])
    chosen = [word for name in names for word in ("--target", name)]
    done = project.run("eval", "suite.yaml", *chosen, env=targets.ENVIRONMENT)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stdout + done.stderr
    rows = {row["target"]: row for row in project.rows()}
    assert {name: row["candidate_answer"] for name, row in rows.items()} == dict.fromkeys(names, ANSWER)
    if which == "aimock":
        assert {(row["token_usage"]["input"], row["token_usage"]["output"]) for row in rows.values()} == {(11, 7)}


def test_a_run_through_a_bad_line_has_an_answer_or_an_error_that_helps_for_every_case(
    project: Project, server: LiveServer
):
    spoiled = {
        "throttled": (SLOW_DOWN, "returned HTTP 429: slow.\nLower `max_concurrency`"),
        "broken-server": (answer(500, b"<h1>500</h1>"), "returned HTTP 500: <h1>500</h1>\nThe server failed"),
        "malformed": (spoil(lambda body: body.replace(b":", b";")), "sent a reply that is not JSON (application/json)"),
        "truncated": (spoil(lambda body: body[:50]), "sent a reply that is not JSON (application/json)"),
        "reset": (reset, "closed the connection before the reply was complete.\nThe server failed"),
        "reset-in-body": (cut(30, reset=True), "closed the connection before the reply was complete.\nThe server"),
        "cut-in-body": (cut(30), "closed the connection before the reply was complete.\nThe server failed"),
        "web-page": (answer(200, b"<html>", headers={"Content-Type": "text/html"}), "not JSON (text/html): '<html>'"),
        "empty": (answer(200), "sent a reply that is not JSON (application/json): ''"),
        "endless": (flood, "is larger than 8 MiB and was not read"),
        "slow": (drip(0.001), None),
        "good": (None, None),
    }
    cases(project, [*spoiled])
    with FaultProxy(server.url, [fault for fault, _ in spoiled.values()]) as proxy:
        configure(project, {"t": {**targets.settings("openai", proxy.url), "max_retries": 0}})
        done = project.run("eval", "suite.yaml", "--workers", "1")
    assert (done.returncode, done.stderr.count("Traceback")) == (3, 0), done.stdout + done.stderr
    said = failures(project)
    assert {name for name, (_, message) in spoiled.items() if message} == said.keys()
    for name, (_, message) in spoiled.items():
        assert (message or "") in said.get(name, ""), name
    assert targets.KEY not in done.stdout + done.stderr + json.dumps(project.rows())


def test_what_passes_passes_without_a_trace_but_the_retries(project: Project, server: LiveServer):
    cases(project, [f"case-{number}" for number in range(8)])
    faults = [SLOW_DOWN, None, answer(500, b"oops"), reset, SLOW_DOWN, cut(10), None, answer(503, b"busy")]
    with FaultProxy(server.url, faults) as proxy:
        limits = {"max_retries": 6, "retry_initial_delay_ms": 20.0}
        configure(project, {"t": {**targets.settings("openai", proxy.url), **limits}})
        done = project.run("eval", "suite.yaml", "--workers", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert proxy.calls == 8 + 6
    assert [row["candidate_answer"] for row in project.rows()] == [ANSWER] * 8


def test_a_run_never_hangs_on_a_server_that_is_silent_or_drips(project: Project, server: LiveServer):
    stalls = {"silent": silence, "only-a-head": silence_after_head, "drips": drip(0.2)}
    cases(project, [*stalls])
    with FaultProxy(server.url, stalls.values()) as proxy:
        configure(project, {"t": {**targets.settings("openai", proxy.url), "timeout_seconds": 0.5}})
        done = project.run("eval", "suite.yaml")
    assert done.returncode == 3, done.stdout + done.stderr
    said = failures(project)
    assert said == dict.fromkeys(stalls, next(iter(said.values())))
    assert "target 't' did not answer within 0.5 s.\nRaise `timeout_seconds`" in said["silent"]


def test_a_script_gets_the_verdict_of_a_judge_that_was_throttled_at_first(project: Project, aimock: LiveServer):
    project.write("judges/asks.py", JUDGE)
    cases(project, ["france"], {"name": "asks", "type": "code_judge", "script": "python judges/asks.py", "judge": True})
    with FaultProxy(aimock.url, [SLOW_DOWN, reset]) as proxy:
        answers = {"provider": "mock", "response": ANSWER}
        configure(
            project, {"a": answers, "strict": targets.settings("openai", proxy.url)}, target="a", judge_target="strict"
        )
        done = project.run("eval", "suite.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    (judged,) = project.rows()[0]["evaluator_results"]
    ledger = judged["judge_proxy"]
    assert (judged["score"], ledger["call_count"], ledger["retries"], ledger["failed_calls"]) == (1.0, 1, 2, 0)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (SLOW_DOWN, "returned HTTP 429: slow (after 3 attempts)"),
        (answer(500, b"oops"), "returned HTTP 500: oops (after 3 attempts)"),
        (spoil(lambda body: body[:50]), "sent a reply that is not JSON"),
        (silence, "it did not answer within 2 s"),
    ],
    ids=["429", "500", "truncated", "silence"],
)
def test_a_script_with_a_failing_judge_is_an_error_with_the_cause(
    project: Project, mockllm: LiveServer, fault: Any, message: str
):
    project.write("judges/asks.py", JUDGE)
    access = {"timeout_seconds": 2 if fault is silence else 60}
    cases(
        project, ["france"], {"name": "asks", "type": "code_judge", "script": "python judges/asks.py", "judge": access}
    )
    with FaultProxy(mockllm.url, always=fault) as proxy:
        quick = {"retry_initial_delay_ms": 1.0, **targets.settings("openai", proxy.url)}
        answers = {"provider": "mock", "response": ANSWER}
        configure(project, {"a": answers, "strict": quick}, target="a", judge_target="strict")
        done = project.run("eval", "suite.yaml")
    assert done.returncode == 3, done.stdout + done.stderr
    row = project.rows()[0]
    assert (row["score"], row["error"]["stage"]) == (0.0, "evaluator")
    assert "judge target 'strict' failed" in row["error"]["message"]
    assert message in row["error"]["message"]
    assert row["evaluator_results"][0]["judge_proxy"]["failed_calls"] == 1
