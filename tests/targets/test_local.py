"""The `local` provider with a fake of its library, in real processes. `tests/real` has a real model."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import ProviderError, TargetUnavailableError
from agentv.judge.cache import fingerprint_of
from agentv.messages import GenerationOptions, TokenUsage, Tool
from agentv.suite.search import ProgramSearch
from agentv.targets.config import load_config
from agentv.targets.environment import Environment
from agentv.targets.pool import TargetPool
from agentv.targets.provider import CallHooks
from agentv.targets.providers.local import LocalSettings
from agentv.targets.providers.openai_compatible import OpenAICompatibleProvider
from agentv.targets.secrets import Secrets
from tests.conftest import Project
from tests.targets.support import ask, make

FAKE = Path(__file__).with_name("fake_llama.py")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the fake, for this process and its children."""
    folder = tmp_path / "packages"
    folder.mkdir()
    shutil.copy(FAKE, folder / "xllamacpp.py")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    return folder


@asynccontextmanager
async def targets(root: Path, **configured: str) -> AsyncIterator[Any]:
    """A function that returns the gate of a target."""
    lines = [f"  {name}: {{provider: local, {settings}}}" for name, settings in configured.items()]
    (root / "agentv.config.yaml").write_text("\n".join(["targets:", *lines]))
    environment = Environment(dict(os.environ))
    config = load_config(root / "agentv.config.yaml", environment)
    async with TargetPool(Secrets()) as pool:
        yield lambda name: pool.gate(config.targets[name], environment)


def model(root: Path, content: str = "", name: str = "tiny.Q4.gguf") -> Path:
    path = root / name
    path.write_bytes(b"GGUF" + content.encode())
    return path


