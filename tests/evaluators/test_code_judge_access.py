"""Judge access of scripts: environment, judge target, limits and recorded calls."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agentv.testing.model_server import Failure
from tests.conftest import Project
from tests.processes.support import until
from tests.spec.support import KEY, fake_model, judged, mock, models, run, scripted, write

SHOW = "done(environment=dict(os.environ))"
ACCESS: dict[str, Any] = {"judge": {"max_calls": 5}}
PROXIES = ("AGENTV_JUDGE_PROXY", "AGENTV_TARGET_PROXY", "AGENTV_PROVIDER_PROXY")
PROXY_NAMES = {f"{name}_{part}" for name in PROXIES for part in ("URL", "TOKEN")}
INHERITED = dict.fromkeys(PROXY_NAMES, "http://127.0.0.1:1/inherited")
SECRETIVE = {
    "targets": {
        "assistant": mock(),
        "strict": {"provider": "openai_compatible", "model": "m", "base_url": "http://127.0.0.1:1",
                   "api_key": "${{ MODEL_KEY }}"},
        "hosted": {"provider": "openai", "model": "m"},
    },
    "defaults": {"target": "assistant", "judge_target": "strict"},
}  # fmt: skip
CALLER = {
    "OPENAI_API_KEY": "sk-other-0987654321",
    "COPY_OF_IT": f"prefix {KEY} suffix",
    "PLAIN": "kept",
    "LC_TEST": "kept too",
    **INHERITED,
}


def environment(project: Project, options: dict[str, Any], env: dict[str, str] | None = None) -> dict[str, str]:
    write(project, SHOW, options, config=SECRETIVE)
    # Rows are masked, so the script writes its environment to a separate file.
    (project.root / "judge.py").write_text(
        "import json, os\njson.dump(dict(os.environ), open('seen.json', 'w'))\nprint('{\"score\": 1}')\n"
    )
    ran = run(project, env={**CALLER, **(env or {})})
    assert ran.result["error"] is None
    seen: dict[str, str] = json.loads((project.root / "seen.json").read_text())
    return seen


# -- the environment


def test_environment_without_judge_access_includes_caller_variables_and_env_file(project: Project) -> None:
    project.write(".env", "FROM_FILE=file\nPLAIN=from the file\nFILE_API_KEY=key-in-the-file\n")
    seen = environment(project, {})
    expected = project.environment({"MODEL_KEY": KEY, **CALLER, "FROM_FILE": "file", "FILE_API_KEY": "key-in-the-file"})
    started_by_python = {"LC_CTYPE", "PYTEST_CURRENT_TEST"}
    assert not PROXY_NAMES & seen.keys()
    assert {name: value for name, value in seen.items() if name not in started_by_python} == {
        name: value for name, value in expected.items() if name not in PROXY_NAMES | started_by_python
    }


def test_environment_with_judge_access_excludes_secrets(project: Project) -> None:
    project.write(".env", "FROM_FILE=file\nFILE_API_KEY=key-in-the-file\n")
    seen = environment(project, ACCESS, {"OTHER": "has key-in-the-file in it"})
    assert seen["OPENAI_API_KEY"] == seen["AGENTV_JUDGE_PROXY_TOKEN"]
    for name in ("MODEL_KEY", "COPY_OF_IT", "FROM_FILE", "FILE_API_KEY", "OTHER"):
        assert name not in seen
    assert not [name for name, value in seen.items() if KEY in value or "key-in-the-file" in value]
    assert (seen["PLAIN"], seen["LC_TEST"]) == ("kept", "kept too")
    assert {"PATH", "HOME"} <= seen.keys()
    assert {seen[f"{name}_URL"] for name in PROXIES} == {seen["AGENTV_JUDGE_PROXY_URL"]}
    assert {seen[f"{name}_TOKEN"] for name in PROXIES} == {seen["AGENTV_JUDGE_PROXY_TOKEN"]}
    assert seen["AGENTV_JUDGE_PROXY_URL"] != INHERITED["AGENTV_JUDGE_PROXY_URL"]
    assert seen["AGENTV_JUDGE_PROXY_URL"].startswith("http://127.0.0.1:")
    assert not seen["AGENTV_JUDGE_PROXY_URL"].endswith("/")


def test_variable_listed_in_env_is_passed_to_the_script(project: Project) -> None:
    seen = environment(project, {**ACCESS, "env": ["OPENAI_API_KEY", "NOT_THERE"]})
    assert seen["OPENAI_API_KEY"] == CALLER["OPENAI_API_KEY"]
    assert "MODEL_KEY" not in seen
    assert "NOT_THERE" not in seen


def test_env_as_a_mapping_adds_variables(project: Project) -> None:
    seen = environment(project, {**ACCESS, "env": {"MODE": "strict", "PLAIN": "changed"}})
    assert (seen["MODE"], seen["PLAIN"]) == ("strict", "changed")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"NO_PROXY": "127.0.0.1,localhost,::1", "no_proxy": "127.0.0.1,localhost,::1"}),
        (
            {"NO_PROXY": "corp.example"},
            {"NO_PROXY": "corp.example,127.0.0.1,localhost,::1", "no_proxy": "corp.example,127.0.0.1,localhost,::1"},
        ),
        ({"no_proxy": "*"}, {"NO_PROXY": "*", "no_proxy": "*"}),
    ],
)
def test_no_proxy_includes_loopback_and_keeps_other_exceptions(
    project: Project, given: dict[str, str], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    seen = environment(project, ACCESS, given)
    assert {name: seen[name] for name in ("NO_PROXY", "no_proxy")} == expected


@pytest.fixture
def recording_proxy() -> Iterator[tuple[str, list[bytes]]]:
    """An HTTP proxy that returns 502 for every request and records what it received."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    heard.append(connection.recv(65536))
                    connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", heard
        listener.shutdown(socket.SHUT_RDWR)


