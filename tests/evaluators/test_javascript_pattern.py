"""`dialect: javascript` of `regex`: patterns mean what they mean in JavaScript."""

from __future__ import annotations

import pytest

from tests.evaluators.support import judged


@pytest.mark.parametrize(
    ("pattern", "flags", "answer", "in_javascript", "in_python"),
    [
        (r"a$", "", "a\n", False, True),
        (r"a$", "m", "a\nb", True, True),
        (r"^\d+$", "", "٣", False, True),
        (r"\bcaf\b", "", "café", True, False),
        (r"[\w.]+@x", "", "a.b@x", True, True),
        (r"^[^\w]$", "", "é", True, False),
        (r"É", "i", "é", True, True),
        (r"^\s$", "", "\N{NO-BREAK SPACE}", True, True),
    ],
)
async def test_pattern_matches_as_in_its_dialect(pattern, flags, answer, in_javascript, in_python):
    for dialect, expected in (("javascript", in_javascript), ("python", in_python)):
        result = await judged(answer, "regex", pattern=pattern, flags=flags, dialect=dialect)
        assert (dialect, result.score) == (dialect, float(expected))


@pytest.mark.parametrize(
    ("pattern", "answer", "matches"),
    [
        (r"(?<year>\d{4})-\k<year>", "2020-2020", True),
        (r"[^]x", "\nx", True),
        (r"[]", "x", False),
        (r"[[]", "[", True),
        (r"(?<=a)b(?<!ab)", "ab", False),
        (r"\u{1F600}\/", "😀/", True),
        (r"^\a\z$", "az", True),
    ],
)
async def test_syntax_of_javascript_is_translated(pattern, answer, matches):
    assert (await judged(answer, "regex", pattern=pattern, dialect="javascript")).score == float(matches)
