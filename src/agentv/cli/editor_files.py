"""Files that make editors complete and check suites: schemas, settings of VS Code, and comments in the files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentv import jsonio
from agentv.errors import UsageError
from agentv.plan.schema import config_schema, suite_schema
from agentv.targets.config import FILE_NAMES

SCHEMAS = {"suite": suite_schema, "config": config_schema}
FOLDER = Path(".agentv", "schema")
SETTINGS = Path(".vscode", "settings.json")
_SCHEMAS_KEY = "yaml.schemas"
_PATTERNS = {
    "suite": ["evals/**/*.yaml", "evals/**/*.yml"],
    "config": [name for name in FILE_NAMES if "agentv" in name],
}
"""Which files a schema is for. `targets.yaml` outside of `.agentv` may belong to another tool."""
_CONFIGS = {Path(name).name for name in FILE_NAMES}
_MODELINE = re.compile(rb"#[ \t]*yaml-language-server:[ \t]*\$schema=[^\r\n]*(\r?\n|\Z)")
_BOM = b"\xef\xbb\xbf"


def write_schemas(root: Path) -> list[Path]:
    """Write both schemas and return their paths."""
    paths = []
    for name, make in SCHEMAS.items():
        path = root / FOLDER / f"{name}.json"
        _write(path, f"{json.dumps(make(), indent=2)}\n".encode())
        paths.append(path)
    return paths


def add_to_settings(root: Path) -> bool:
    """Add the schemas to the settings of VS Code, and return whether the settings have changed.

    Everything else in the settings is kept, also other patterns for the same schema. UsageError if the file has
    comments or is invalid: it is then not changed.
    """
    path = root / SETTINGS
    wanted = {(FOLDER / f"{name}.json").as_posix(): patterns for name, patterns in _PATTERNS.items()}
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", next_step=_by_hand(wanted)) from None
    settings = _parsed(path, text, wanted) if text.strip() else {}
    schemas = settings.setdefault(_SCHEMAS_KEY, {})
    if not isinstance(schemas, dict):
        raise UsageError(f"{path}: `{_SCHEMAS_KEY}` must be an object.", next_step=_by_hand(wanted))
    missing = {name: patterns for name, patterns in wanted.items() if name not in schemas}
    if not missing:
        return False
    schemas |= missing
    indent = re.search(r"\n([ \t]+)\"", text)
    _write(path, f"{json.dumps(settings, indent=indent[1] if indent else 2, ensure_ascii=False)}\n".encode())
    return True


def _parsed(path: Path, text: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    try:
        settings = jsonio.load(text.encode())
    except ValueError as error:
        raise UsageError(
            f"{path} was not changed, because its comments would be lost or it is invalid: {error}.",
            next_step=_by_hand(wanted),
        ) from None
    if not isinstance(settings, dict):
        raise UsageError(f"{path} must be a JSON object.", next_step=_by_hand(wanted))
    return settings


def _by_hand(wanted: Mapping[str, Any]) -> str:
    return f"Add this to it:\n{json.dumps({_SCHEMAS_KEY: wanted}, indent=2)}"


def add_modeline(file: Path, root: Path) -> bool:
    """Add the comment that names the schema to the top of a suite or configuration, or correct it.

    Returns whether the file has changed. The rest of the file stays as it is.
    """
    name = "config" if file.name in _CONFIGS else "suite"
    schema = os.path.relpath((root / FOLDER / f"{name}.json").absolute(), file.absolute().parent)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}.") from None
    mark = _BOM if content.startswith(_BOM) else b""
    content = content.removeprefix(_BOM)
    newline = b"\r\n" if b"\r\n" in content.partition(b"\n")[0] + b"\n" else b"\n"
    line = f"# yaml-language-server: $schema={Path(schema).as_posix()}".encode() + newline
    found = _MODELINE.match(content)
    changed = line + content[found.end() if found else 0 :]
    if changed == content:
        return False
    _write(file, mark + changed)
    return True


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}.") from None
