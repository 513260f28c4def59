"""A job: a program to run once, wherever that is. It becomes a `Script` where it runs.

A job names only what differs from the environment of its place: `python` is that of the place, variables are added to
those of the place, and the files of `{PROMPT_FILE}` and `{OUTPUT_FILE}` are created where the program runs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentv.processes.run import STDERR_KEEP, STDOUT_CAP, ProcessOutcome
from agentv.regular_files import FileUnusableError, read_regular

MARK = "\0"
"""Begins and ends a marker in an argument or a variable. No program can be passed this character."""
PYTHON = f"{MARK}python{MARK}"
"""Marks the place of the Python interpreter in the command."""

_log = logging.getLogger(__name__)


def file_mark(name: str) -> str:
    """What stands for the path of a file of the job, in its arguments and variables."""
    return f"{MARK}{name}{MARK}"


@dataclass(frozen=True, slots=True)
class Job:
    """A program, its input and its limits."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables that are added to those of the place."""
    passed: Sequence[str] = ()
    """Names of secret variables of the place that the program gets nevertheless."""
    stdin: bytes | None = b""
    """Bytes to send; None connects stdin to `/dev/null`."""
    inputs: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Files to create, by the name in their marker."""
    outputs: Sequence[str] = ()
    """Files that the program may write, by the name in their marker."""
    file_names: Mapping[str, str] = field(default_factory=dict)
    """The names of these files; by default, that in the marker."""
    keep_files: bool = False
    timeout: float | None = None
    stdout_cap: int = STDOUT_CAP
    stderr_keep: int = STDERR_KEEP
    isolate: bool = False
    """Whether it runs apart from other processes and without secret variables, as scripts with judge access do."""
    scrub: bool = False
    """Whether it gets no secret variables although it is not isolated."""
    vendors: Sequence[str] = ()
    """The vendors whose client libraries find the judge proxy by their variables."""
    warm: bool = False
    lines: bool = False
    """Whether the process stays alive between executions (`protocol: jsonl`)."""
    inline: bool = False
    search_path: Sequence[str] = ()
    """Directories that a Python program also imports from. They are those of this machine."""
    may_hold_secrets: bool = False
    """Whether its command and variables may contain keys although it runs on a node."""
    on_start: Callable[[Sequence[str]], None] | None = None
    """Called with the command before it is started."""
    label: str = ""
    """What the job belongs to, for messages about its files."""


def with_values(job: Job, values: Mapping[str, str]) -> Job:
    """The job with its markers replaced: the interpreter, and the paths of its files."""
    marks = {PYTHON: sys.executable, **{file_mark(name): path for name, path in values.items()}}

    def filled(text: str) -> str:
        if MARK not in text:
            return text
        for mark, value in marks.items():
            # Inside a longer word, the interpreter is a word of a shell.
            text = text.replace(mark, shlex.quote(value) if mark == PYTHON and text != mark else value)
        return text

    env = {name: filled(value) for name, value in job.env.items()}
    return replace(job, argv=[filled(word) for word in job.argv], env=env)


def without_marks(job: Job) -> list[str]:
    """The command for people, with the names of files and of the interpreter instead of their markers."""
    names = {PYTHON: "python", **{file_mark(name): f"{{{name}}}" for name in (*job.inputs, *job.outputs)}}
    words = list(job.argv)
    for mark, name in names.items():
        words = [word.replace(mark, name) for word in words]
    return words


def _report(job: Job) -> None:
    if job.on_start is not None:
        job.on_start(job.argv)


class JobFiles:
    """The files of a running job, in a directory that only this user can read."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.paths: dict[str, str] = {}

    def read(self, outcome: ProcessOutcome) -> ProcessOutcome:
        """The outcome with the files that the program wrote, or why they cannot be read."""
        files: dict[str, bytes] = {}
        problems: dict[str, str] = {}
        for name in self.job.outputs:
            try:
                files[name] = read_regular(Path(self.paths[name]), self.job.stdout_cap)
            except FileUnusableError as error:
                if os.path.lexists(self.paths[name]):
                    problems[name] = str(error)
        return replace(outcome, files=files, file_problems=problems)


@contextlib.contextmanager
def job_files(job: Job) -> Iterator[JobFiles]:
    """Create the files of a job, and replace the markers in it. They are deleted at the end."""
    files = JobFiles(job)
    names: Collection[str] = (*job.inputs, *job.outputs)
    if not names:
        files.job = with_values(job, {})
        _report(files.job)
        yield files
        return
    folder = Path(tempfile.mkdtemp(prefix="agentv-"))
    try:
        files.paths = {name: str(folder / job.file_names.get(name, name)) for name in names}
        for name, content in job.inputs.items():
            descriptor = os.open(files.paths[name], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
        files.job = with_values(job, files.paths)
        _report(files.job)
        yield files
    finally:
        if job.keep_files:
            _log.info("temporary files of '%s' are kept in %s", job.label, folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