def test_http_proxy_never_receives_the_token(
    project: Project, recording_proxy: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    script = """
        import urllib.error, urllib.request
        def fetch(url):
            request = urllib.request.Request(url, headers={"Authorization": "Bearer " + TOKEN})
            try:
                return urllib.request.urlopen(request, timeout=30).status
            except urllib.error.HTTPError as error:
                return error.code
        done(judge=fetch(URL + "/info"), elsewhere=fetch("http://judge.invalid/"))
    """
    address, heard = recording_proxy
    variables = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"), address)
    write(project, script, ACCESS)
    ran = run(project, env=variables)
    assert ran.details == {"judge": 200, "elsewhere": 502}
    assert len(heard) == 1
    assert heard[0].startswith(b"GET http://judge.invalid/")


# -- the judge target


def config_of(names: list[str], **places: Any) -> dict[str, Any]:
    """A configuration in which every target replies with its own name."""
    targets = {name: mock(name) for name in ["assistant", *names]}
    targets["assistant"] |= {"judge_target": places["target"]} if "target" in places else {}
    defaults = {"judge_target": places["defaults"]} if "defaults" in places else {}
    return {"targets": targets, "defaults": {"target": "assistant", **defaults}}


LEVELS = ["option", "evaluator", "suite", "target", "defaults"]


@pytest.mark.parametrize("first", range(6), ids=[*LEVELS, "main"])
def test_judge_target_is_taken_from_the_setting_with_the_highest_priority(project: Project, first: int) -> None:
    configured = LEVELS[first:]
    config = config_of(LEVELS, **{name: name for name in configured if name in ("target", "defaults")})
    judge = {"target": "evaluator"} if "evaluator" in configured else {}
    execution = {"judge_target": "suite"} if "suite" in configured else {}
    write(project, "done(who=invoke()[1]['rawText'])", {"judge": judge}, config=config, execution=execution)
    ran = run(project, *(["--judge-target", "option"] if "option" in configured else []))
    expected = (configured or ["assistant"])[0]
    assert ran.details["who"] == expected
    assert ran.ledger["target"] == expected


MISSING = {"provider": "openai_compatible", "model": "m", "base_url": "http://127.0.0.1:1", "api_key": "${{ NOT_SET }}"}
NO_JUDGE: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[str], str]] = {
    "--judge-target none": (scripted(), {}, {}, ["--judge-target", "none"], "`none`"),
    "judge.target none": (scripted(), {"target": "none"}, {}, [], "`none`"),
    "execution none": (scripted(), {}, {"judge_target": "none"}, [], "`none`"),
    "target none": (config_of([], target="none"), {}, {}, [], "`none`"),
    "defaults none": (config_of([], defaults="none"), {}, {}, [], "`none`"),
    "recorded answers": (config_of([]), {}, {}, ["--outputs", "answers.jsonl"], "no judge target is set"),
    "unavailable": (scripted(judge=MISSING), {}, {}, [], "NOT_SET"),
}


