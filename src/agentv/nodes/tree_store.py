"""A node's cache of trees: contents by digest, and directories with exactly the files of a manifest.

    blobs/<2 digits>/<digest>    the contents of files
    trees/<hash>/                the files of a manifest, read-only
    locks/<hash>                 locked while a tree is built or used
    partial/                     contents that are still arriving

Manifests and contents come from the network and are validated here. Several processes may share a directory. A driver
needs a store of its own: the pieces that one driver sends must not mix with those of another.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import os
import re
import secrets
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from agentv.errors import AgentVError
from agentv.jsonio import JsonError, read
from agentv.nodes.trees import MAX_FILES, PIECE, VERSION, TreeFile, link_problem, manifest_of, parents_of, path_problem
from agentv.regular_files import FileUnusableError, open_regular
from agentv.text import plural, quoted

MAX_BYTES = 5 * 1024**3
MAX_MANIFEST_BYTES = 32 * 2**20
MAX_PIECE_BYTES = 4 * PIECE
MAX_ARRIVING = 64
"""Files that may arrive at the same time."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SECONDS_TO_LOCK = 60.0
"""A partial file that is younger is never pruned: its writer may not have locked it yet."""


class TreeRefusedError(AgentVError):
    """A node cannot accept a manifest or contents, or cannot store them.

    `missing` has the digests of the contents that a tree needs and this node does not have.
    """

    def __init__(self, message: str, *, next_step: str | None = None, missing: Sequence[str] = ()) -> None:
        super().__init__(message, next_step=next_step)
        self.missing = tuple(missing)


