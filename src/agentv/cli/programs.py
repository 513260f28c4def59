"""Other programs on this machine that judge scripts may need."""

from __future__ import annotations

import re
import shutil
import subprocess

NODE = (22, 18)
"""The first version of Node that runs TypeScript files without an option."""


def version_of(program: str) -> str | None:
    """The version that a program on PATH prints, such as "22.18.0"; None if it is missing or does not answer."""
    path = shutil.which(program)
    if path is None:
        return None
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=10)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    version = re.match(r"v?(\d+(?:\.\d+)*)", done.stdout.strip())
    return version[1] if version else None


def is_old_node(version: str) -> bool:
    """Whether this version of Node cannot run TypeScript files."""
    return tuple(int(number) for number in version.split(".")[:2]) < NODE