@pytest.mark.parametrize("name", NO_JUDGE)
def test_script_is_not_started_without_a_judge(project: Project, name: str) -> None:
    config, judge, execution, arguments, reason = NO_JUDGE[name]
    write(project, "open('started', 'w')\ndone()", {"judge": judge}, config=config, execution=execution)
    project.write("answers.jsonl", json.dumps({"eval_id": "case-0", "candidate_answer": "Rome"}) + "\n")
    ran = run(project, *arguments)
    for words in ("'checker'", "no judge is available", reason, "not started", "--judge-target"):
        assert words in ran.failure
    assert not (project.root / "started").exists()
    assert run(project, *arguments[2 if "none" in arguments else 0 :], "--judge-target", "assistant").details == {}
    assert (project.root / "started").exists()


def test_recorded_answers_are_judged_by_the_configured_judge(project: Project) -> None:
    write(project, "done(who=invoke()[1]['rawText'])", ACCESS)
    project.write("answers.jsonl", json.dumps({"eval_id": "case-0", "candidate_answer": "Rome"}) + "\n")
    assert run(project, "--outputs", "answers.jsonl").details == {"who": "strict says yes"}


def test_script_can_only_call_the_judge_and_allowed_targets(project: Project) -> None:
    script = """
        done(replies=[invoke(target=name) for name in ("strict", "mini", "assistant", "gone")], info=ask("/info")[1])
    """
    config = scripted(mini=mock("mini"), gone=MISSING)
    write(project, script, {"judge": {"allowed_targets": ["mini", "gone"]}}, config=config)
    ran = run(project)
    replies = ran.details["replies"]
    assert [status for status, _ in replies] == [200, 200, 400, 400]
    assert [body.get("code") for _, body in replies[2:]] == ["unknown_target"] * 2
    assert "is not allowed for this evaluator" in replies[2][1]["error"]
    assert "NOT_SET" in replies[3][1]["error"]
    for _, body in replies[2:]:
        assert body["error"].endswith("available: mini, strict")
    assert ran.details["info"]["availableTargets"] == ["mini", "strict"]
    assert ran.ledger["targets"] == {"strict": 1, "mini": 1}


def test_script_can_call_cli_targets_only_if_they_are_named(project: Project) -> None:
    script = """
        reply = invoke(target="agent")
        done(status=reply[0], error=reply[1].get("error"), info=ask("/info")[1]["availableTargets"])
    """
    agent = {"provider": "cli", "command": ["sh", "-c", "touch called; echo yes"]}
    write(project, script, ACCESS, config=scripted(agent=agent))
    ran = run(project)
    assert (ran.details["status"], ran.details["info"]) == (400, ["assistant", "strict"])
    assert "target 'agent' is a `cli` target; name it in `judge.allowed_targets`" in ran.details["error"]
    assert not (project.root / "called").exists()

    write(project, script, {"judge": {"allowed_targets": ["agent"]}}, config=scripted(agent=agent))
    assert run(project).details == {"status": 200, "error": None, "info": ["agent", "strict"]}
    write(project, script, {"judge": {"target": "agent"}}, config=scripted(agent=agent))
    assert run(project).details["info"] == ["agent", "assistant", "strict"]
    assert (project.root / "called").exists()


# -- limits


