"""What a user calls a run: its name, its experiment and a note; and the words that refer to runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentv.errors import UsageError

LONGEST_NAME = 80
LONGEST_NOTE = 2_000
LATEST = re.compile(r"latest(?:~([0-9]{1,9}))?")
"""`latest` is the newest run, `latest~1` the one before it, and so on."""
STARTS_WITH_TIME = re.compile(r"[0-9]{8}-[0-9]{6}(?:-|$)")
"""A directory with a name like this was created by `agentv eval` at that time (UTC)."""
_LIKE_AN_ID = re.compile(r"[0-9]{8}(?:-(?:[0-9]{0,6}(?:-[0-9a-f]{0,9})?)?)?")


@dataclass(frozen=True, slots=True)
class RunLabels:
    """The name, the experiment and the note of a run. Raises UsageError if one of them cannot be used."""

    name: str | None = None
    """Refers to the newest run with this name."""
    experiment: str | None = None
    """Groups runs. Many runs have the same."""
    note: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            _check_name("name", self.name)
            if self.name.startswith("latest"):
                raise _unusable("name", self.name, "must not begin with `latest`, which refers to the newest run")
            if _LIKE_AN_ID.fullmatch(self.name):
                raise _unusable("name", self.name, "must not look like the id of a run")
            if self.name.endswith((".json", ".jsonl")):
                raise _unusable("name", self.name, "must not look like a results file")
        if self.experiment is not None:
            _check_name("experiment", self.experiment)
        if self.note is not None:
            check_note(self.note)

    def to_dict(self) -> dict[str, str | None]:
        return {"name": self.name, "experiment": self.experiment, "note": self.note}

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> RunLabels:
        """The labels in a `run.json`, without those that cannot be used."""
        labels: dict[str, str] = {}
        for key in ("name", "experiment", "note"):
            if isinstance(value := manifest.get(key), str):
                try:
                    cls(**{key: value})
                except UsageError:
                    continue
                labels[key] = value
        return cls(**labels)


def check_note(note: str) -> None:
    """UsageError if the note is too long or contains control characters other than line ends."""
    if not isinstance(note, str) or len(note) > LONGEST_NOTE or not note.replace("\n", "").isprintable():
        raise UsageError(f"The note must be printable text of at most {LONGEST_NOTE:,} characters.")


def _check_name(what: str, value: Any) -> None:
    if not isinstance(value, str):
        raise UsageError(f"`{what}` must be a string, got {value!r}.")
    if not value or len(value) > LONGEST_NAME:
        raise UsageError(f"`{what}` must have 1 to {LONGEST_NAME} characters, got {len(value):,}.")
    if value != value.strip() or not value.isprintable():
        raise _unusable(what, value, "must not begin or end with a space, nor contain control characters")
    if "/" in value or "\\" in value or value[0] in ".-~":
        raise _unusable(what, value, "must not contain slashes, nor begin with `.`, `-` or `~`")


def _unusable(what: str, value: str, why: str) -> UsageError:
    return UsageError(f"`{what}` {why}, got {value!r}.")
