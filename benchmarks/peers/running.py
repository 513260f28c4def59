"""Install a tool, run a workload in it, and return the resources used or the reason for the failure."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from benchmarks.measure import RESULTS, ROOT, SOURCE
from benchmarks.peers.server import ASSISTANT, MOST
from benchmarks.peers.tools import KEY, Tool
from benchmarks.peers.workloads import DELAY, Workload

INSTALLING, RUNNING = 600, 240
"""Timeouts in seconds."""
WATCH = Path(__file__).with_name("watch.py")
QUIET = {
    "NO_COLOR": "1",
    "CI": "1",
    "DO_NOT_TRACK": "1",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
    "PROMPTFOO_DISABLE_SHARING": "1",
}


class NotRunError(Exception):
    """The tool could not be installed, or did not complete the workload."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one workload: the resources used, and the results."""

    wall: float
    cpu: float
    peak_mb: float
    passed: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    """The requests received by the model server: `assistant`, `judge`, and unknown paths."""
    most: int = 0
    """The maximum number of model calls in flight."""
    proxy: bool = False
    """Whether an AgentV script got access to the judge through the proxy."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Installed:
    """An installed tool."""

    tool: Tool
    commands: Path
    version: str


def install(tool: Tool, keep: Path) -> Installed:
    """Install the newest version under `keep`; an existing installation is reused."""
    if not tool.packages:
        commands = Path(sys.executable).parent
        return Installed(tool, commands, _do([str(commands / "agentv"), "--version"], ROOT, INSTALLING).split()[-1])
    place = keep / tool.packages[0]
    commands = place / ("node_modules/.bin" if tool.node else "bin")
    if not (place / "complete").exists():
        place.mkdir(parents=True, exist_ok=True)
        if tool.node:
            (place / "package.json").write_text("{}")
            _do(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *tool.packages], place, INSTALLING)
        else:
            _do([sys.executable, "-m", "venv", "--clear", str(place)], place, INSTALLING)
            _do([str(commands / "pip"), "install", "--quiet", *tool.packages], place, INSTALLING)
        (place / "complete").touch()
    return Installed(tool, commands, _version(tool, place, commands))


def _version(tool: Tool, place: Path, commands: Path) -> str:
    if tool.node:
        text = (place / "node_modules" / tool.packages[0] / "package.json").read_text(encoding="utf-8")
        return str(json.loads(text)["version"])
    asked = f"import importlib.metadata as m; print(m.version({tool.packages[0]!r}))"
    return _do([str(commands / "python"), "-c", asked], place, INSTALLING).strip()


def _do(command: list[str], directory: Path, seconds: float) -> str:
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotRunError(str(error)) from error
    if done.returncode != 0:
        raise NotRunError(
            f"{command[0]} exited with code {done.returncode}: {(done.stderr + done.stdout).strip()[-300:]}"
        )
    return done.stdout


@dataclass(frozen=True, slots=True)
class Server:
    """The model server, in a separate process."""

    address: str

    @property
    def url(self) -> str:
        return f"{self.address}/v1"

    def seen(self) -> dict[str, int]:
        """The requests received since the previous call."""
        with urlopen(f"{self.address}/calls") as reply:
            seen: dict[str, int] = json.load(reply)
            return seen


@contextlib.contextmanager
def model_server(delay: float = DELAY) -> Iterator[Server]:
    command = [sys.executable, "-m", "benchmarks.peers.server", str(delay)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Server(process.stdout.readline().strip())
        finally:
            process.terminate()


def run(installed: Installed, workload: Workload, server: Server, scratch: Path, *, watched: bool = False) -> Measured:
    """One run in a separate directory. `watched` redirects HTTP requests to other hosts to the model server."""
    tool = installed.tool
    directory = Path(tempfile.mkdtemp(dir=scratch, prefix=f"{tool.key}-{workload.name}-"))
    command = list(tool.version) if workload.cases == 0 else tool.prepare(directory, workload)
    command = [part.replace("{bin}", str(installed.commands)) for part in command]
    home = scratch / f"home-{tool.key}"
    home.mkdir(exist_ok=True)
    variables = environment(tool, workload, server, home)
    if watched:
        outward = {"HTTP_PROXY": server.address, "HTTPS_PROXY": server.address, "NO_PROXY": "127.0.0.1,localhost"}
        variables |= outward | {name.lower(): value for name, value in outward.items()}
    server.seen()
    done = subprocess.run(
        [sys.executable, str(WATCH), str(RUNNING), *command],
        cwd=directory,
        env=variables,
        check=True,
        capture_output=True,
    )
    spent = json.loads(done.stdout)
    printed = (directory / "output.txt").read_text(encoding="utf-8", errors="replace")
    if spent["late"]:
        raise NotRunError(f"timed out after {RUNNING} s")
    passed = _passed(tool, workload, directory, printed, spent["exit_code"])
    proxy = (directory / "proxy-used").exists()
    calls = server.seen()
    most = calls.pop(MOST, 0)
    return Measured(spent["wall"], spent["cpu"], spent["peak_mb"], passed, calls, most, proxy)


def _passed(tool: Tool, workload: Workload, directory: Path, printed: str, code: int) -> int:
    """The number of passed cases. Raises an error if it is 0 or cannot be read."""
    ended = f"it exited with code {code} and printed: {' '.join(printed.split())[-300:]}"
    if workload.cases == 0:
        if code != 0:
            raise NotRunError(ended)
        return 0
    try:
        passed = tool.passed(directory, printed)
    except (OSError, ValueError, KeyError) as error:
        raise NotRunError(ended) from error
    if passed == 0:
        raise NotRunError(f"no case passed; {ended}")
    return passed


def environment(tool: Tool, workload: Workload, server: Server, home: Path) -> dict[str, str]:
    """The environment, the same for every tool: the server's address, a key, an empty home, telemetry disabled."""
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "SSL_CERT_FILE") if name in os.environ}
    models = {"ASSISTANT_MODEL": ASSISTANT, "JUDGE_MODEL": tool.judge(workload), "SCRIPT_PYTHON": sys.executable}
    address = {"OPENAI_BASE_URL": server.url, KEY: "sk-only-for-this-run", "HOME": str(home)}
    folders = {"PROMPTFOO_CONFIG_DIR": str(home / "promptfoo"), "PROMPTFOO_PYTHON": sys.executable}
    own: dict[str, str] = {}
    if not tool.packages:  # keep compiled files next to the sources, as in a normal installation
        own["PYTHONPYCACHEPREFIX"] = str(RESULTS / "pycache")
        if SOURCE in os.environ:
            own["PYTHONPATH"] = os.environ[SOURCE]
    return {**inherited, **QUIET, **folders, **models, **address, **own}
