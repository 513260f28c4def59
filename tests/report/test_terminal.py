"""Text for terminals: control sequences are removed, and lines fit the width."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.report.terminal import Look, can_print_unicode, clean, columns, wants_color

UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;never ends", "0;never ends"),
        ("\x9b2Jcleared", "cleared"),
        ("\x9d0;title\x9ctext", "text"),
        ("\x1bP+q544e\x1b\\x", "x"),
        ("\x1b\x1b[31m[31mnested", "[31mnested"),
        ("\x1bcreset", "reset"),
        ("first\r\nsecond\tthird\x00\x07\x08", "first second third"),
        ("\u202egnp.exe\u2066x\u2069", "gnp.exex"),
        ("lone \ud800", "lone \ufffd"),
        ("línea 日本 👩‍👩‍👧 ok", "línea 日本 👩‍👩‍👧 ok"),
    ],
)
def test_clean_removes_control_sequences_and_keeps_text(hostile: str, shown: str):
    assert clean(hostile) == shown


HOSTILE = st.text(st.one_of(st.sampled_from("\x1b[]PX^_\x9b\x9d\x9c\x07;m0\\ \n\u202e\ud800a日"), st.characters()))


@given(HOSTILE)
def test_clean_removes_everything_unsafe_from_any_text(text: str):
    assert not UNSAFE.search(clean(text))
    assert Look(unicode=False).text(text).isascii()


@given(HOSTILE, st.integers(6, 40), st.booleans())
def test_cut_and_wrapped_text_fits(text: str, width: int, unicode: bool):
    look = Look(unicode=unicode)
    safe = look.text(text)
    assert columns(look.cut(safe, width)) <= width
    lines = look.wrap(safe, width, most=3)
    assert 1 <= len(lines) <= 3
    assert all(columns(line) <= width for line in lines)


@given(st.text(st.sampled_from("ab \u65e5"), max_size=60))
def test_wrapping_keeps_all_words_if_they_fit(text: str):
    assert "".join(Look().wrap(text, 9, most=99)).replace(" ", "") == text.replace(" ", "")


def test_cut_text_ends_with_an_ellipsis():
    assert Look().cut("abcdefgh", 5) == "abcd…"
    assert Look(unicode=False).cut("abcdefgh", 5) == "ab..."
    assert Look().cut("日本語日本語", 7) == "日本語…"
    assert Look().wrap("one two three four five six", 9, most=2) == ["one two", "three…"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "env", "wanted"),
    [
        (Terminal(), {}, True),
        (io.StringIO(), {}, False),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": "0"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
        (io.StringIO(), {"FORCE_COLOR": "0"}, False),
        (io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_color_follows_the_stream_and_the_environment(stream: io.StringIO, env: dict[str, str], wanted: bool):
    assert wants_color(stream, env) is wanted


def test_closed_stream_has_no_color():
    stream = io.StringIO()
    stream.close()
    assert not wants_color(stream, {})


@pytest.mark.parametrize(
    ("encoding", "able"), [("utf-8", True), ("ascii", False), ("latin-1", False), ("cp1252", False)]
)
def test_unicode_marks_need_an_encoding_that_supports_them(encoding: str, able: bool):
    assert can_print_unicode(io.TextIOWrapper(io.BytesIO(), encoding=encoding)) is able
