"""Remove a run from disk. Links are never followed, and files that do not belong to the run are kept."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import nullcontext
from pathlib import Path

from agentv.errors import RunLockedError, UsageError
from agentv.record.catalog import read_entry
from agentv.record.files import failure
from agentv.record.manifest import MANIFEST, RUNS, writer_of
from agentv.record.run_dir import RunDirectory, is_record_file


def removable(directory: Path, root: Path) -> int:
    """The number of bytes of the run. Raises UsageError if the directory is a link or is not a run.

    A directory in `.agentv/runs` of the working directory `root` may be broken; anywhere else it must be a run.
    """
    if directory.is_symlink():
        raise UsageError(f"{directory} is a symbolic link.", next_step="Remove the link itself, for example with `rm`.")
    entry = read_entry(directory)
    if entry.problem is not None and not _is_ours(directory, root):
        raise UsageError(f"{directory} is not a run: {entry.problem}.", next_step="Nothing was removed.")
    return sum(path.lstat().st_size for path in _files(directory, root))


def remove_run(directory: Path, root: Path) -> list[str]:
    """Remove the run, and return the names of files that were kept because they are not part of it.

    Raises RunLockedError if the run is being written. In `.agentv/runs`, everything in the directory is removed.
    """
    run = RunDirectory(directory)
    if read_entry(directory).status() == "running":  # also before it has taken its lock
        message = f"the run in {directory} is being written by process {writer_of(directory)}"
        raise RunLockedError(message, next_step="Wait until it has finished.")
    try:
        # A directory without run.json has no lock that a run would take.
        with run.lock() if run.manifest.is_file() else nullcontext():
            # Removed first: after a kill, the directory must not look like a run without rows.
            (directory / MANIFEST).unlink(missing_ok=True)
            if _is_ours(directory, root):
                shutil.rmtree(directory)
                return []
            for path in _files(directory, root):
                path.unlink()
            left = sorted(path.name for path in directory.iterdir())
            if not left:
                directory.rmdir()
            return left
    except OSError as error:
        raise failure("remove", directory, error, "Part of the run may have been removed.") from error


def _is_ours(directory: Path, root: Path) -> bool:
    return directory.absolute().parent == (root / RUNS).absolute()


def _files(directory: Path, root: Path) -> list[Path]:
    """The files to remove. Links count as files, and what they lead to does not."""
    if not _is_ours(directory, root):
        entries = [path for path in directory.iterdir() if is_record_file(path.name)]
        return [path for path in entries if not stat.S_ISDIR(path.lstat().st_mode)]
    return [Path(folder) / name for folder, _, names in os.walk(directory) for name in names]
