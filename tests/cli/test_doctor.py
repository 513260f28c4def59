"""`agentv doctor` reports what this machine offers, with the consequence of what is missing."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from agentv.processes import protection as machine
from agentv.processes.protection import Capabilities
from tests.conftest import AGENTV, Project

PROTECTIONS = [
    "supervision",
    "supervised timeout",
    "private memory",
    "Landlock",
    "signal scope",
    "seccomp",
    "PID namespace",
    "privileges",
]


def test_report_has_every_protection_with_the_consequence_of_missing_ones(project: Project) -> None:
    done = project.run("doctor", env={"COLUMNS": "200"})
    assert (done.returncode, done.stderr) == (0, "")
    missing = 0
    for protection in machine.tested_capabilities().protections():
        (line,) = [line for line in done.stdout.splitlines() if line[4:].split("  ")[0] == protection.name]
        assert line.startswith("  ✓ " if protection.available else "  ✗ ")
        assert protection.detail in line
        assert (protection.consequence in done.stdout) == (not protection.available)
        missing += not protection.available
    assert ("All guarantees of docs/security.md apply" in done.stdout) == (missing == 0)


def test_json_has_the_same_report(project: Project) -> None:
    done = project.run("doctor", "--json")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert [each["name"] for each in report["protection"]] == PROTECTIONS
    expected = {each.name: each.available for each in machine.tested_capabilities().protections()}
    assert {each["name"]: each["available"] for each in report["protection"]} == expected
    assert all((each["consequence"] is None) == (each["available"] is True) for each in report["protection"])
    python = report["programs"][0]
    assert python["name"] == "Python"
    assert python["detail"].startswith("3.")


@pytest.mark.parametrize(
    ("version", "available"), [("v20.11.1", False), ("v22.17.9", False), ("v22.18.0", True), ("nonsense", False)]
)
def test_node_must_be_new_enough(project: Project, version: str, available: bool) -> None:
    node = project.root / "bin" / "node"
    node.parent.mkdir()
    node.write_text(f"#!/bin/sh\necho {version}\n")
    node.chmod(0o755)
    done = project.run("doctor", "--json", env={"PATH": str(node.parent)})
    (check,) = [each for each in json.loads(done.stdout)["programs"] if each["name"] == "Node"]
    assert check["available"] is available
    assert (check["consequence"] or "").startswith("" if available else "TypeScript judge scripts need Node 22.18")


def test_program_that_cannot_be_run_does_not_fail_the_report(project: Project) -> None:
    for name, text in (("node", "#!/nowhere/sh\n"), ("bun", "#!/bin/sh\nexit 3\n")):
        path = project.root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    done = project.run("doctor", env={"PATH": str(project.root / "bin")})
    assert done.returncode == 0
    assert "not found" in done.stdout


def test_low_limit_of_open_files_is_reported(project: Project) -> None:
    limited = ["sh", "-c", 'ulimit -Sn 256; ulimit -Hn 512; exec "$@"', "sh", *AGENTV, "doctor"]
    done = subprocess.run(limited, env=project.environment(), capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "✗ open files          256, raised during runs (hard limit 512)" in done.stdout
    assert "can run out of file descriptors" in done.stdout


def test_report_fits_into_80_columns_and_into_ascii(project: Project) -> None:
    done = project.run("doctor", env={"COLUMNS": "80", "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_report_in_color_has_the_same_text(project: Project) -> None:
    plain = project.run("doctor", env={"COLUMNS": "60"})
    environment = {name: value for name, value in project.environment().items() if name != "NO_COLOR"}
    environment |= {"COLUMNS": "60", "FORCE_COLOR": "1"}
    colored = subprocess.run(
        [*AGENTV, "doctor"], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert "\x1b[" in colored.stdout
    assert re.sub(r"\x1b\[\d+m", "", colored.stdout) == plain.stdout


def test_a_machine_without_protection_gets_notes_in_words() -> None:
    nothing = Capabilities(supervised=False, landlock=None, pid_namespace=False)
    assert [gap.note for gap in nothing.gaps()] == [
        "this system cannot supervise scripts: only the process group of a script is killed when it ends; processes in "
        "other sessions survive."
    ]
    old_kernel = Capabilities(supervised=True, landlock=None)
    assert [gap.note for gap in old_kernel.gaps()] == [
        "this kernel has no Landlock: scripts with judge access can read the environment of the parent processes of "
        "agentv (make, sh -c, uv run). Start agentv directly."
    ]
    assert not Capabilities(supervised=True, landlock=7).gaps()
    root = Capabilities(supervised=True, landlock=None, reads_everything=True)
    assert [gap.name for gap in root.gaps()] == ["privileges"]


def test_security_page_has_the_same_sentences() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "security.md").read_text(encoding="utf-8")
    for protection in Capabilities(supervised=False, landlock=None, pid_namespace=False).protections():
        assert f"| {protection.name} | {protection.needs} | {protection.consequence} |" in page