@pytest.mark.parametrize("ending", ["done(1.0)", "sys.exit(9)", "os.kill(os.getpid(), 15)", "print('nonsense')"])
def test_rejected_call_fails_the_evaluator_for_any_script_exit(project: Project, ending: str) -> None:
    write(project, f"invoke(); invoke(); invoke()\n{ending}", {"judge": {"max_calls": 1}})
    ran = run(project)
    assert "judge call limit of 1 (2 refused)" in ran.failure
    assert "`judge.max_calls`" in ran.failure
    assert (ran.ledger["call_count"], ran.ledger["refused_calls"]) == (1, 2)


def test_max_calls_0_rejects_every_call(project: Project) -> None:
    write(project, "json.dump(invoke()[0], open('status', 'w'))\ndone(1.0)", {"judge": {"max_calls": 0}})
    assert "judge call limit of 0" in run(project).failure
    assert (project.root / "status").read_text() == "429"


def test_judge_call_has_its_own_timeout(project: Project) -> None:
    config = scripted(judge=mock("late", delay_ms=60_000), quick=mock("quick"))
    write(project, "done(replies=[invoke(), invoke(target='quick')])", {"judge": {"timeout_seconds": 2}}, config=config)
    ran = run(project)
    (late, quick) = ran.details["replies"]
    assert (late[0], late[1]["code"]) == (504, "judge_timeout")
    assert "timeout_seconds" in late[1]["error"]
    assert quick[0] == 200
    assert (ran.ledger["call_count"], ran.ledger["failed_calls"]) == (2, 1)


# -- recorded calls

ASKING = """
    ask("/invoke", {"question": "QUESTION-TEXT", "systemPrompt": "SYSTEM-TEXT", "target": "mini", "attempt": 3})
    ask("/invokeBatch", {"requests": [{"question": "BATCH-TEXT-1"}, {"question": "BATCH-TEXT-2"}]})
    done()
"""
PROMPTS = ("QUESTION-TEXT", "SYSTEM-TEXT", "BATCH-TEXT", "REPLY-TEXT")


async def test_row_and_judge_calls_record_target_and_cost(project: Project) -> None:
    async with fake_model("REPLY-TEXT one two", failures=[None, Failure(500)]) as server:
        write(project, ASKING, ACCESS, config=models(server, "mini"))
        ran = await judged(project, "--verbose", "--judge-io", "none")
        assert server.calls == 3
    assert ran.result["score"] == 1
    ledger = ran.ledger
    assert set(ledger) >= {"cost_usd", "duration_ms", "cache_hits", "retries"}
    assert (ledger["target"], ledger["call_count"], ledger["max_calls"]) == ("strict", 3, 5)
    assert (ledger["batch_used"], ledger["refused_calls"], ledger["failed_calls"]) == (True, 0, 1)
    assert ledger["targets"] == {"mini": 1, "strict": 2}
    assert ledger["token_usage"]["input"] == 20
    calls = sorted(ran.calls, key=lambda call: call["index"])
    assert [(call["target"], call["batch"]) for call in calls] == [("mini", False), ("strict", True), ("strict", True)]
    assert sorted(call["status"] for call in calls) == ["failed", "ok", "ok"]
    assert calls[0]["attempt"] == 3
    for call in calls:
        assert (call["evaluator"], call["eval_id"], call["suite"]) == ("checker", "case-0", "suite")
        assert (call["case_target"], call["case_attempt"]) == ("assistant", 1)
    for text in PROMPTS:
        assert text not in ran.files + ran.words


async def test_prompts_and_replies_are_recorded_with_secrets_masked(project: Project) -> None:
    async with fake_model(f"REPLY-TEXT with {KEY}") as server:
        write(project, ASKING, ACCESS, config=models(server, "mini"))
        ran = await judged(project)
    first = next(call for call in ran.calls if call["target"] == "mini")
    assert (first["question"], first["system_prompt"]) == ("QUESTION-TEXT", "SYSTEM-TEXT")
    assert first["reply"]["rawText"] == "REPLY-TEXT with [redacted]"
    assert {call["question"] for call in ran.calls} == {"QUESTION-TEXT", "BATCH-TEXT-1", "BATCH-TEXT-2"}
    assert KEY not in ran.files
    for text in PROMPTS:
        assert text not in json.dumps(ran.rows) + ran.words


