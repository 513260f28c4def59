"""Write the files that `agentv import` creates: validated first, and never over existing files without --force."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click

from agentv.cli.program import clean_lines
from agentv.cli.yaml_file import yaml_file
from agentv.errors import InvalidFilesError, Problem, UsageError
from agentv.importing.source import Note
from agentv.plan.build import build_plan
from agentv.plan.options import RunOptions

CONFIG = "agentv.config.yaml"
YAML = (".yaml", ".yml")


def suite_path(out: str) -> Path:
    """The path of --out. Raises UsageError if it cannot be a suite."""
    path = Path(out)
    if path.suffix not in YAML or path.name == CONFIG:
        raise UsageError(f"--out must be a .yaml file other than {CONFIG}, got {out}.")
    return path


def rendered(title: str, data: Mapping[str, object], lists: Mapping[str, Sequence[str]]) -> str:
    """A YAML file with comments: a title, and lists with their headings."""
    comments = [title]
    for heading, items in lists.items():
        comments += ["", heading, *(f"- {item}" for item in items)] if items else []
    return yaml_file(comments, data)


def write(contents: Mapping[Path, str], scripts: Mapping[Path, str] | None = None, *, force: bool) -> None:
    """Write the files, after all of them are validated. Raises UsageError or InvalidFilesError.

    Suites refer to the scripts, so these are written before the validation, and put back if it fails.
    """
    changed = {path: text for path, text in (scripts or {}).items() if not _contains(path, text)}
    existing = [path for path in (*contents, *changed) if path.exists()]
    if existing and not force:
        raise UsageError(
            f"{existing[0]} already exists.", next_step="Nothing was written. Use --force to overwrite it."
        )
    # Paths in a suite are relative to it, so it is validated where it will be.
    mark = secrets.token_hex(4)
    drafts = {path: path.with_name(f".{path.stem}-{mark}{path.suffix}") for path in contents}
    created = [parent for path in contents for parent in path.parents if not parent.exists()]
    before: dict[Path, bytes | None] = {}
    try:
        for path, text in changed.items():
            old = path.read_bytes() if path.exists() else None
            _replace(path, text.encode(), mark)
            before[path] = old
        for path, draft in drafts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(contents[path], encoding="utf-8")
        _validate(drafts)
        for path, draft in drafts.items():
            draft.replace(path)
            created = []
            click.echo(f"wrote {path}")
        for path in changed:
            click.echo(f"wrote {path}")
        before = {}
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror or error}.") from None
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
        for path, data in before.items():
            if data is None:
                path.unlink(missing_ok=True)
            else:
                _replace(path, data, mark)
        for folder in dict.fromkeys(created):
            if folder.is_dir():
                folder.rmdir()


def _contains(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


def _replace(path: Path, data: bytes, mark: str) -> None:
    """Write a whole file, instead of a link if there is one."""
    draft = path.with_name(f".{path.stem}-{mark}{path.suffix}")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft.write_bytes(data)
    draft.replace(path)


def _validate(drafts: Mapping[Path, Path]) -> None:
    """Check all files as `agentv validate` does."""
    final = {draft.resolve(): path for path, draft in drafts.items()}
    suites = tuple(str(draft) for path, draft in drafts.items() if path.name != CONFIG and path.suffix in YAML)
    config = next((str(draft) for path, draft in drafts.items() if path.name == CONFIG), None)
    try:
        # Programs are not searched: they may be installed later.
        build_plan(RunOptions(paths=suites, config=config), Path.cwd(), only_check=True, search=False)
    except InvalidFilesError as error:
        problems = [
            Problem(final.get(p.path.resolve(), p.path), p.line, p.column, p.message, p.source) for p in error.problems
        ]
        raise InvalidFilesError(
            problems, next_step="The converted files have these problems, so nothing was written."
        ) from None


def print_notes(notes: Iterable[Note]) -> int:
    """Print all notes to stderr. Returns the number of parts that were left out."""
    left_out = 0
    for note in notes:
        click.echo(clean_lines(f"{note}" if note.left_out else f"{note} (note)"), err=True)
        left_out += note.left_out
    return left_out
