"""Environments with packages for scripts: each is installed once, and then only read.

An environment is built where it stays, because the programs in its `bin` contain its path. Until the file `READY` is in
it, no process uses it. A process builds it while it holds a lock, which the installer inherits: if agentv is killed,
the next one waits for the installer, removes what it left, and starts again.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentv import jsonio
from agentv.interpreters.cache import (
    check_owner,
    environment_of,
    environments_directory,
    make_directory,
    not_writable,
    python_of,
)
from agentv.interpreters.errors import InterpreterError
from agentv.interpreters.probe import Probed, probe
from agentv.interpreters.requirements import Packages
from agentv.redact import Redactor
from agentv.text import plural

READY = "agentv.json"
"""The file that says what an environment contains. Its modification time is that of the last use."""
_SHOWN_LINES, _SHOWN_LINE = 15, 400
_OWN_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
"""Variables of the environment that runs agentv, which must not affect another one."""


@dataclass(frozen=True, slots=True)
class Installing:
    """Who installs packages, and how."""

    evaluator: str
    """The name of the evaluator that needs them, for messages."""
    variables: Mapping[str, str]
    """The variables of the installer."""
    redactor: Redactor
    say: Callable[[str], None]


def installed(packages: Packages, by: Installing) -> Probed:
    """Install the packages unless they are installed. Raises InterpreterError if that is not possible."""
    check_owner()
    folder = environment_of(packages)
    found = _read(folder)
    if found is None:
        make_directory(environments_directory())
        try:
            with _locked(folder, by) as lock:
                found = _read(folder) or _install(packages, folder, by, lock)
        except OSError as error:
            raise not_writable(folder, error) from None
    with suppress(OSError):  # a read-only cache
        os.utime(folder / READY)
    return found


def _read(folder: Path) -> Probed | None:
    """What is installed; None if it must be installed, also because its Python is gone."""
    try:
        data = jsonio.load((folder / READY).read_bytes())
        if os.access(python_of(folder), os.X_OK):
            return Probed(data["version"], data["packages"], data["sdk"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


@contextmanager
def _locked(folder: Path, by: Installing) -> Iterator[int]:
    """Hold the lock of an environment. It is released when this process and its installer have closed it."""
    lock = os.open(folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            by.say(f"waiting for another process that installs the packages for '{by.evaluator}'")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _install(packages: Packages, folder: Path, by: Installing, lock: int) -> Probed:
    _remove(folder)
    count = plural(len(packages.requirements), "package") if packages.requirements else ""
    files = " and ".join(Path(file).name for file in packages.files)
    what = " and ".join(filter(None, (count, files and f"the packages of {files}")))
    by.say(f"installing {what} for '{by.evaluator}' ({packages.shown}) ...")
    complete = False
    try:
        for command in _commands(packages, folder, by.variables):
            _run(command, packages, by, lock)
        found = probe(str(python_of(folder)), by.variables, ["-I"])
        _finish(folder, packages, found)
        complete = True
    finally:
        if not complete:
            _remove(folder)
    return found


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _commands(packages: Packages, folder: Path, variables: Mapping[str, str]) -> Iterator[list[str]]:
    """The commands that create the environment and install the packages: with uv if there is one, else with pip."""
    python = str(python_of(folder))
    listed = [*packages.requirements, *(word for file in packages.files for word in ("-r", file))]
    if (uv := _uv(variables)) is not None:
        yield [uv, "venv", "--quiet", "--python", sys.executable, str(folder)]
        yield [uv, "pip", "install", "--python", python, "--compile-bytecode", *listed]
        return
    has_pip = importlib.util.find_spec("pip") is not None
    yield [sys.executable, "-I", "-m", "venv", *(["--without-pip"] if has_pip else []), str(folder)]
    pip = [sys.executable, "-I", "-m", "pip", "--python", python] if has_pip else [python, "-I", "-m", "pip"]
    yield [*pip, "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off", *listed]


def _uv(variables: Mapping[str, str]) -> str | None:
    """uv on PATH, or next to the Python that runs agentv."""
    own = str(Path(sys.executable).parent)
    return shutil.which("uv", path=os.pathsep.join((variables.get("PATH", os.defpath), own)))


def _run(command: Sequence[str], packages: Packages, by: Installing, lock: int) -> None:
    variables = {name: value for name, value in by.variables.items() if name not in _OWN_VARIABLES}
    # Relative paths in a requirements file start at the directory of the installer.
    cwd = Path(packages.files[0]).parent if packages.files else environments_directory()
    with tempfile.TemporaryFile() as output:
        try:
            ended = subprocess.run(
                command,
                cwd=cwd,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(lock,),
                check=False,
            )
        except OSError as error:
            raise InterpreterError(f"could not start {command[0]}: {error.strerror or error}") from None
        if ended.returncode == 0:
            return
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    # Masked before it is truncated. pip lists all versions in one line.
    lines = by.redactor.text(text.strip()).splitlines()[-_SHOWN_LINES:]
    shown = "\n".join(line if len(line) <= _SHOWN_LINE else f"{line[:_SHOWN_LINE]} ..." for line in lines)
    program = Path(command[0]).name if Path(command[0]).name == "uv" else "pip"
    raise InterpreterError(
        f"the packages for '{by.evaluator}' could not be installed ({by.redactor.text(packages.shown)}): {program} "
        f"exited with code {ended.returncode}:\n{shown}",
        next_step="Check `python` of the evaluator, and the network. To use packages that you installed "
        "yourself, set it to an interpreter, such as `.venv/bin/python`. Nothing was run.",
    )


def _finish(folder: Path, packages: Packages, found: Probed) -> None:
    """Write the file that makes the environment usable."""
    data: dict[str, Any] = {
        "version": found.version,
        "requirements": list(packages.requirements),
        "files": list(packages.files),
        "packages": dict(found.packages),
        "sdk": found.has_sdk,
        "installed_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    partial = folder / f"{READY}.partial"
    partial.write_text(jsonio.dump_line(data) + "\n", encoding="utf-8")
    partial.replace(folder / READY)
