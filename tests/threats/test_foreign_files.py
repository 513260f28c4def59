"""Run directories, results and configurations that come from elsewhere cannot hang a command or reach other files."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import AGENTV, Project

SECONDS = 20.0
"""More than any of these commands needs on a loaded machine; a hang lasts for ever."""
COMMANDS = {
    "report": ("report", "run"),
    "compare": ("compare", "good", "run"),
    "convert": ("convert", "run", "--out", "-"),
    "show": ("show", "run"),
    "resume": ("eval", "--resume", "run"),
    "retry": ("eval", "--retry-errors", "run"),
    "outputs": ("eval", "suite.yaml", "--outputs", "run"),
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with a recorded run in `good`."""
    project = Project(tmp_path_factory.mktemp("foreign") / "project")
    project.write("agentv.config.yaml", "targets: {scripted: {provider: mock, response: ok}}\n")
    project.write("suite.yaml", "evalcases: [{id: one, input: Where?, evaluators: [{type: contains, value: ok}]}]\n")
    assert project.run("eval", "suite.yaml", "--run-dir", "good").returncode == 0
    return project


@pytest.fixture
def foreign(recorded: Project) -> Project:
    """The recorded project with a copy of its run in `run`, and a file outside that must not change."""
    shutil.rmtree(recorded.root / "run", ignore_errors=True)
    shutil.copytree(recorded.root / "good", recorded.root / "run")
    recorded.write("victim.txt", "precious\n")
    return recorded


def spoil(path: Path, trick: str) -> None:
    path.unlink(missing_ok=True)
    if trick == "fifo":
        os.mkfifo(path)
    elif trick == "device":
        path.symlink_to("/dev/zero")
    else:
        path.symlink_to(path.parent.parent / "victim.txt")


def quick(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    started = time.monotonic()
    done = subprocess.run(
        [*AGENTV, *arguments],
        cwd=project.root,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)),
    )
    assert time.monotonic() - started < SECONDS
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.parametrize(
    ("name", "trick"),
    [
        ("report", "device"),
        ("compare", "fifo"),
        ("convert", "fifo"),
        ("resume", "link"),
        ("outputs", "device"),
        ("show", "link"),
    ],
)
def test_results_that_are_not_a_regular_file_are_refused(foreign: Project, name: str, trick: str) -> None:
    spoil(foreign.root / "run" / "results.jsonl", trick)
    done = quick(foreign, *COMMANDS[name])
    assert done.returncode == 2, done.stderr
    assert "run/results.jsonl must be a regular file, got a" in done.stderr
    assert (foreign.root / "victim.txt").read_text() == "precious\n"


@pytest.mark.parametrize(("name", "trick"), [("report", "device"), ("convert", "link"), ("compare", "fifo")])
def test_manifest_that_is_not_a_regular_file_is_refused(foreign: Project, name: str, trick: str) -> None:
    spoil(foreign.root / "run" / "run.json", trick)
    done = quick(foreign, *COMMANDS[name])
    assert done.returncode == 2, done.stderr
    assert "run/run.json must be a regular file, got a" in done.stderr


@pytest.mark.parametrize("file", ["run.lock", "superseded.jsonl", ".results.jsonl.tmp"])
def test_resume_never_writes_through_a_link_in_the_run_directory(foreign: Project, file: str) -> None:
    spoil(foreign.root / "run" / file, "link")
    (foreign.root / "run" / "results.jsonl").write_text("garbage\n")
    done = quick(foreign, *COMMANDS["retry"])
    assert done.returncode == (0 if file.startswith(".") else 2), done.stderr
    assert (foreign.root / "victim.txt").read_text() == "precious\n"


def test_convert_does_not_open_a_pipe_beside_the_results(foreign: Project) -> None:
    os.mkfifo(foreign.root / "run" / "results.yaml")
    done = quick(foreign, "convert", "run")
    assert (done.returncode, "is not a regular file" in done.stderr) == (2, True)


