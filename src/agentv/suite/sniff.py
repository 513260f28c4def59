"""Whether a file is a suite, found out without parsing it."""

from __future__ import annotations

from pathlib import Path

CASES = "evalcases"
"""The key of the cases in a suite."""
CASE_KEYS = (CASES, "tests")
"""Keys under which a suite can list its cases: the usual one, and its alias."""
YAML = (".yaml", ".yml")
JSON_LINES = ".jsonl"
_MOST_BYTES = 1 << 20
"""How much of a file is searched for its cases."""


def _at_start(key: str) -> tuple[bytes, ...]:
    return tuple(f"{quote}{key}{quote}:".encode() for quote in ("", '"', "'"))


_CASES, _TESTS, _PROVIDERS = map(_at_start, (*CASE_KEYS, "providers"))


def is_yaml_suite(path: Path, *, accepts_alias: bool = True) -> bool:
    """Whether a YAML file has a key of the cases at the beginning of a line, and no `providers` (promptfoo).

    The alias `tests` counts only with `accepts_alias`: files of other tools have it, too.
    """
    if path.suffix not in YAML:
        return False
    try:
        with path.open("rb") as file:
            read, has_tests = 0, False
            for line in file:
                if line.startswith(_CASES):
                    return True
                if line.startswith(_PROVIDERS):
                    return False
                has_tests = has_tests or line.startswith(_TESTS)
                read += len(line)
                if read > _MOST_BYTES:
                    break
            return has_tests and accepts_alias
    except OSError:
        return False