def default_directory() -> Path:
    """The directory of this user's trees: in the cache directory, otherwise in the temporary directory."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    with suppress(RuntimeError):
        cache = cache if cache.is_absolute() else Path.home() / ".cache"
    if cache.is_absolute():
        existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
        if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
            return cache / "agentv" / "nodes"
    return Path(tempfile.gettempdir()) / f"agentv-nodes-{os.getuid()}"


def read_manifest(manifest: bytes, *, max_bytes: int = MAX_BYTES) -> tuple[TreeFile, ...]:
    """The files of a manifest. TreeRefusedError unless it is one that `Tree.manifest` can return."""
    if len(manifest) > MAX_MANIFEST_BYTES:
        raise _invalid(f"it must have at most {MAX_MANIFEST_BYTES:,} bytes, got {len(manifest):,}")
    try:
        value = read(manifest)
    except JsonError as error:
        raise _invalid(f"it must be JSON: {error}") from None
    listed = value.get("files") if isinstance(value, dict) else None
    if not isinstance(listed, list) or type(value.get("agentv_tree")) is not int or value["agentv_tree"] != VERSION:
        raise _invalid(f"it must be an object with `agentv_tree` ({VERSION}) and `files`")
    if len(listed) > MAX_FILES:
        raise _invalid(f"it must have at most {MAX_FILES:,} files, got {len(listed):,}")
    files = tuple(_entry(item) for item in listed)
    if any(one.path >= other.path for one, other in itertools.pairwise(files)):
        raise _invalid("its files must be sorted by path, without duplicates")
    if manifest_of(files) != manifest:
        raise _invalid("it must be canonical JSON without other fields")
    _check_directories(files)
    _check_sizes(files, max_bytes)
    return files


def _entry(item: Any) -> TreeFile:
    if not isinstance(item, dict) or not isinstance(path := item.get("path"), str):
        raise _invalid("each file must be an object with a `path`")
    if (problem := path_problem(path)) is not None:
        raise _invalid(f"{quoted(path)}: {problem}")
    if "link" in item:
        link = item["link"]
        if not isinstance(link, str):
            raise _invalid(f"{quoted(path)}: `link` must be text")
        if (problem := link_problem(path, link)) is not None:
            raise _invalid(f"{quoted(path)}: {problem}")
        return TreeFile(path, 0, "", executable=False, link=link)
    size, sha256, executable = item.get("size"), item.get("sha256"), item.get("executable")
    if type(size) is not int or size < 0:
        raise _invalid(f"{quoted(path)}: `size` must be a whole number from 0")
    if not isinstance(sha256, str) or not _DIGEST.fullmatch(sha256):
        raise _invalid(f"{quoted(path)}: `sha256` must have 64 hexadecimal digits")
    if not isinstance(executable, bool):
        raise _invalid(f"{quoted(path)}: `executable` must be true or false")
    return TreeFile(path, size, sha256, executable)


def _check_directories(files: Sequence[TreeFile]) -> None:
    directories: set[str] = set()
    for file in files:
        for directory in parents_of(file.path):
            if directory in directories:
                break
            directories.add(directory)
        if len(directories) > MAX_FILES:
            raise _invalid(f"it must have at most {MAX_FILES:,} directories")
    both = next((file.path for file in files if file.path in directories), None)
    if both is not None:
        raise _invalid(f"{quoted(both)} must be either a directory or a file, got both")


def _check_sizes(files: Sequence[TreeFile], max_bytes: int) -> None:
    sizes: dict[str, int] = {}
    for file in files:
        if file.link is None and sizes.setdefault(file.sha256, file.size) != file.size:
            raise _invalid(f"{quoted(file.path)}: the size of {file.sha256} differs from that of another file")
    if (total := sum(file.size for file in files)) > max_bytes:
        raise TreeRefusedError(
            f"the files have {total:,} bytes, and this node stores at most {max_bytes:,}",
            next_step="Increase the size of the node's cache, or ship fewer files.",
        )


def _invalid(reason: str) -> TreeRefusedError:
    return TreeRefusedError(f"the list of files is invalid: {reason}")


@dataclass(slots=True)
class _Arriving:
    """The contents of a file of which some pieces have arrived."""

    path: Path
    file: IO[bytes]
    size: int = 0


class TreeStore:
    """Trees in one directory; its methods may be called in threads."""

    def __init__(self, directory: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.directory = directory.absolute()
        self.max_bytes = max_bytes
        self._blobs, self._trees = self.directory / "blobs", self.directory / "trees"
        self._locks, self._partial = self.directory / "locks", self.directory / "partial"
        self._sizes: dict[str, int] = {}
        """Contents that may arrive, and their sizes."""
        self._arriving: dict[str, _Arriving] = {}
        self._lock = threading.Lock()
        with self._storing():
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_private(self.directory)
            for folder in (self._blobs, self._trees, self._locks, self._partial):
                folder.mkdir(mode=0o700, exist_ok=True)
                self._check_private(folder)

    def missing(self, manifest: bytes) -> list[str]:
        """The digests of the contents that this node does not have, in the order of the files.

        They may then be added, each from its beginning. TreeRefusedError for an invalid manifest.
        """
        files = read_manifest(manifest, max_bytes=self.max_bytes)
        sizes = {file.sha256: file.size for file in files if file.link is None}
        with self._storing(), self._lock:
            missing = [sha256 for sha256, size in sizes.items() if not self._has(sha256, size)]
            for sha256 in missing:
                self._drop(sha256)
            self._sizes |= {sha256: sizes[sha256] for sha256 in missing}
        return missing

    def add(self, sha256: str, piece: bytes, *, last: bool) -> None:
        """Add the next piece of contents that `missing` returned. With `last`, they are verified and kept.

        After a TreeRefusedError, the contents must be sent again from the beginning.
        """
        with self._lock:
            size = self._sizes.get(sha256)
            if size is None:
                raise TreeRefusedError(f"contents arrived that were not requested: {quoted(sha256)}")
            try:
                with self._storing():
                    self._append(sha256, piece, size, last=last)
            except BaseException:
                self._drop(sha256)
                raise

    def build(self, manifest: bytes) -> Path:
        """The directory with exactly the files of the manifest, read-only. Other processes may build it, too.

        TreeRefusedError when contents are missing or damaged; its `missing` has their digests. Use `using` if the
        cache may be pruned before the directory is used.
        """
        with self.using(manifest) as path:
            return path

    @contextmanager
    def using(self, manifest: bytes) -> Iterator[Path]:
        """Like `build`, and `hold` the tree from before it is built."""
        files = read_manifest(manifest, max_bytes=self.max_bytes)
        path = self._trees / hashlib.sha256(manifest).hexdigest()
        with self._locked(path.name):
            with self._storing():
                if not path.is_dir():
                    self._build(path, files)
                os.utime(path)
            yield path

    @contextmanager
    def hold(self, path: Path) -> Iterator[None]:
        """Keep `prune` from removing the tree, in any process. TreeRefusedError if it was removed before."""
        if path.parent != self._trees or not _DIGEST.fullmatch(path.name):
            raise TreeRefusedError(f"{path} must be a directory that `build` returned")
        with self._locked(path.name):
            if not path.is_dir():
                raise TreeRefusedError(f"{path} was removed from the cache", next_step="Build it again.")
            os.utime(path)
            yield

    def prune(self) -> None:
        """Remove what was not used for the longest time, until `max_bytes` are left, and what killed processes left.

        Trees that are used or built are never removed.
        """
        with self._storing():
            self._remove_unfinished()
            stored = [(path, *_size_and_use(path)) for path in (*self._blobs.glob("??/*"), *self._finished_trees())]
            total = sum(size for _, size, _ in stored)
            for path, size, _ in sorted(stored, key=lambda item: item[2]):
                if total <= self.max_bytes:
                    return
                if path.parent != self._trees:
                    path.unlink(missing_ok=True)
                elif not self._remove_tree(path):
                    continue
                total -= size

    def close(self) -> None:
        """Drop contents of which only some pieces have arrived."""
        with self._lock:
            for sha256 in list(self._arriving):
                self._drop(sha256)
            self._sizes.clear()

    # -- contents

    def _blob(self, sha256: str) -> Path:
        return self._blobs / sha256[:2] / sha256

    def _has(self, sha256: str, size: int) -> bool:
        """Whether the contents are stored. If so, they count as used now."""
        path = self._blob(sha256)
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_size != size:
                path.unlink()
                return False
            os.utime(path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _append(self, sha256: str, piece: bytes, size: int, *, last: bool) -> None:
        arriving = self._arriving.get(sha256) or self._begin(sha256)
        arriving.size += len(piece)
        if len(piece) > MAX_PIECE_BYTES or arriving.size > size:
            raise TreeRefusedError(f"the contents of {sha256} are larger than announced ({plural(size, 'byte')})")
        left = memoryview(piece)
        while left:  # an almost full disk takes a part
            left = left[os.write(arriving.file.fileno(), left) :]
        if not last:
            return
        arriving.file.seek(0)
        digest = hashlib.file_digest(arriving.file, "sha256").hexdigest()  # type: ignore[arg-type]
        if arriving.size != size or digest != sha256:
            raise TreeRefusedError(
                f"the contents of {sha256} are not those that were announced: "
                f"{plural(arriving.size, 'byte')} instead of {size:,}, SHA-256 {digest}"
            )
        os.fchmod(arriving.file.fileno(), 0o400)
        blob = self._blob(sha256)
        blob.parent.mkdir(mode=0o700, exist_ok=True)
        arriving.path.replace(blob)
        arriving.file.close()
        del self._arriving[sha256], self._sizes[sha256]

    def _begin(self, sha256: str) -> _Arriving:
        if len(self._arriving) >= MAX_ARRIVING:
            raise TreeRefusedError(f"at most {MAX_ARRIVING} files may arrive at the same time")
        path = self._partial / f"{sha256}-{secrets.token_hex(8)}"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        arriving = self._arriving[sha256] = _Arriving(path, os.fdopen(descriptor, "w+b", buffering=0))
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return arriving

    def _drop(self, sha256: str) -> None:
        if (arriving := self._arriving.pop(sha256, None)) is not None:
            with suppress(OSError):
                arriving.path.unlink(missing_ok=True)
            with suppress(OSError):
                arriving.file.close()

    # -- trees

    def _build(self, path: Path, files: Sequence[TreeFile]) -> None:
        sizes = {file.sha256: file.size for file in files if file.link is None}
        if missing := [sha256 for sha256, size in sizes.items() if not self._has(sha256, size)]:
            raise _incomplete(missing)
        # In the same directory: a read-only directory cannot be moved to another one.
        building = Path(tempfile.mkdtemp(prefix=f".new-{path.name}-", dir=self._trees))
        try:
            directories = {directory for file in files for directory in parents_of(file.path)}
            for directory in sorted(directories):
                (building / directory).mkdir(mode=0o700)
            for file in files:
                self._copy(file, building / file.path)
            for directory in sorted(directories, reverse=True):
                (building / directory).chmod(0o555)
            building.chmod(0o555)
            try:
                building.rename(path)
            except OSError:
                if not path.is_dir():  # else another process was faster
                    raise
        finally:
            _delete(building)

    def _copy(self, file: TreeFile, path: Path) -> None:
        """Write a file from its contents, not as a hard link: a script that writes to it must not change them."""
        if file.link is not None:
            path.symlink_to(file.link)
            return
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        digest = hashlib.sha256()
        with os.fdopen(descriptor, "wb") as copy:
            try:
                with open_regular(self._blob(file.sha256), follow_links=False) as contents:
                    while piece := contents.read(2**20):
                        digest.update(piece)
                        copy.write(piece)
            except FileUnusableError:  # pruned by another process
                raise _incomplete([file.sha256]) from None
            os.fchmod(copy.fileno(), 0o555 if file.executable else 0o444)
        if digest.hexdigest() != file.sha256:
            self._blob(file.sha256).unlink(missing_ok=True)
            raise _incomplete([file.sha256])

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        with self._storing():
            descriptor = self._open_lock(name, fcntl.LOCK_SH)
        try:
            yield
        finally:
            os.close(descriptor)

    def _open_lock(self, name: str, operation: int) -> int:
        """Lock a tree. `prune` deletes lock files, so the file may have to be opened again."""
        path = self._locks / name
        while True:
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, operation)
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(descriptor), path.lstat()):
                        return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    @contextmanager
    def _unused(self, name: str) -> Iterator[bool]:
        """Whether no process builds or uses a tree. If so, none can begin to until the block ends."""
        try:
            descriptor = self._open_lock(name, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            (self._locks / name).unlink(missing_ok=True)
            os.close(descriptor)

    def _finished_trees(self) -> Iterator[Path]:
        return (path for path in self._trees.iterdir() if _DIGEST.fullmatch(path.name))

    def _remove_tree(self, path: Path) -> bool:
        old = path.with_name(f".old-{path.name}-{secrets.token_hex(8)}")
        with self._unused(path.name) as unused:
            if unused:
                with suppress(FileNotFoundError):
                    path.rename(old)
                _delete(old)
            return unused

    def _remove_unfinished(self) -> None:
        for path in [path for path in self._trees.iterdir() if path.name.startswith((".new-", ".old-"))]:
            with self._unused(path.name.split("-")[1]) as unused:
                if unused:
                    _delete(path)
        for path in list(self._partial.iterdir()):
            with suppress(FileNotFoundError, BlockingIOError):
                if time.time() - path.lstat().st_mtime < _SECONDS_TO_LOCK:
                    continue
                descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                finally:
                    os.close(descriptor)

    # -- the directory

    def _check_private(self, folder: Path) -> None:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            problem = "is not a directory"
        elif status.st_uid != os.geteuid():
            problem = f"belongs to another user ({status.st_uid})"
        elif status.st_mode & 0o022:
            problem = f"can be written by other users (mode {stat.S_IMODE(status.st_mode):04o})"
        else:
            return
        raise TreeRefusedError(
            f"{folder} {problem}, so the files of suites cannot be stored there",
            next_step=f"Choose a directory that only you can write, or run `chmod go-w {folder}` if it is yours.",
        )

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """Report errors of the file system as TreeRefusedError."""
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                raise TreeRefusedError(
                    f"the disk is full: the files of the suite cannot be stored in {self.directory} ({error.strerror})",
                    next_step="Free space on this node, or set XDG_CACHE_HOME to a directory on a larger disk.",
                ) from None
            raise TreeRefusedError(
                f"the files of the suite cannot be stored in {self.directory}: {error.strerror or error}",
                next_step="Check that this node can read and write the directory.",
            ) from None


def _incomplete(missing: Sequence[str]) -> TreeRefusedError:
    return TreeRefusedError(
        f"the contents of {plural(len(missing), 'file')} are missing on this node, such as {missing[0]}",
        next_step="Send them again.",
        missing=missing,
    )


def _size_and_use(path: Path) -> tuple[int, float]:
    """The bytes below a path, and when it was last used."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return 0, 0.0
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size, status.st_mtime
    size = 0
    for folder, _, files in os.walk(path):
        for name in files:
            with suppress(FileNotFoundError):
                size += Path(folder, name).lstat().st_size
    return size, status.st_mtime


def _delete(tree: Path) -> None:
    """Delete a tree of read-only directories, if it exists."""
    for folder, _, _ in os.walk(tree):
        with suppress(OSError):
            Path(folder).chmod(0o700)
    shutil.rmtree(tree, ignore_errors=True)