def test_run_without_judge_calls_writes_no_call_record(project: Project) -> None:
    write(project, "done()", ACCESS)
    ran = run(project)
    assert ran.calls == []
    assert ran.ledger["call_count"] == 0


def test_log_of_calls_that_cannot_be_written_is_reported_and_calls_succeed(project: Project) -> None:
    script = """
        os.symlink("/dev/full", "run-0/judge_calls.jsonl")
        done(statuses=[invoke()[0], invoke()[0]])
    """
    write(project, script, ACCESS)
    ran = run(project)
    assert ran.details == {"statuses": [200, 200]}
    assert ran.process.returncode == 3
    assert "judge_calls.jsonl must be a regular file, got a symbolic link" in ran.process.stderr
    assert "Traceback" not in ran.words
    write(project, "done(statuses=[invoke()[0]])", ACCESS)
    assert run(project).process.returncode == 0


# -- the APIs of vendors

OPENAI_NAMES = {"OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_KEY"}
CHATTING = """
def chat(**body):
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "QUESTION-TEXT"}], **body}
    assert os.environ["OPENAI_BASE_URL"] == URL + "/v1"
    return ask("/v1/chat/completions", body, headers={"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
"""


def test_script_with_judge_access_gets_the_variables_of_client_libraries(project: Project) -> None:
    elsewhere = {"ANTHROPIC_AUTH_TOKEN": "tok", "GOOGLE_GENAI_USE_VERTEXAI": "true", "OPENAI_BASE_URL": "http://evil"}
    seen = environment(project, ACCESS, elsewhere)
    assert not {"ANTHROPIC_AUTH_TOKEN", "GOOGLE_GENAI_USE_VERTEXAI"} & seen.keys()
    url, token = seen["AGENTV_JUDGE_PROXY_URL"], seen["AGENTV_JUDGE_PROXY_TOKEN"]
    assert seen["OPENAI_BASE_URL"] == seen["OPENAI_API_BASE"] == f"{url}/v1"
    assert seen["ANTHROPIC_BASE_URL"] == seen["GOOGLE_GEMINI_BASE_URL"] == url
    keys = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
    assert {seen[name] for name in keys} == {token}


@pytest.mark.parametrize(
    "options",
    [
        {"judge": {"openai": False}},
        {"judge": {}, "env": {"OPENAI_API_BASE": "http://127.0.0.1:1"}},
        {"judge": {}, "env": ["OPENAI_BASE_URL"]},
    ],
    ids=["openai-false", "env-mapping", "env-names"],
)
def test_variables_of_openai_are_not_set_if_disabled_or_if_env_names_one(
    project: Project, options: dict[str, Any]
) -> None:
    seen = environment(project, options)
    named = set(options.get("env", ()))
    assert OPENAI_NAMES & seen.keys() <= named
    assert "ANTHROPIC_API_KEY" in seen


def test_variables_of_other_vendors_can_be_disabled(project: Project) -> None:
    caller = {"ANTHROPIC_AUTH_TOKEN": "tok"}
    seen = environment(project, {"judge": {"anthropic": False, "gemini": False}}, caller)
    assert seen.keys() >= {*OPENAI_NAMES, *caller}
    assert not {"ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"} & seen.keys()


def test_script_without_judge_access_keeps_the_variables_of_the_caller(project: Project) -> None:
    seen = environment(project, {}, {"OPENAI_BASE_URL": "http://127.0.0.1:2"})
    assert (seen["OPENAI_BASE_URL"], seen["OPENAI_API_KEY"]) == ("http://127.0.0.1:2", CALLER["OPENAI_API_KEY"])