def starts(path: Path) -> list[str]:
    """Context, slots and threads of every server that was started."""
    return [line.split(" ", 1)[1] for line in Path(f"{path}.starts").read_text().splitlines()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def failed(gate: Any, question: str = "q", **details: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await gate.invoke(ask(question, **details))
    return caught.value


async def test_model_starts_at_the_first_call_and_ends_with_the_run(library: Path, tmp_path: Path) -> None:
    path = model(tmp_path)
    options = "model: tiny.Q4.gguf, slots: 2, context: 1000, threads: 3, seed: 7, extra_body: {min_p: 0.5}"
    async with targets(tmp_path, t=options) as gate:
        assert not Path(f"{path}.starts").exists()
        reply = await gate("t").invoke(ask("q", options=GenerationOptions(seed=1, temperature=0.5)))
        pid, body = json.loads(reply.text)
        assert body == {"model": "tiny.Q4", "min_p": 0.5, "seed": 7, "temperature": 0.5}
        assert (reply.model, reply.finish_reason, reply.cost_usd) == ("tiny.Q4", "length", 0.0)
        assert reply.token_usage == TokenUsage(5, 2)
        assert is_alive(pid)
        command = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        endpoint = await gate("t").provider._server.started()
        assert endpoint.key.encode() not in command
    assert starts(path) == ["2000 2 3"]
    assert not is_alive(pid)


async def test_targets_with_equal_servers_share_one_and_wait_for_its_slots(library: Path, tmp_path: Path) -> None:
    path = model(tmp_path, "slow")
    same = "model: tiny.Q4.gguf, timeout_seconds: 0.9"
    async with targets(tmp_path, a=same, b=f"{same}, temperature: 0", c=f"{same}, context: 512") as gate:
        waited = dict.fromkeys("ab", 0.0)

        async def call(name: str) -> int:
            since = 0.0

            def wait(waiting: bool) -> None:
                nonlocal since
                waited[name] += 0.0 if waiting else time.monotonic() - since
                since = time.monotonic()

            reply = await gate(name).call(ask("slow"), CallHooks(on_wait=wait))
            return int(json.loads(reply.text)[0])

        # Eight calls of 0.2 s in a row: with the time in the queue, the last would exceed the timeout of 0.9 s.
        pids = await asyncio.gather(*(call("a") for _ in range(4)), *(call("b") for _ in range(4)))
        assert len(set(pids)) == 1
        assert min(waited.values()) > 1  # loading, and the queue
        assert gate("a").shared_slots is gate("b").shared_slots
        assert json.loads((await gate("c").invoke(ask("q"))).text)[0] not in pids
    assert [line.rpartition(" ")[0] for line in starts(path)] == ["4096 1", "512 1"]


async def test_model_that_cannot_be_loaded_is_tried_once(library: Path, tmp_path: Path) -> None:
    path = model(tmp_path, "incomplete")
    async with targets(tmp_path, t="model: tiny.Q4.gguf") as gate:
        errors = [await failed(gate("t")) for _ in range(2)]
    message = f"target 't': {path} could not be loaded: the file is incomplete; the end of its stderr:"
    assert all(error.message.startswith(message) for error in errors)
    assert len(starts(path)) == 1


async def test_process_that_is_killed_while_loading_names_the_memory(library: Path, tmp_path: Path) -> None:
    model(tmp_path, "huge")
    async with targets(tmp_path, t="model: tiny.Q4.gguf") as gate:
        error = await failed(gate("t"))
    assert "failed: the process was killed by SIGKILL" in error.message
    assert "use a smaller model, or lower `context` or `slots`" in str(error.next_step)


async def test_context_that_does_not_fit_into_memory_names_the_setting(library: Path, tmp_path: Path) -> None:
    path = model(tmp_path, "memory")
    async with targets(tmp_path, t="model: tiny.Q4.gguf") as gate:
        error = await failed(gate("t"))
    assert error.message.startswith(f"target 't': {path} could not be loaded: failed to allocate buffer for kv cache")
    assert "lower `context`" in str(error.next_step)


async def test_no_more_threads_than_the_cores_of_the_process(library: Path, tmp_path: Path) -> None:
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("needs two cores")
    path = model(tmp_path)
    async with targets(tmp_path, t="model: tiny.Q4.gguf") as gate:
        os.sched_setaffinity(0, {min(cores)})
        try:
            await gate("t").invoke(ask("q"))
        finally:
            os.sched_setaffinity(0, cores)
    assert starts(path) == ["4096 1 1"]


async def test_server_that_dies_is_started_again(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = []

    class Client(OpenAICompatibleProvider):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            clients.append("opened")

        async def aclose(self) -> None:
            await asyncio.sleep(0.01)
            await super().aclose()
            clients.append("closed")

    monkeypatch.setattr("agentv.targets.providers.local.OpenAICompatibleProvider", Client)
    path = model(tmp_path)
    settings = "model: tiny.Q4.gguf, slots: 2, max_retries: 1, retry_initial_delay_ms: 1"
    async with targets(tmp_path, t=settings) as gate:
        error = await failed(gate("t"), "die")
        assert (
            "its model server was killed by SIGKILL; the end of its stderr:\nllama.cpp: out of memory" in error.message
        )
        assert len(starts(path)) == 2
        assert all(await asyncio.gather(gate("t").invoke(ask("q")), gate("t").invoke(ask("r"))))
    assert len(starts(path)) == 3
    assert (clients.count("opened"), clients.count("closed")) == (3, 3)


def test_replies_are_cached_for_one_model_file(tmp_path: Path) -> None:
    path = model(tmp_path)
    (tmp_path / "agentv.config.yaml").write_text("targets: {t: {provider: local, model: tiny.Q4.gguf}}")
    spec = load_config(tmp_path / "agentv.config.yaml", Environment({})).targets["t"]
    before = fingerprint_of(spec, Environment({}))
    assert fingerprint_of(spec, Environment({})) == before
    path.write_bytes(b"GGUF of another model")
    assert fingerprint_of(spec, Environment({})) != before


async def test_errors_of_the_server_name_the_setting(library: Path, tmp_path: Path) -> None:
    model(tmp_path)
    async with targets(tmp_path, t="model: tiny.Q4.gguf") as gate:
        error = await failed(gate("t"), "long")
        assert error.message == "target 't': the prompt has 4,031 tokens, but the context of the model has 2,048"
        assert str(error.next_step).startswith("Raise `context` of the target to more than 4,031")
        error = await failed(gate("t"), "image")
        assert (error.message, error.retryable) == (
            "target 't': tiny.Q4 reads text only, but the prompt contains an image",
            False,
        )


async def test_tools_are_refused_if_the_chat_template_would_drop_them(library: Path, tmp_path: Path) -> None:
    model(tmp_path)
    model(tmp_path, "tools", "able.gguf")
    tools = GenerationOptions(tools=(Tool("look"),), tool_choice="required")
    async with targets(tmp_path, t="model: tiny.Q4.gguf", able="model: able.gguf") as gate:
        error = await failed(gate("t"), options=tools)
        assert "the chat template of tiny.Q4 has no tools" in error.message
        reply = await gate("t").invoke(ask("q", options=tools, best_effort=True))
        assert (reply.dropped_options, "tools" in json.loads(reply.text)[1]) == (("tools", "tool_choice"), False)
        reply = await gate("able").invoke(ask("q", options=tools))
        assert json.loads(reply.text)[1]["tools"][0]["function"]["name"] == "look"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("no.gguf", None, "there is no file {path}"),
        ("page.gguf", b"<htm", "{path} is not a GGUF file: it begins with b'<htm'"),
        ("pipe.gguf", "fifo", "{path} is not a regular file"),
    ],
)
def test_file_that_is_not_a_model_is_found_before_anything_runs(
    library: Path, tmp_path: Path, name: str, content: Any, problem: str
) -> None:
    path = tmp_path / name
    if content == "fifo":
        os.mkfifo(path)
    elif content is not None:
        path.write_bytes(content)
    settings = LocalSettings(provider="local", model=name)
    ((node, message),) = settings.not_found(tmp_path, ProgramSearch({})).items()
    assert node == ("model",)
    assert message.startswith(problem.format(path=path))
    with pytest.raises(TargetUnavailableError):
        make(tmp_path, "local", model=name)


def test_missing_library_and_settings_of_other_providers_are_reported(project: Project) -> None:
    project.write("agentv.config.yaml", "targets:\n  t:\n    provider: local\n    model: ${{ HOME }}/x.gguf\n")
    project.write("s.yaml", "evalcases: [{id: a, input: q, evaluators: [{type: contains, value: a}]}]")
    done = project.run("validate", "s.yaml")
    assert done.returncode == 2
    assert "agentv.config.yaml:4:12: target 't': there is no file" in done.stderr
    project.write("agentv.config.yaml", "targets:\n  t: {provider: local, model: x, base_url: 'http://127.0.0.1'}\n")
    assert "`base_url` has no effect on a local model; remove it" in project.run("validate", "s.yaml").stderr
