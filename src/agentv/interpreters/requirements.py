"""The packages that `python` lists: requirement strings, and requirement files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentv.regular_files import FileUnusableError, read_regular
from agentv.text import quoted

FILE_SUFFIX = ".txt"
"""A string with this suffix is a requirements file, not an interpreter."""
LARGEST = 256 * 1024 * 1024
_FILE_OPTION = re.compile(r"(?:-r|--requirement)(?:\s*=\s*|\s+|(?=[^\s=-]))(?P<file>.+)")
_INCLUDED = re.compile(r"^\s*(?:-r|-c|--requirement|--constraint)(?:\s*=\s*|\s+)(?P<file>[^\s#]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Packages:
    """Packages to install. Equal packages share an environment."""

    requirements: tuple[str, ...] = ()
    """Requirement strings, normalized and sorted."""
    files: tuple[str, ...] = ()
    """Absolute paths of requirement files."""
    contents: tuple[str, ...] = ()
    """SHA-256 of those files, of the files that they include, and of local archives."""
    sources: tuple[str, ...] = field(default=(), compare=False)
    """The paths of all of them."""

    @property
    def shown(self) -> str:
        """The packages for people."""
        return ", ".join([*self.requirements, *(Path(file).name for file in self.files)])

    @property
    def name(self) -> str:
        """Their name in the record of a run."""
        return ", ".join([*self.files, *self.requirements])


def as_list(python: str | Sequence[str]) -> list[str] | None:
    """The requirements that `python` lists; None if it names an interpreter."""
    if not isinstance(python, str):
        return list(python)
    return [f"-r {python.strip()}"] if python.strip().endswith(FILE_SUFFIX) else None


def file_of(requirement: str) -> str | None:
    """The requirements file that an item such as `-r requirements.txt` names."""
    option = _FILE_OPTION.fullmatch(requirement.strip())
    return None if option is None else option["file"].strip()


def check_python(python: str | Sequence[str]) -> None:
    """Raises ValueError if this cannot be a value of `python`."""
    listed = as_list(python)
    if listed is None:
        if not str(python).strip() or "\0" in python:
            raise ValueError("must name an interpreter, such as `.venv/bin/python`, or list requirements")
        return
    if not listed:
        raise ValueError("must list at least one requirement, such as `deepeval==4.0.6`")
    for item in listed:
        if file_of(item) is None:
            normalized(item)


def normalized(requirement: str) -> str:
    """The requirement in its usual spelling. Raises ValueError if it is not valid."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - few suites list requirements

    text = requirement.strip()
    if text.startswith("-"):
        raise ValueError(
            f"{quoted(text)} is an option of pip; the only one that is possible here is `-r FILE`. Put other options "
            "into that file, or set variables such as `PIP_INDEX_URL` or `UV_INDEX_URL`"
        )
    try:
        parsed = Requirement(text)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0].rstrip(".:")
        raise ValueError(
            f"{quoted(text)} is not a requirement ({reason}); write for example `deepeval==4.0.6`, or "
            "`name @ file:///path/to/name.whl`"
        ) from None
    if parsed.url is not None:
        _check_url(text, parsed.url)
    return str(parsed)


def _check_url(text: str, url: str) -> None:
    parts = urlsplit(url)
    if not parts.scheme:
        raise ValueError(f"{quoted(text)} must have an absolute URL, such as `name @ file:///path/to/name.whl`")
    if parts.password or (parts.username and parts.scheme.endswith(("http", "https"))):
        name = text.partition("@")[0].strip()
        raise ValueError(
            f"the URL of {quoted(name)} must not contain a password or a token: use a `.netrc` file, or a requirements "
            "file with `${NAME}`"
        )


def packages_of(listed: Sequence[str], find_file: Callable[[str], Path]) -> Packages:
    """The packages of a valid list. Raises ValueError if a file cannot be read; `find_file` resolves its path."""
    strings = sorted({normalized(item) for item in listed if file_of(item) is None})
    files = [find_file(name) for item in listed if (name := file_of(item)) is not None]
    contents: dict[Path, str] = {}
    for file in files:
        _note(file, contents, find_file)
    for requirement in strings:
        if (archive := _archive(requirement)) is not None:
            contents[archive] = _digest(archive)[0]
    return Packages(tuple(strings), tuple(map(str, files)), tuple(contents.values()), tuple(map(str, contents)))


def _note(file: Path, contents: dict[Path, str], find_file: Callable[[str], Path]) -> None:
    """Note the contents of a requirements file and of the files that it includes."""
    if file in contents:
        return
    contents[file], data = _digest(file)
    for included in _INCLUDED.finditer(data.decode("utf-8", "replace")):
        if "://" not in included["file"]:
            _note(find_file(str(file.parent / included["file"])), contents, find_file)


def _digest(file: Path) -> tuple[str, bytes]:
    try:
        data = read_regular(file, LARGEST)
    except FileUnusableError as error:
        raise ValueError(f"'{file}' {error}") from None
    return hashlib.sha256(data).hexdigest(), data


def _archive(requirement: str) -> Path | None:
    """The local file that a requirement names; None for others, and for directories."""
    url = urlsplit(requirement.partition("@")[2].partition(";")[0].strip())
    path = Path(unquote(url.path))
    return path if url.scheme == "file" and not path.is_dir() else None