async def test_chat_completions_reach_the_judge_and_are_recorded_without_the_credential(project: Project) -> None:
    script = CHATTING + 'done(first=chat(temperature=0.25, n=2), other=chat(model="mini"))'
    async with fake_model(f"REPLY-TEXT with {KEY}") as server:
        write(project, script, {"judge": {"max_calls": 5, "models": {"gpt-4o": "mini"}}}, config=models(server, "mini"))
        ran = await judged(project)
        sent = [request.body for request in server.requests]
    assert [body["model"] for body in sent] == ["mini"] * 3
    assert [body.get("temperature") for body in sent] == [0.25, 0.25, None]
    status, reply = ran.details["first"]
    assert status == 200
    assert [choice["message"]["content"] for choice in reply["choices"]] == ["REPLY-TEXT with [redacted]"] * 2
    assert ran.ledger["models"] == {"gpt-4o": {"mini": 2}, "mini": {"mini": 1}}
    calls = sorted(ran.calls, key=lambda call: call["index"])
    assert [(call["asked_model"], call.get("options")) for call in calls] == [
        ("gpt-4o", {"temperature": 0.25}),
        ("gpt-4o", {"temperature": 0.25}),
        ("mini", None),
    ]
    assert KEY not in ran.files


def test_chat_completion_over_the_limit_fails_the_evaluator(project: Project) -> None:
    write(project, CHATTING + "done(over=[chat()[0], chat()])", {"judge": {"max_calls": 1}})
    ran = run(project)
    assert "exceeded its judge call limit of 1 (1 refused)" in ran.failure
    assert ran.ledger["call_count"] == 1


@pytest.mark.parametrize("again", ["--resume", "--replay"])
async def test_chat_completions_and_embeddings_come_from_the_record(project: Project, again: str) -> None:
    def answer(body: Any) -> Any:
        if "input" not in body:
            return "yes"
        return {"data": [{"embedding": [3.0, 4.0]} for _ in body["input"]], "usage": {"prompt_tokens": 2}}

    script = (
        CHATTING
        + """
embed = lambda: ask("/v1/embeddings", {"model": "small", "input": ["a", "b"]})
vectors = embed()
text = chat(seed=3)[1]["choices"][0]["message"]["content"]
if os.path.exists("killed"):
    done(text=text, vectors=[item["embedding"] for item in vectors[1]["data"]])
else:
    import signal
    open("killed", "w").close()
    signal.pause()
"""
    )
    async with fake_model(answer) as server:
        config = models(server)
        config["targets"]["vectors"] = {
            "provider": "embeddings", "model": "m", "base_url": server.url, "api_key": "${{ MODEL_KEY }}",
        }  # fmt: skip
        write(project, script, {"judge": {"embeddings": "vectors"}}, config=config)
        if again == "--resume":
            process = project.start("eval", "suite.yaml", "--run-dir", "run-0", env={"MODEL_KEY": KEY})
            await until((project.root / "killed").exists)
            process.kill()
            await asyncio.to_thread(process.communicate)
            calls = server.calls
            ran = await asyncio.to_thread(project.run, "eval", "--resume", "run-0", env={"MODEL_KEY": KEY})
            (row,) = project.rows(project.root / "run-0")
        else:
            (project.root / "killed").touch()
            await judged(project)
            calls = server.calls
            replayed = await judged(project, "--replay", "run-0")
            ran, row = replayed.process, replayed.row
        assert server.calls == calls == 2
    assert ran.returncode == 0, ran.stderr
    (result,) = row["evaluator_results"]
    assert result["details"] == {"text": "yes", "vectors": [[3.0, 4.0], [3.0, 4.0]]}
    ledger = result["judge_proxy"]
    assert (ledger["call_count"], ledger["embeddings"]["call_count"]) == (1, 1)
    assert ledger["from_record"] == ledger["embeddings"]["from_record"] == 1


def test_embeddings_need_a_target_that_has_them(project: Project) -> None:
    write(project, "done()", {"judge": {"embeddings": "strict"}})
    ran = project.run("validate", "suite.yaml")
    assert ran.returncode == 2
    assert "must be a target with `provider: embeddings`, got 'strict' (`provider: mock`)" in ran.stderr


@pytest.mark.parametrize("option", [{"models": {"gpt-4o": "nope"}}, {"embeddings": "nope"}])
def test_unknown_targets_in_judge_options_are_errors(project: Project, option: dict[str, Any]) -> None:
    write(project, "done()", {"judge": option})
    ran = project.run("validate", "suite.yaml")
    assert ran.returncode == 2
    assert "unknown target 'nope'" in ran.stderr
