"""Follow the steps of a documentation page in a temporary directory."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from agentv.processes.helper import prctl
from agentv.processes.protection import capabilities
from tests import forked
from tests.docs.pages import ROOT, Block, commands

HOME = "/home/you/project"
"""The repository path that the pages use."""

PARTS = ".parts"
"""Directory for YAML blocks without a file name."""

_RUN_ID = re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{6,9}\b")
_SECONDS = re.compile(r"\b\d+\.\d s\b|(?<=   )(?:\d\d|\d+ min \d\d) s$", re.MULTILINE)
_PACKAGES = re.compile(r"python: \[.*\]$", re.MULTILINE)
_KEPT = ("PATH", "LANG", "TMPDIR", "SYSTEMROOT")
PR_CAPBSET_DROP = 24
NOT_RUN = ("text", "diff", "ini")
"""Languages of blocks that are shown but not run."""

VALIDATE_PARTS = f"""{sys.executable} -c '
import sys
from functools import partial
from agentv.cli import validate
validate.build_plan = partial(validate.build_plan, search=False)
sys.exit(validate.command.main(sys.argv[1:], standalone_mode=False))
'"""
"""`agentv validate` for fragments: their scripts and programs are in other blocks, or on other machines."""


@dataclass
class Reader:
    """Writes the files and runs the commands of a page, from top to bottom."""

    root: Path
    interpreter: Path | None = None
    """The interpreter that has the packages that the page names, instead of a new environment."""
    _to_validate: list[str] = field(default_factory=list)
    _parts: list[str] = field(default_factory=list)

    def follow(self, block: Block) -> None:
        """Run, write or validate one block, depending on its language."""
        if block.not_tested is not None or not all(map(self._is_here, block.needs)):
            return
        if block.file is not None:
            self._write(block.file, block.text)
        if block.language in ("console", "bash"):
            self.validate()
        reading = getattr(self, f"_read_{block.language}", None)
        if reading is not None:
            reading(block)
        else:
            assert block.language in NOT_RUN, (
                f"{block.place}: blocks of language '{block.language}' are not tested; use console, bash, "
                f"yaml, python, javascript, json, jsonl, toml, or one of {NOT_RUN} for blocks that cannot be run"
            )

    def validate(self) -> None:
        """Validate the suites and configurations written since the last check."""
        paths, self._to_validate = self._to_validate, []
        if paths:
            self._run(f"agentv validate {' '.join(paths)}", 0, "a YAML block")
        parts, self._parts = self._parts, []
        if parts:
            self._run(f"cd {PARTS} && {VALIDATE_PARTS} {' '.join(parts)}", 0, "a YAML block")

    # -- one method per kind of block

    def _read_console(self, block: Block) -> None:
        steps = commands(block)
        for number, command in enumerate(steps, 1):
            expected = block.exit_code if number == len(steps) else 0
            printed = self._run(command.line, expected, block.place)
            shown = printed.replace(str(self.root), HOME)
            assert command.output is None or matches(command.output, shown), (
                f"{block.place}: `{command.line}` printed\n\n{shown}\n\nexpected\n\n{command.output}"
            )

    def _read_bash(self, block: Block) -> None:
        if block.file is None:
            self._run(f"set -euo pipefail\n{block.text}", block.exit_code, block.place)

    def _read_python(self, block: Block) -> None:
        compile(block.text, block.place, "exec")
        if block.file is None:
            self._start([sys.executable, "-c", block.text], block.exit_code, block.place)

    def _read_javascript(self, block: Block) -> None:
        assert block.file is not None, f"{block.place}: this program needs a file name"
        self._start(["node", "--check", block.file], 0, block.place)

    def _read_json(self, block: Block) -> None:
        json.loads(block.text)

    def _read_jsonl(self, block: Block) -> None:
        for line in block.text.splitlines():
            json.loads(line)

    def _read_toml(self, block: Block) -> None:
        project = tomllib.loads(block.text).get("project", {})
        if "entry-points" in project:
            self._install(project)

    def _read_yaml(self, block: Block) -> None:
        data = yaml.safe_load(block.text)
        if isinstance(data, dict) and "jobs" in data:
            self._run_workflow(data, block)
        elif block.file is None:
            self._keep_part(data, block)
        elif block.exit_code:
            self._run(f"agentv validate {block.file}", block.exit_code, block.place)
        else:
            self._to_validate.append(block.file)

    def _run_workflow(self, workflow: dict[str, Any], block: Block) -> None:
        """Run the steps of a CI job that call agentv; the others need a CI system."""
        self.validate()
        steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
        ours = [step["run"] for step in steps if step.get("run", "").startswith("agentv ")]
        actions = [step for step in steps if step.get("uses") == "./agentv"]
        assert ours or actions, f"{block.place}: no step of this workflow runs agentv"
        known = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
        for step in actions:  # tests/cli/test_github_action.py runs the action itself
            assert step["with"].keys() <= known.keys(), f"{block.place}: unknown inputs of the action"
        for line in ours:
            self._run(line, block.exit_code, block.place)

    def _keep_part(self, data: Any, block: Block) -> None:
        """Write a suite or configuration, or a fragment completed to one, to a separate directory."""
        text = block.text if "evalcases" in data or "targets" in data else json.dumps(_whole(data))
        here = f"line-{block.line}"
        part = f"{here}/{here}.yaml" if "evalcases" in text else f"{here}/agentv.config.yaml"
        self._write(f"{PARTS}/{part}", text)
        self._parts.append(part)

    # -- the machine

    def _is_here(self, need: str) -> bool:
        """Whether a program or package is installed or, for `isolation`, scripts cannot read the runtime's memory."""
        if need.startswith("package:"):
            return self.interpreter is not None
        return capabilities().supervised if need == "isolation" else shutil.which(need) is not None

    def _write(self, name: str, text: str) -> None:
        if self.interpreter is not None:
            text = _PACKAGES.sub(f"python: {self.interpreter}", text)
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _install(self, project: dict[str, Any]) -> None:
        """Register the entry points of the page's project, as `pip install --editable .` does, for this reader only."""
        folder = f".site/{project['name']}-{project['version']}.dist-info"
        self._write(f"{folder}/METADATA", f"Name: {project['name']}\nVersion: {project['version']}\n")
        groups = project["entry-points"].items()
        lines = [line for group, names in groups for line in (f"[{group}]", *(f"{k} = {v}" for k, v in names.items()))]
        self._write(f"{folder}/entry_points.txt", "\n".join(lines) + "\n")

    def _run(self, line: str, exit_code: int, place: str) -> str:
        return self._start(["bash", "-c", line], exit_code, place)

    def _start(self, argv: list[str], exit_code: int, place: str) -> str:
        done = subprocess.run(
            argv,
            preexec_fn=_drop_capabilities,
            cwd=self.root,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == exit_code, f"{place}: {argv[-1]}\nexited with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def _environment(self) -> dict[str, str]:
        agentv = forked.commands(_drop_capabilities)
        inherited = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {
            **inherited,
            "PATH": os.pathsep.join((str(agentv), str(Path(sys.executable).parent), inherited["PATH"])),
            "HOME": str(self.root),
            "PYTHONPATH": f"{self.root / '.site'}{os.pathsep}{self.root / 'src'}",
            "PYTHONUTF8": "1",
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "PYTEST_ADDOPTS": "-p no:langsmith_plugin",  # slow to import
        }


def _whole(part: Any) -> dict[str, Any]:
    """Complete evaluators or cases to a suite, and targets to a configuration."""
    if isinstance(part, dict):
        return {"targets": part}
    if "type" in part[0]:
        return {"execution": {"evaluators": part}, "evalcases": [{"id": "case", "input": "a question"}]}
    return {"execution": {"evaluators": [{"type": "is_json"}]}, "evalcases": part}


def _drop_capabilities() -> None:
    """Drop all capabilities, so that pages are tested as an unprivileged user even as root."""
    if sys.platform == "linux" and os.geteuid() == 0:
        with suppress(OSError):  # about forty exist; stop at the first that does not
            for capability in range(64):
                prctl(PR_CAPBSET_DROP, capability)


def matches(expected: str, printed: str) -> bool:
    """Whether the output matches the page, ignoring run ids, durations and text matched by `...`."""
    lines = [
        r"(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n"
        for line in _steady(expected).split("\n")
    ]
    return re.fullmatch("".join(lines), _steady(printed) + "\n") is not None


def _steady(text: str) -> str:
    text = _SECONDS.sub("0.0 s", _RUN_ID.sub("RUN-ID", text))
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))
