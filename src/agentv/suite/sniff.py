"""Whether a file is a suite, found out without parsing it."""

from __future__ import annotations

import re
from pathlib import Path

CASES = "evalcases"
"""The key of the cases in a suite."""
CASE_KEYS = (CASES, "tests", "eval_cases")
"""Keys under which a suite can list its cases: the usual one, and its alias."""
YAML = (".yaml", ".yml")
JSON_LINES = ".jsonl"
_MOST_BYTES = 1 << 20
"""How much of a file is searched for its cases."""


_INSIDE = (b" ", b"\t", b"#", b"-", b"\r", b"\n")
"""How lines begin that are not keys at the top of a file."""
_ID = re.compile(rb"\s*(?:-\s+)?(?:\{\s*)?(?:id\s*:|file://)|\s*-\s+[\"']?file://")


def _at_start(key: str) -> tuple[bytes, ...]:
    return tuple(f"{quote}{key}{quote}:".encode() for quote in ("", '"', "'"))


_CASES, _PROVIDERS = _at_start(CASES), _at_start("providers")
_TESTS = tuple(start for key in CASE_KEYS[1:] for start in _at_start(key))


def is_yaml_suite(path: Path, *, accepts_alias: bool = True) -> bool:
    """Whether a YAML file has a key of the cases at the beginning of a line.

    The aliases count only with `accepts_alias`: files of other tools have them, too. A file with `providers` counts if
    its cases have ids, which are optional in promptfoo and required in AgentV.
    """
    if path.suffix not in YAML:
        return False
    try:
        with path.open("rb") as file:
            read, has_tests, in_tests, has_ids, has_providers = 0, False, False, False, False
            for line in file:
                if line.startswith(_CASES):
                    return True
                if line[:1] not in _INSIDE:
                    in_tests = line.startswith(_TESTS)
                    has_tests = has_tests or in_tests
                    has_providers = has_providers or line.startswith(_PROVIDERS)
                has_ids = has_ids or (in_tests and _ID.match(line) is not None)
                read += len(line)
                if read > _MOST_BYTES or (has_tests and has_ids):
                    break
            return has_tests and accepts_alias and (has_ids or not has_providers)
    except OSError:
        return False
