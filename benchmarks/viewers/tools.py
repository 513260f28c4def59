"""The viewers: how each gets the results, how it is started, and when its list and a sample are there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentv.view import assets
from benchmarks.peers.running import NotRunError
from benchmarks.peers.tools import TOOLS, Tool, printed_count

PROGRAMS = Path(__file__).with_name("programs")
PORT = 15_577
"""In the namespace of the measurement, all ports are free."""
PREPARING = 1_200
Sample = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ready:
    """Results of a viewer that can be opened."""

    address: str
    """Of the list of samples."""
    command: tuple[str, ...] | None = None
    """The server, if there is one."""
    written_bytes: int | None = None
    """The size of the report, if it is one file."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """A viewer. The JavaScript functions get a sample."""

    key: str
    name: str
    tool: Tool
    prepare: Callable[[Path, Path, Path], Ready]
    """Gets the directory of its commands, a directory to write to, and the directory with the samples."""
    interface: Callable[[Path], list[bytes]]
    """The scripts, styles and pages of its user interface; gets the directory of the installation."""
    listed: str
    """Whether the list of samples is shown."""
    open: str
    """Opens a sample, as a click on it does."""
    opened: str
    """Whether its answer is shown."""
    close: str = "() => history.back()"
    passed_only: bool = False
    """Whether samples that did not pass are open from the start."""


def run(command: list[str], cwd: Path, **variables: str) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=PREPARING,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotRunError(str(error)) from error
    if done.returncode not in (0, 1, 100):  # failed tests
        raise NotRunError(f"{command[0]} exited with {done.returncode}: {(done.stderr + done.stdout).strip()[-300:]}")


def samples_in(directory: Path) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((directory / "samples.json").read_text(encoding="utf-8"))
    return loaded


def _inspect(commands: Path, to: Path, directory: Path) -> Ready:
    name = "2026-01-01T00-00-00-00-00_support_measured.eval"
    run(
        [str(commands / "python"), str(PROGRAMS / "inspect_log.py"), str(directory / "samples.json"), str(to / name)],
        to,
    )
    command = (str(commands / "inspect"), "view", "--log-dir", str(to), "--host", "127.0.0.1", "--port", str(PORT))
    return Ready(f"http://127.0.0.1:{PORT}/#/logs/{name}/samples", command)


def _promptfoo(commands: Path, to: Path, directory: Path) -> Ready:
    samples = samples_in(directory)
    shutil.copy(PROGRAMS / "recorded.mjs", to / "recorded.mjs")
    (to / "answers.json").write_text(json.dumps({one["id"]: one["answer"] for one in samples}), encoding="utf-8")
    tests = [{"vars": {"id": one["id"], "question": one["question"]}, "assert": [_assertion(one)]} for one in samples]
    config = {"prompts": ["{{question}}"], "providers": ["file://recorded.mjs"], "tests": tests}
    (to / "promptfooconfig.json").write_text(json.dumps(config), encoding="utf-8")
    program = str(commands / "promptfoo")
    quiet = ("--no-cache", "--no-progress-bar", "--no-table")
    run([program, "eval", *quiet, "-c", "promptfooconfig.json", "-j", "50", "-o", "out.json"], to)
    found = json.loads((to / "out.json").read_text(encoding="utf-8"))["evalId"]
    return Ready(f"http://127.0.0.1:{PORT}/eval/{found}", (program, "view", "--no", "--port", str(PORT)))


def _assertion(one: Sample) -> dict[str, str]:
    result = {"pass": one["score"] >= 0.8, "score": one["score"], "reason": one["reasoning"]}
    return {"type": "javascript", "value": f"({json.dumps(result)})"}


def _pytest_html(commands: Path, to: Path, directory: Path) -> Ready:
    shutil.copy(PROGRAMS / "samples_as_tests.py", to / "test_samples.py")
    pytest = [str(commands / "python"), "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider"]
    run(
        [*pytest, "--html=report.html", "--self-contained-html", "test_samples.py"],
        to,
        SAMPLES=str(directory / "samples.json"),
    )
    report = to / "report.html"
    return Ready(report.as_uri(), written_bytes=report.stat().st_size)


def _agentv_server(commands: Path, _: Path, directory: Path) -> Ready:
    return Ready(f"#/run/{directory.name}", (str(commands / "agentv"), "view", str(directory), "--no-open"))


def _agentv_file(commands: Path, to: Path, directory: Path) -> Ready:
    report = to / "report.html"
    command = [str(commands / "agentv"), "report", str(directory), "--format", "html", "--with", "all"]
    run([*command, "-o", str(report)], to)
    return Ready(report.as_uri(), written_bytes=report.stat().st_size)


def _tool(key: str) -> Tool:
    return next(tool for tool in TOOLS if tool.key == key)


def _files(pattern: str) -> Callable[[Path], list[bytes]]:
    endings = {".js", ".css", ".html", ".jinja2"}
    return lambda place: [path.read_bytes() for path in sorted(place.glob(pattern)) if path.suffix in endings]


def _our_modules(_: Path) -> list[bytes]:
    return [assets.shell().encode(), *map(assets.served, assets.SERVED)]


def _our_script(_: Path) -> list[bytes]:
    return [assets.script().encode(), assets.style().encode()]


_OURS: Any = {
    "listed": "() => document.querySelectorAll('main [role=gridcell]').length > 20",
    "open": "(one) => document.querySelector(`main [role=grid] a[href*='/${one.id}/']`).click()",
    "opened": "(one) => document.querySelector('main').textContent.includes(one.answer.slice(-60))",
}
VIEWERS = (
    Viewer("agentv", "`agentv view`", _tool("agentv"), _agentv_server, _our_modules, **_OURS),
    Viewer("agentv-file", "`agentv report --format html`", _tool("agentv"), _agentv_file, _our_script, **_OURS),
    Viewer(
        "inspect",
        "Inspect View",
        _tool("inspect"),
        _inspect,
        _files("lib/python3*/site-packages/inspect_ai/_view/dist/**/*"),
        listed="() => document.querySelectorAll('a[role=row] [role=gridcell]').length > 20",
        open="(one) => document.querySelector(`a[role=row][href*='/${one.id}/']`).click()",
        opened="(one) => location.hash.includes(one.id) && document.body.textContent.includes(one.answer.slice(-60))",
    ),
    Viewer(
        "promptfoo",
        "promptfoo view",
        _tool("promptfoo"),
        _promptfoo,
        _files("node_modules/promptfoo/dist/src/app/**/*"),
        listed="() => document.querySelectorAll('table tbody tr').length > 20",
        open="(one) => [...document.querySelectorAll('table tbody tr')].find((row) => row.textContent.includes(one.id))"
        ".querySelector('.lucide-search').closest('button').click()",
        opened="(one) => document.querySelector('[role=dialog]')?.textContent.includes(one.answer.slice(-60))",
        close="() => document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}))",
    ),
    Viewer(
        "pytest-html",
        "pytest-html",
        Tool("pytest-html", "pytest-html", lambda *_: [], printed_count, (), ("pytest-html",)),
        _pytest_html,
        _files("lib/python3*/site-packages/pytest_html/resources/*"),
        listed="() => document.querySelectorAll('#results-table tbody').length > 20",
        open="(one) => document.getElementById(`test_samples.py::test_sample[${one.id}]`).querySelector('td').click()",
        opened="(one) => !document.getElementById(`test_samples.py::test_sample[${one.id}]`)"
        "?.querySelector('.extras-row').classList.contains('hidden')",
        close="() => {}",
        passed_only=True,
    ),
)