@pytest.mark.parametrize("name", ["report", "convert", "resume", "outputs"])
def test_line_that_is_too_long_is_refused_in_bounded_memory(foreign: Project, name: str) -> None:
    """A line of a GiB in a sparse file, for commands with one GiB of address space."""
    with (foreign.root / "run" / "results.jsonl").open("wb") as file:
        file.truncate(80 << 20 if name in ("resume", "outputs") else 1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\n")
    done = quick(foreign, *COMMANDS[name])
    if name == "resume":  # the line is set aside, and its case is run again
        assert (done.returncode, "longer than 64 MiB" in done.stderr) == (0, True), done.stderr
        (foreign.root / "run" / "results.corrupt.jsonl").unlink()
    else:
        assert (done.returncode, "longer than 64 MiB" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("shape", ["markdown", "junit", "github"])
def test_damaged_manifest_does_not_crash_a_report(foreign: Project, shape: str) -> None:
    path = foreign.root / "run" / "run.json"
    damage = {"suites": [1, {"path": 2}], "summary": 7, "total": "x", "status": [1]}
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    assert quick(foreign, "report", "run", "--format", shape).returncode == 0


@pytest.mark.parametrize(
    ("content", "mode"), [("precious\n", "--resume"), ('{"run_id": "other"}\n', "--retry-errors"), ("", "--resume")]
)
def test_resume_replaces_only_the_copy_of_its_own_run(foreign: Project, content: str, mode: str) -> None:
    victim = foreign.root / "out.txt"
    victim.write_text(content)
    path = foreign.root / "run" / "run.json"
    manifest = json.loads(path.read_text())
    manifest["options"]["out"] = str(victim)
    path.write_text(json.dumps(manifest))
    done = quick(foreign, "eval", mode, "run")
    rows = (foreign.root / "run" / "results.jsonl").read_text()
    if not content:  # nothing is lost
        assert (done.returncode, victim.read_text()) == (0, rows)
        return
    assert done.returncode == 2
    assert "is not its copy: line 1 is not a row of run" in done.stderr
    assert "--out FILE" in done.stderr
    assert victim.read_text() == content
    assert json.loads(path.read_text()) == manifest
    victim.write_text(rows + content)
    assert quick(foreign, "eval", mode, "run").returncode == 2
    assert victim.read_text() == rows + content
    assert quick(foreign, "eval", mode, "run", "--out", "chosen.jsonl").returncode == 0
    assert (foreign.root / "chosen.jsonl").read_text() == rows


@pytest.mark.parametrize("out", ["fifo", "/dev/fd/3"])
def test_resume_refuses_a_recorded_out_that_is_not_a_file(foreign: Project, out: str) -> None:
    if out == "fifo" and not (foreign.root / out).exists():
        os.mkfifo(foreign.root / out)
    path = foreign.root / "run" / "run.json"
    manifest = json.loads(path.read_text())
    manifest["options"]["out"] = out
    path.write_text(json.dumps(manifest))
    done = quick(foreign, "eval", "--resume", "run")
    assert done.returncode == 2, done.stderr
    assert "--out" in done.stderr


@pytest.mark.parametrize("option", ["outputs", "config"])
def test_resume_does_not_open_a_pipe_named_in_the_manifest(foreign: Project, option: str) -> None:
    if not (foreign.root / "fifo").exists():
        os.mkfifo(foreign.root / "fifo")
    path = foreign.root / "run" / "run.json"
    manifest = json.loads(path.read_text())
    manifest["options"][option] = "fifo"
    path.write_text(json.dumps(manifest))
    done = quick(foreign, "eval", "--resume", "run")
    assert (done.returncode, f"`options.{option}` must be a regular file" in done.stderr) == (2, True), done.stderr


def test_outputs_may_be_a_pipe_but_not_in_a_run_directory_or_a_device(foreign: Project) -> None:
    answers = (foreign.root / "good" / "results.jsonl").read_text()
    piped = foreign.run("eval", "suite.yaml", "--outputs", "/dev/stdin", stdin=answers)
    assert piped.returncode == 0, piped.stderr
    shell = f"{AGENTV[0]} -m agentv eval suite.yaml --outputs <(cat good/results.jsonl)"
    substituted = subprocess.run(
        ["bash", "-c", shell], cwd=foreign.root, capture_output=True, text=True, timeout=60, check=False
    )
    assert substituted.returncode == 0, substituted.stderr
    refused = quick(foreign, "eval", "suite.yaml", "--outputs", "/dev/zero")
    assert (refused.returncode, "is not a regular file" in refused.stderr) == (2, True), refused.stderr
    spoil(foreign.root / "run" / "results.jsonl", "fifo")
    refused = quick(foreign, "eval", "suite.yaml", "--outputs", "run/results.jsonl")
    assert (refused.returncode, "must be a regular file" in refused.stderr) == (2, True), refused.stderr


PROMPTFOO = """\
prompts: ["{{word}} {{secret}}", "file://REFERENCE"]
providers: [echo]
tests:
  - vars: {word: hello, secret: "file://REFERENCE"}
    assert: [{type: contains, value: hello}]
  - vars: {word: hello, secret: none}
    assert: [{type: contains, value: "file://REFERENCE"}, {type: contains, value: hello}]
  - "file://TESTS"
"""


@pytest.mark.parametrize("reference", ["ABSOLUTE", "in/../../outside.txt", "link.txt", "in/*.txt", "..*"])
def test_import_copies_no_file_from_outside(tmp_path: Path, reference: str) -> None:
    project = Project(tmp_path / "project")
    (tmp_path / "outside.txt").write_text("CONTROL WORD hello")
    (tmp_path / "outside.csv").write_text("word,secret,__expected\nhello,CONTROL WORD,contains:hello\n")
    (project.root / "in").mkdir(parents=True)
    for name in ("link.txt", "in/link.txt"):
        (project.root / name).symlink_to(tmp_path / "outside.txt")
    reference = reference.replace("ABSOLUTE", str(tmp_path / "outside.txt")).replace("..*", "../*.txt")
    tests = str(Path(reference).with_suffix(".csv")) if "link" not in reference else "../outside.csv"
    project.write("promptfoo.yaml", PROMPTFOO.replace("REFERENCE", reference).replace("TESTS", tests))
    done = quick(project, "import", "promptfoo", "promptfoo.yaml")
    assert done.returncode == 1, done.stderr
    assert "is outside" in done.stderr
    written = "".join(path.read_text() for path in project.root.glob("suite*.yaml"))
    assert "hello" in written
    assert "CONTROL WORD" not in written


@pytest.mark.parametrize("trick", ["fifo", "device", "huge"])
def test_import_refuses_pipes_devices_and_huge_files(tmp_path: Path, trick: str) -> None:
    project = Project(tmp_path)
    path = tmp_path / "value.txt"
    if trick == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    else:
        spoil(path, trick)
    project.write("promptfoo.yaml", PROMPTFOO.replace("REFERENCE", "value.txt").replace('  - "file://TESTS"\n', ""))
    done = quick(project, "import", "promptfoo", "promptfoo.yaml")
    assert done.returncode == 1, done.stderr
    assert "not a regular file" in done.stderr or "larger than" in done.stderr or "outside" in done.stderr
