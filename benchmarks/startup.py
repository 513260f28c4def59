"""Start-up time: `agentv --version`, and a whole run of one scripted case."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import peers
from benchmarks.measure import Usage, agentv, environment, median_cpu, median_wall, run, take_turns
from benchmarks.options import Options
from benchmarks.report import Figure, Report
from benchmarks.workload import write_config, write_suite

NAME = "startup"
MODULES_SHOWN = 15
_IMPORT = re.compile(r"import time:\s*(\d+) \|\s*(\d+) \| ( *)(\S+)")


def measure(options: Options) -> Report:
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary:
        directory = Path(temporary)
        write_config(directory)
        write_suite(directory / "suite.yaml", 1)
        one_case = agentv("eval", "suite.yaml")
        contestants: dict[str, Callable[[], Usage]] = {
            "python": lambda: run([sys.executable, "-c", "pass"], cwd=directory),
            "version": lambda: run(agentv("--version"), cwd=directory),
            "one case": lambda: run(one_case, cwd=directory),
        }
        if options.peers:
            peer = peers.install(directory / "peer", options.say)
            contestants["npm agentv, one case"] = lambda: run(peer, cwd=directory / "peer")
        for contestant in contestants.values():
            contestant()  # warm-up: compiled files and the disk cache
        turns = take_turns(contestants, options.pick(20, 2), options.say)
        modules = imports(one_case, directory, options.pick(5, 1))
    walls = {name: median_wall(usages) for name, usages in turns.items()}
    cpus = {name: median_cpu(usages) for name, usages in turns.items()}
    figures = [
        Figure("--version / python -c pass, wall", walls["version"] / walls["python"], goal=5.0),
        Figure("--version / python -c pass, CPU", cpus["version"] / cpus["python"]),
        Figure("one case / python -c pass, wall", walls["one case"] / walls["python"], goal=12.0),
        Figure("one case / python -c pass, CPU", cpus["one case"] / cpus["python"], goal=12.0),
    ]
    figures += [Figure(f"{name}, wall", wall * 1000, "ms") for name, wall in walls.items()]
    figures += [Figure(f"{name}, CPU", cpu * 1000, "ms") for name, cpu in cpus.items()]
    if options.peers:
        ratio = walls["one case"] / walls["npm agentv, one case"]
        figures.append(Figure("one case / npm agentv, wall", ratio, goal=0.30))
    return Report(
        NAME,
        figures,
        details={"turns": options.pick(20, 2), "wall_s": walls, "cpu_s": cpus, "imports_us": modules},
        notes=[
            f"the slowest imports of one case, without nested imports (of {len(modules)} modules, "
            f"{sum(modules.values()) / 1000:.0f} ms in total):",
            *(f"  {own / 1000:6.1f} ms  {name}" for name, own in list(modules.items())[:MODULES_SHOWN]),
        ],
    )


def imports(command: list[str], directory: Path, repeats: int) -> dict[str, int]:
    """Module -> microseconds without nested imports, minimum of several runs, slowest first."""
    least: dict[str, int] = {}
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", *_as_script(command)],
            cwd=directory,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        for own, _, _, name in _IMPORT.findall(done.stderr):
            least[name] = min(int(own), least.get(name, int(own)))
    return dict(sorted(least.items(), key=lambda item: -item[1]))


def _as_script(command: list[str]) -> list[str]:
    """The arguments after the interpreter: the installed script, or `-m agentv`."""
    return command[1:] if command[0] == sys.executable else command
