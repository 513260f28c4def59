"""Text for messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentv.text import LONGEST_WORD, all_of, did_you_mean, kind_of, one_of, plural, short_path


def test_did_you_mean_names_the_closest_known_word() -> None:
    assert did_you_mean("taget", ["provider", "target"]) == " (did you mean `target`?)"


@pytest.mark.parametrize("word", ["xyz", "", "t" * (LONGEST_WORD + 1)])
def test_did_you_mean_is_empty_without_a_close_word(word: str) -> None:
    assert did_you_mean(word, ["t" * LONGEST_WORD, "target"]) == ""


@pytest.mark.parametrize("word", ["max_calls", "MAXCALLS", "maxcall"])
def test_did_you_mean_in_any_case_ignores_case_and_underscores(word: str) -> None:
    assert did_you_mean(word, ["question", "maxCalls"], any_case=True) == " (did you mean `maxCalls`?)"


def test_choices_are_quoted_and_joined() -> None:
    assert (one_of(["a", "b", "c"]), all_of(["a", "b"]), one_of(["a"]), all_of([])) == (
        "`a`, `b` or `c`",
        "`a` and `b`",
        "`a`",
        "",
    )


def test_plural_counts() -> None:
    assert [plural(count, "row") for count in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        ("", "text"),
        (1, "a number"),
        (0.5, "a number"),
        ([], "a list"),
        ((), "a list"),
        ({}, "an object"),
    ],
)
def test_kind_of_names_the_kind_of_a_json_value(value: Any, kind: str) -> None:
    assert kind_of(value) == kind


def test_short_path_is_relative_only_inside_the_root() -> None:
    root = Path("/a/b")
    assert [short_path(path, root) for path in (root / "c/d", Path("/a/x"), root)] == [
        Path("c/d"),
        Path("/a/x"),
        Path(),
    ]
