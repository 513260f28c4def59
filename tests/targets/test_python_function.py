"""The `python` provider: a real process, with and without supervision."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agentv.errors import ConfigError, ProviderError, ProviderTimeoutError
from agentv.messages import Message, TokenUsage
from agentv.processes.run import ProcessOutcome
from agentv.redact import Redactor
from agentv.suite.search import ProgramSearch
from agentv.targets.commands import Commands
from agentv.targets.config import load_config
from agentv.targets.environment import Environment
from agentv.targets.providers.python_function import PythonSettings
from agentv.targets.providers.python_process import Frame, ProcessEndedError, PythonProcess
from tests.conftest import Project
from tests.targets.support import ask, make


@asynccontextmanager
async def target(root: Path, code: str, function: str = "answer", **settings: Any) -> AsyncIterator[Any]:
    (root / "app.py").write_text(dedent(code))
    commands = Commands()
    scope = {"run_command": commands.run, "redactor": Redactor(["sk-0123456789"]), "environment": dict(os.environ)}
    provider = make(root, "python", scope=scope, **{"callable": f"app.py:{function}", **settings})
    try:
        yield provider
    finally:
        await provider.aclose()
        await commands.aclose()


async def failed(provider: Any, question: str = "q") -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await provider.invoke(ask(question))
    return caught.value


# -- calls


@pytest.mark.parametrize(
    "code",
    [
        "def answer(prompt): return prompt.upper()",
        "def answer(question, temperature=0): return question.upper()",
        "async def answer(text): return text.upper()",
        "def answer(request): return request.prompt.upper()",
        "from agentv_eval import TargetRequest\ndef answer(r: TargetRequest): return r.prompt.upper()",
        "from __future__ import annotations\ndef answer(r: TargetRequest): return r.messages[-1]['content'].upper()",
        "def answer(prompt, *, vars, eval_id): return (prompt + vars['x'] + eval_id).upper()",
        "def answer(messages): return messages[-1]['content'].upper()",
        "class Bot:\n    async def __call__(self, prompt): return prompt.upper()\nanswer = Bot()",
        "async def later(p): return p.upper()\ndef answer(prompt): return later(prompt)",
        "answer = str.upper",
    ],
)
async def test_function_gets_what_its_parameters_ask_for(tmp_path: Path, code: str) -> None:
    async with target(tmp_path, code) as provider:
        reply = await provider.invoke(ask("hi", vars={"x": ""}))
        assert reply.text == "HI"


async def test_request_contains_the_conversation(tmp_path: Path) -> None:
    code = """
        import json
        def answer(request):
            return json.dumps([request.prompt, request.system_prompt, request.messages, request.vars, request.eval_id,
                               request.attempt, request.files])
        def only_prompt(prompt): return prompt
        """
    turns = [Message("system", "Brief."), Message("user", "a?"), Message("assistant", "A."), Message("user", "b?")]
    request = ask(messages=turns, vars={"n": 1}, eval_id="e", attempt=2, files=(Path("/f"),))
    async with target(tmp_path, code) as provider:
        reply = await provider.invoke(request)
    assert reply.text == (
        '["b?", "Brief.", [{"role": "system", "content": "Brief."}, {"role": "user", "content": "a?"}, '
        '{"role": "assistant", "content": "A."}, {"role": "user", "content": "b?"}], {"n": 1}, "e", 2, ["/f"]]'
    )
    async with target(tmp_path, code, "only_prompt") as provider:
        assert (await provider.invoke(ask("q", system_prompt="Brief."))).text == "Brief.\n\nq"


async def test_mapping_has_usage_and_tool_calls(tmp_path: Path) -> None:
    code = """
        def answer(prompt):
            calls = [{"tool": "search", "input": {"q": prompt}}]
            return {"output_messages": [{"role": "assistant", "content": "x", "tool_calls": calls}],
                    "token_usage": {"input": 1, "output": 2}, "cost_usd": 0.5, "model": "m"}
        """
    async with target(tmp_path, code) as provider:
        reply = await provider.invoke(ask("q"))
    assert (reply.text, reply.token_usage, reply.cost_usd, reply.model) == ("x", TokenUsage(1, 2), 0.5, "m")
    assert reply.output_messages[0].tool_calls[0].input == {"q": "q"}


async def test_process_stays_and_prints_do_not_disturb_it(tmp_path: Path) -> None:
    code = """
        import os, sys
        print("imported")
        def answer(prompt):
            print("text 1 3", flush=True)
            os.write(1, b"text 1 3\\nabc")
            return str(os.getpid())
        """
    async with target(tmp_path, code) as provider:
        pids = {(await provider.invoke(ask())).text for _ in range(3)}
    assert len(pids) == 1
    assert pids != {str(os.getpid())}


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_calls_run_at_the_same_time(tmp_path: Path, kind: str) -> None:
    code = """
        import asyncio, threading
        together, all_there = asyncio.Barrier(4), threading.Barrier(4)
        async def in_loop(prompt):
            await together.wait()
            return prompt
        def in_thread(prompt):
            all_there.wait()
            return prompt
        """
    async with target(tmp_path, code, "in_loop" if kind == "async" else "in_thread", max_concurrency=4) as provider:
        async with asyncio.timeout(30):
            replies = await asyncio.gather(*(provider.invoke(ask(str(n))) for n in range(4)))
    assert [reply.text for reply in replies] == ["0", "1", "2", "3"]


async def test_other_interpreter_without_agentv_is_used(tmp_path: Path) -> None:
    code = "import sys\ndef answer(request): return request.prompt + str('agentv_eval' in sys.modules)"
    wrapper = tmp_path / "bin" / "python"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without site-packages
    wrapper.chmod(0o755)
    async with target(tmp_path, code, python="bin/python") as provider:
        assert (await provider.invoke(ask("hi "))).text == "hi False"


# -- errors


async def test_exception_is_reported_with_its_cause_and_place(tmp_path: Path) -> None:
    code = """
        def check(prompt):
            raise ValueError(f"no {prompt} sk-0123456789")
        def answer(prompt):
            return check(prompt)
        """
    async with target(tmp_path, code) as provider:
        error = await failed(provider)
        first = error.message.splitlines()[0]
        assert first == "target 't': `app.py:answer` failed: ValueError: no q [redacted] at app.py:3"
        assert not error.retryable


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def answer(p): return 5", "must return a string, or a mapping with `text` or `output_messages`, got int"),
        ("def answer(p): return {'text': {1}}", "returned a mapping that JSON cannot express"),
        ("def answer(p): return {'cost_usd': 1}", "it has neither `text` nor `output_messages`"),
        ("def answer(p): return '\\ud800'", "the answer contains a lone surrogate"),
        ("def answer(p): raise SystemExit(3)", "`app.py:answer` failed: SystemExit: 3 at app.py:1"),
        ("def answer(a, b): return a", "could not be loaded: the function must take the prompt, a `request`"),
        (
            "import nothing_like_it\ndef answer(a): return a",
            "ModuleNotFoundError: No module named 'nothing_like_it' at",
        ),
        ("answer = 5", "could not be loaded: `answer` in app.py must be a function, got int"),
        ("import sys\nsys.exit(4)", "could not be loaded: SystemExit: 4 at app.py:2"),
    ],
)
async def test_error_says_what_is_wrong(tmp_path: Path, code: str, expected: str) -> None:
    async with target(tmp_path, code) as provider:
        assert expected in (await failed(provider)).message


async def test_module_that_cannot_be_imported_is_imported_once(tmp_path: Path) -> None:
    code = "open('imports', 'a').write('x')\nraise RuntimeError('no')"
    async with target(tmp_path, code) as provider:
        for _ in range(3):
            with pytest.raises(ProviderError, match=r"RuntimeError: no at app.py:2"):
                await provider.prepare()
    assert (tmp_path / "imports").read_text() == "x"


async def test_process_is_restarted_after_a_crash(tmp_path: Path) -> None:
    code = """
        import os, sys
        def answer(prompt):
            if prompt == "crash":
                print("last words", file=sys.stderr, flush=True)
                os.kill(os.getpid(), 11)
            return prompt
        """
    async with target(tmp_path, code) as provider:
        error = await failed(provider, "crash")
        assert error.message.startswith("target 't': its process was killed by SIGSEGV: last words")
        assert (error.next_step or "").startswith("Find out why the function ends its process")
        assert (await provider.invoke(ask("fine"))).text == "fine"


# -- deadlines


async def test_late_async_call_is_cancelled_without_a_restart(tmp_path: Path) -> None:
    code = """
        import asyncio, os
        async def answer(prompt):
            if prompt == "late":
                try:
                    await asyncio.Event().wait()
                finally:
                    open("cancelled", "w").close()
            return str(os.getpid())
        """
    async with target(tmp_path, code, timeout_seconds=1) as provider:
        before = (await provider.invoke(ask("quick"))).text
        error = await failed(provider, "late")
        assert isinstance(error, ProviderTimeoutError)
        assert "`app.py:answer` did not return within 1 s" in error.message
        async with asyncio.timeout(10):
            while provider._process._ending:
                await asyncio.wait(provider._process._ending)
        assert (await provider.invoke(ask("quick"))).text == before
        assert (tmp_path / "cancelled").exists()


async def test_call_that_cannot_be_cancelled_is_killed_and_others_are_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentv.targets.providers.python_process.END_SECONDS", 0.1)
    code = """
        import os, threading
        def answer(prompt):
            if prompt != "quick":
                threading.Event().wait()
            return str(os.getpid())
        """
    async with target(tmp_path, code, timeout_seconds=0.5) as provider:
        before = (await provider.invoke(ask("quick"))).text
        late = asyncio.create_task(failed(provider, "late"))
        await asyncio.sleep(0)  # the first call is sent before the second
        other = asyncio.create_task(provider._process.call({"prompt": "other"}, None))
        assert isinstance(await late, ProviderTimeoutError)
        with pytest.raises(ProcessEndedError) as caught:
            await other
        assert provider._ended(caught.value).retryable
        assert (await provider.invoke(ask("quick"))).text != before
        with pytest.raises(ProcessLookupError):
            os.kill(int(before), 0)


# -- the configuration


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("app.py", "must look like `app.py:function` or `module:function`, got 'app.py'"),
        ("app.py:", "must look like"),
        ("a-b:f", "must name a module or a .py file before the colon, got 'a-b'"),
    ],
)
def test_invalid_callable_is_reported_with_its_place(tmp_path: Path, named: str, expected: str) -> None:
    path = tmp_path / "agentv.config.yaml"
    path.write_text(f"targets:\n  app:\n    provider: python\n    callable: '{named}'\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path, Environment({}))
    assert f"{path}:4:15: `callable` {expected}" in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"callable": "app.py:answer"}, {}),
        ({"callable": "app:answer"}, {}),
        ({"callable": "json:dumps"}, {}),
        ({"callable": "app.py:anser"}, {("callable",): "there is no `anser` in app.py (did you mean `answer`?)"}),
        ({"callable": "app:anser"}, {("callable",): "there is no `anser` in app.py (did you mean `answer`?)"}),
        ({"callable": "broken.py:f"}, {("callable",): "broken.py:2: '(' was never closed"}),
        ({"callable": "ap.py:answer"}, {("callable",): "there is no file 'ap.py' in HERE"}),
        (
            {"callable": "ap:answer"},
            {("callable",): "there is no module 'ap' in HERE or among the packages of agentv"},
        ),
    ],
)
def test_what_is_missing_is_found_without_running_it(
    tmp_path: Path, settings: dict[str, Any], expected: dict[tuple[str, ...], str]
) -> None:
    (tmp_path / "app.py").write_text("raise SystemExit\ndef answer(prompt): ...\n")
    (tmp_path / "broken.py").write_text("\nf = (\n")
    problems = PythonSettings(provider="python", **settings).not_found(tmp_path, ProgramSearch({}))
    assert {key: text.replace(str(tmp_path), "HERE") for key, text in problems.items()} == expected


def test_missing_interpreter_is_found(tmp_path: Path) -> None:
    settings = PythonSettings(provider="python", callable="json:dumps", python="venv/bin/python")
    assert ("python",) in settings.not_found(tmp_path, ProgramSearch({}))


# -- a run

SUITE = "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: hello}]}]\n"


def test_run_with_a_python_target_keeps_secrets_of_other_targets(project: Project) -> None:
    project.write("suite.yaml", SUITE)
    project.write(
        "conf/agentv.config.yaml",
        """
        targets:
          app: {provider: python, callable: "src/app.py:answer", env: {GREETING: hello}}
          other: {provider: openai, model: m, api_key: "${{ OTHER_KEY }}"}
        """,
    )
    project.write(
        "conf/src/app.py",
        """
        import os
        import beside
        def answer(prompt):
            return os.environ["GREETING"] + str(os.environ.get("OTHER_KEY")) + beside.NAME + os.getcwd()
        """,
    )
    project.write("conf/src/beside.py", "NAME = ' beside '")
    done = project.run(
        "eval", "suite.yaml", "--config", "conf", "--target", "app", env={"OTHER_KEY": "sk-0123456789abc"}
    )
    assert done.returncode == 0, done.stderr
    assert project.rows()[0]["candidate_answer"] == f"helloNone beside {project.root / 'conf'}"


def test_missing_function_stops_the_run_before_anything_is_called(project: Project) -> None:
    project.write("suite.yaml", SUITE)
    project.write("agentv.config.yaml", "targets:\n  app:\n    provider: python\n    callable: app.py:anser\n")
    project.write("app.py", "def answer(prompt): return prompt")
    done = project.run("eval", "suite.yaml")
    assert done.returncode == 2
    assert "agentv.config.yaml:4:15: " in done.stderr
    assert "there is no `anser` in app.py (did you mean `answer`?)" in done.stderr


def test_no_process_survives_a_killed_runtime(project: Project) -> None:
    project.write("suite.yaml", SUITE)
    project.write("agentv.config.yaml", "targets: {app: {provider: python, callable: 'app.py:answer'}}\n")
    project.write(
        "app.py",
        """
        import os, subprocess, sys, threading
        def answer(prompt):
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
            with open("pids.part", "w") as file:
                file.write(f"{os.getpid()} {child.pid}")
            os.rename("pids.part", "pids")
            threading.Event().wait()
        """,
    )
    pids = project.root / "pids"
    with project.start("eval", "suite.yaml") as runtime:
        deadline = time.monotonic() + 60
        while not pids.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        runtime.send_signal(signal.SIGKILL)
    for pid in map(int, pids.read_text().split()):
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not Path(f"/proc/{pid}").exists()


async def test_stop_iteration_of_a_function_is_reported(tmp_path: Path) -> None:
    async with target(tmp_path, "def answer(prompt):\n    return next(iter([]))\n", timeout_seconds=20) as provider:
        assert "StopIteration" in str(await failed(provider))


async def test_frame_of_a_process_that_ended_before_it_was_accepted_is_received() -> None:
    async def connect_and_end(path: str) -> ProcessOutcome:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            connection.sendall(b"failed 0 2\n{}")
        return ProcessOutcome(0, None, b"", b"")

    assert await PythonProcess().start(connect_and_end) == Frame("failed", b"{}")
