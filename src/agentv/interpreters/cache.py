"""The user's cache directory, with the environments of scripts and a directory that contains only the SDK."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import stat
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path

from agentv.interpreters.errors import InterpreterError
from agentv.interpreters.requirements import Packages

FORMAT = 1
"""Part of the name of every environment: a version of agentv that builds them differently builds new ones."""
_SDK = "agentv_eval"


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/agentv`, by default `~/.cache/agentv`."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if configured.is_absolute():
        return configured / "agentv"
    try:
        return Path.home() / ".cache" / "agentv"
    except RuntimeError:
        raise InterpreterError(
            "there is no directory for environments of scripts: the home directory is unknown",
            next_step="Set XDG_CACHE_HOME to a directory.",
        ) from None


def make_directory(path: Path) -> Path:
    """Create a directory of the cache, which other users cannot read. Raises InterpreterError if that is impossible."""
    for each in (cache_directory(), path):
        try:
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise not_writable(each, error) from None
    check_owner()
    return path


def check_owner() -> None:
    """Raise InterpreterError if another user can put programs into the cache, which scripts would then run."""
    path = cache_directory()
    try:
        states = [path.lstat(), path.stat()]
    except OSError:  # it does not exist yet
        return
    if any(state.st_uid not in (0, os.geteuid()) for state in states) or states[1].st_mode & stat.S_IWOTH:
        raise InterpreterError(
            f"{path} must not belong to another user, or be writable by others: scripts run programs in it",
            next_step="Set XDG_CACHE_HOME to a directory of your own.",
        )


def not_writable(path: Path, error: OSError) -> InterpreterError:
    """The error for a cache directory that cannot be used."""
    return InterpreterError(
        f"could not write to {path}: {error.strerror or error}", next_step="Set XDG_CACHE_HOME to a writable directory."
    )


def environments_directory() -> Path:
    """Where the environments are, each in a directory that is named after its key."""
    return cache_directory() / "environments"


def environment_of(packages: Packages) -> Path:
    """The directory of the environment with these packages, whether it exists or not."""
    return environments_directory() / _key(packages)


def executable_of(packages: Packages) -> str:
    """The interpreter of the environment with these packages."""
    return str(python_of(environment_of(packages)))


def python_of(environment: Path) -> Path:
    """The interpreter of an environment."""
    return environment / "bin" / "python"


@lru_cache(maxsize=256)
def _key(packages: Packages) -> str:
    """Equal packages for the same Python have the same key."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    python = [sys.implementation.name, platform.python_version(), sysconfig.get_platform(), os.path.realpath(base)]
    # The place of a file does not matter: only its contents are installed.
    parts = [FORMAT, python, list(packages.requirements), sorted(packages.contents)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def sdk_directory() -> Path:
    """A directory that contains only the SDK `agentv_eval`, as a link, for interpreters that do not have it.

    The directory in which agentv itself is installed also has all its other packages.
    """
    spec = importlib.util.find_spec(_SDK)
    if spec is None or spec.origin is None:
        raise InterpreterError(f"the package `{_SDK}` is not installed with agentv", next_step="Reinstall agentv.")
    package = os.path.realpath(Path(spec.origin).parent)
    folder = make_directory(cache_directory() / "sdk" / hashlib.sha256(os.fsencode(package)).hexdigest()[:20])
    link = folder / _SDK
    try:
        link.symlink_to(package, target_is_directory=True)
    except FileExistsError:  # made by an earlier run; its name says where it leads
        pass
    except OSError as error:
        raise not_writable(folder, error) from None
    return folder
