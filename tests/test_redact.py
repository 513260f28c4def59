"""Secret values are masked in every encoding in which they are likely to appear."""

from __future__ import annotations

import base64
import html
import json
import random
import secrets
import string
import time
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentv.redact import MASK, NO_SECRETS, WINDOW, Redactor

KEY = "sk-proj-A1b2/C3d4+E5f6=G7h8"
AWKWARD = [
    KEY,
    "plainletters",
    "a.b*c[d]e(f)g{h}|^$?+",
    "quotes \"and' back\\slashes\\",
    "tabs\tand\nnew\r\nlines inside",
    "pässwörd-ключ-鍵-🔑🗝️",
    "\\\\\\\\\\\\\\\\",
    'C:\\new\\\n\\"table\\\\é',
    "-----dashes-first",
    "%41%42%43%44",
    "ends in space and more",
    "++++////====",
    "user:pa ss@host/?q=1&r=<2>",
]


def percent_spellings(value: str) -> list[str]:
    spelled = [
        urllib.parse.quote(value, safe=""),
        urllib.parse.quote(value),
        urllib.parse.quote_plus(value),
        urllib.parse.quote(value, safe="!'()*~-._"),
        urllib.parse.urlencode({"k": value})[2:],
    ]
    lower = ["".join(p.lower() if p[:1] == "%" else p for p in _percent_parts(s)) for s in spelled]
    return spelled + lower


def _percent_parts(text: str) -> list[str]:
    parts, i = [], 0
    while i < len(text):
        width = 3 if text[i] == "%" else 1
        parts.append(text[i : i + width])
        i += width
    return parts


def escaped_spellings(value: str) -> list[str]:
    once = [
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
        ascii(value)[1:-1],
        repr(value.encode())[2:-1],
        json.dumps(value)[1:-1].replace("/", "\\/"),
    ]
    twice = [json.dumps(s, ensure_ascii=False)[1:-1] for s in once]
    return once + twice + [json.dumps(s)[1:-1] for s in twice]


@pytest.mark.parametrize("secret", AWKWARD)
def test_secret_is_masked_in_every_text_encoding(secret: str):
    redactor = Redactor([secret])
    for spelled in [secret, *percent_spellings(secret), *escaped_spellings(secret)]:
        assert redactor.text(f"before<{spelled}>after") == f"before<{MASK}>after", spelled


@pytest.mark.parametrize("secret", AWKWARD)
@pytest.mark.parametrize("before", [b"", b"x", b"ab", b"abc", b"user:", b"Authorization: "])
@pytest.mark.parametrize("after", [b"", b"y", b"yz", b"\n", b"!! tail 0123456789"])
def test_secret_is_masked_inside_base64_at_every_alignment(secret: str, before: bytes, after: bytes):
    redactor = Redactor([secret])
    whole = before + secret.encode() + after
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        encoded = encode(whole).decode()
        for text in (encoded, encoded.rstrip("="), urllib.parse.quote(encoded, safe="")):
            masked = redactor.text(f"({text})")
            assert MASK in masked, text
            assert not _decodes_to_part_of(masked, secret)


def _decodes_to_part_of(masked: str, secret: str) -> bool:
    """Whether any base64 left in the text still contains four consecutive bytes of the secret."""
    data = secret.encode()
    chunks = [data[i : i + 4] for i in range(len(data) - 3)]
    pieces = urllib.parse.unquote(masked[1:-1]).replace("-", "+").replace("_", "/").split(MASK)
    for piece in pieces:
        for skip in range(4):
            cut = piece.rstrip("=")[skip:]
            cut = cut[: len(cut) // 4 * 4]
            if any(chunk in base64.b64decode(cut) for chunk in chunks):
                return True
    return False


# -- escapes of any subset of characters

ESCAPES: dict[str, Callable[[str], str]] = {
    "percent": lambda char: "".join(f"%{byte:02X}" for byte in char.encode()),
    "percent, lower case": lambda char: "".join(f"%{byte:02x}" for byte in char.encode()),
    "percent, twice": lambda char: "".join(f"%25{byte:02x}" for byte in char.encode()),
    "json": lambda char: json.dumps(char)[1:-1] if ord(char) > 0xFFFF else f"\\u{ord(char):04x}",
    "json, twice": lambda char: json.dumps(ESCAPES["json"](char))[1:-1],
    "javascript": lambda char: f"\\u{{{ord(char):X}}}",
    "python": lambda char: f"\\U{ord(char):08x}",
    "decimal entity": lambda char: f"&#{ord(char)};",
    "padded entity": lambda char: f"&#{ord(char):020d};",
    "hexadecimal entity": lambda char: f"&#x{ord(char):x};",
    "padded hexadecimal entity": lambda char: f"&#X{ord(char):08X};",
    "escaped entity": lambda char: f"&amp;#{ord(char)};",
    "entity in json": lambda char: f"\\u0026#{ord(char)};",
    "percent-encoded entity": lambda char: f"%26%23{ord(char)}%3B",
}


SYNTAX = {
    "percent": "%",
    "percent, lower case": "%",
    "percent, twice": "%",
    "json": "\\",
    "json, twice": "\\",
    "javascript": "\\",
    "python": "\\",
    "decimal entity": "&",
    "padded entity": "&",
    "hexadecimal entity": "&",
    "padded hexadecimal entity": "&",
}
"""Characters that must be escaped, so that the escapes are unambiguous; for the others, those of all kinds."""


@pytest.mark.parametrize("secret", AWKWARD)
@pytest.mark.parametrize("escape", ESCAPES)
def test_secret_with_any_escaped_characters_is_masked(secret: str, escape: str):
    redactor, choose = Redactor([secret]), random.Random(f"{secret} {escape}")
    for share in (1.0, 0.9, 0.5, 0.1):
        syntax = SYNTAX.get(escape, "%&\\")
        picked = [char in syntax or choose.random() < share for char in secret]
        picked[choose.randrange(len(picked))] = True
        spelled = "".join(ESCAPES[escape](char) if pick else char for char, pick in zip(secret, picked, strict=True))
        assert redactor.text(f"before<{spelled}>after") == f"before<{MASK}>after", spelled
        assert redactor.value({"reply": [spelled]}) == {"reply": [MASK]}, spelled


def test_secret_in_mixed_escapes_is_masked():
    redactor, choose = Redactor([KEY]), random.Random(3)
    kinds: list[Callable[[str], str]] = [*ESCAPES.values(), str]
    for _ in range(300):
        spelled = "".join(choose.choice(kinds)(char) for char in KEY)
        assert redactor.text(f"<{spelled}>") == f"<{MASK}>", spelled


def test_secret_in_named_entities_is_masked():
    secret = "a/b+c=d_e#f%g&h<i>j'k"
    named = "a&sol;b&plus;c&equals;d&lowbar;e&num;f&percnt;g&amp;h&lt;i&gt;j&apos;k"
    assert Redactor([secret]).text(f"({named})") == f"({MASK})"
    for text in (html.escape(secret), html.escape(html.escape(secret)), secret.replace("<", "&lt")):
        assert Redactor([secret]).text(f"({text})") == f"({MASK})"


def test_entity_without_a_semicolon_is_masked():
    assert Redactor(["sk-live-abcdef"]).text("<&#115k-&#x6Cive-abcdef>") == f"<{MASK}>"


def test_escapes_around_a_secret_are_unchanged():
    text = f"a%20b%2Fc \\u00e9\\n &lt;{KEY}&gt; 100% &amp; \\\\server\\path %zz %4"
    assert Redactor([KEY]).text(text) == text.replace(KEY, MASK)


def test_escaped_text_without_a_secret_is_unchanged():
    text = json.dumps({"a": "%41%42", "b": "\\u0041 &amp;#65; &sol; \n", "c": base64.b64encode(b"x" * 60).decode()})
    assert Redactor([KEY]).text(text) is text


def test_secret_that_contains_escapes_is_masked_when_other_characters_are_escaped():
    secret = "pa%40ss/w%20rd&amp;key"
    assert Redactor([secret]).text(secret.replace("/", "\\/")) == MASK
    assert Redactor([secret]).text(secret.replace("s", "%73")) == MASK


@pytest.mark.parametrize("escape", ["percent", "json", "decimal entity", "hexadecimal entity", "percent, twice"])
def test_escaped_fragment_at_a_truncated_edge_is_masked(escape: str):
    redactor, spelled = Redactor([KEY]), "".join(map(ESCAPES[escape], KEY))
    width = len(spelled) // len(KEY)
    for kept in range(8 * width, len(spelled)):
        tail = redactor.tail(spelled[-kept:] + " and more", 1000, cut_start=True)
        head = redactor.head("say " + spelled[:kept], 1000, cut_end=True)
        assert tail == f"{MASK} and more"
        assert head == f"say {MASK}"


def test_secret_across_the_searched_part_of_a_long_text_is_masked():
    redactor, filler = Redactor([KEY]), "x" * 100
    for spelled in (KEY, "".join(map(ESCAPES["percent"], KEY))):
        text = filler + spelled * 5000 + filler
        assert redactor.head(text, 2000) == filler + MASK * 190
        assert redactor.tail(text, 2000) == MASK * 190 + filler


@pytest.mark.parametrize("filler", ["x", "é", "%41", "\n", "🔑"])
def test_secret_anywhere_in_a_long_text_is_masked(filler: str):
    """Long text is searched in parts, so the secret is placed at and around their edges."""
    redactor = Redactor([KEY])
    for spelled in (KEY, "".join(map(ESCAPES["decimal entity"], KEY)), base64.b64encode(KEY.encode()).decode()):
        text = "".join(filler * (WINDOW // len(filler) - 1 - 10 * n) + f"<{spelled}>" for n in range(5)) + filler
        masked = redactor.text(text)
        assert masked == text.replace(spelled, MASK)
        assert masked.count(MASK) == 5


@pytest.mark.parametrize(
    "piece",
    ["%41", "%2541", "%25", "\\u0041", "\\", "\\\\u0041", "&#65;", "&#x41;", "&#0", "&amp;", "&", "%", "a\n", "QUFB\n"],
)
def test_masking_time_grows_linearly_with_escapes(piece: str):
    redactor = Redactor([KEY, "A" * 40 + "b", "0" * 30, "\\" * 30 + "x"])
    redactor.text(f"{KEY}%41")

    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        started = time.process_time()
        redactor.text(text)
        return time.process_time() - started

    small, large = min(seconds(50_000) for _ in range(3)), seconds(800_000)
    assert large < 16 * 6 * max(small, 0.001)


def test_base64_without_a_secret_is_unchanged():
    text = base64.b64encode(b"something else entirely, and quite long").decode()
    assert Redactor([KEY]).text(text) is text


def test_secret_is_masked_inside_wrapped_base64():
    secret = "sk-proj-" + "Zx9" * 50
    redactor = Redactor([secret])
    for whole in (secret, f"a{secret}b", f"user:{secret}@host"):
        wrapped = base64.encodebytes(whole.encode()).decode()
        for text in (wrapped, wrapped.replace("\n", "\r\n"), json.dumps(wrapped)):
            masked = redactor.text(text)
            assert masked.count(MASK) == 1
            assert len(masked) < len(MASK) + 30


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    secret=st.text(min_size=8, max_size=40).filter(lambda s: len(s.strip()) >= 8 and s not in MASK),
    before=st.text(max_size=9),
    after=st.text(max_size=9),
)
def test_unicode_secret_is_masked_raw_escaped_and_encoded(secret: str, before: str, after: str):
    redactor, core = Redactor([secret]), secret.strip()
    whole = before + secret + after
    assert core not in redactor.text(whole).replace(MASK, "\0")
    assert MASK in redactor.text(json.dumps(whole))
    assert MASK in redactor.text(repr(whole))
    assert MASK in redactor.text(urllib.parse.quote(whole))
    assert MASK in redactor.text(base64.b64encode(whole.encode()).decode())


def test_values_under_eight_characters_are_not_masked():
    redactor = Redactor(["1234567", "", "yes"])
    assert not redactor.active
    assert redactor.text("1234567 yes") == "1234567 yes"
    assert Redactor(["12345678"]).text("12345678") == MASK


def test_whitespace_around_a_secret_is_ignored():
    assert Redactor([f"  {KEY}\n"]).text(f"Bearer {KEY}.") == f"Bearer {MASK}."


def test_longer_secret_is_masked_completely():
    redactor = Redactor(["abcdefgh", "abcdefghijklmnop", "cdefghij"])
    assert redactor.text("<abcdefghijklmnop>") == f"<{MASK}>"


def test_overlapping_secrets_are_masked_completely():
    redactor = Redactor(["abcdefgh12345678", "12345678ijklmnop"])
    assert redactor.text("<abcdefgh12345678ijklmnop>") == f"<{MASK}>"
    assert redactor.text("abcdefgh12345678|12345678ijklmnop") == f"{MASK}|{MASK}"


def test_each_line_of_a_multi_line_secret_is_masked():
    lines = [secrets.token_urlsafe(48) for _ in range(4)]
    pem = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"])
    redactor = Redactor([pem])
    assert redactor.text(f"a {pem} b") == f"a {MASK} b"
    assert redactor.text(f"line: {lines[2]}!") == f"line: {MASK}!"
    assert redactor.text("-----BEGIN PRIVATE KEY-----") == "-----BEGIN PRIVATE KEY-----"
    assert not any(line in redactor.text(pem.replace("\n", "\r\n")) for line in lines)


def test_secrets_in_a_nested_value_are_masked_and_the_rest_is_unchanged():
    value = {"a": [1, None, True, 2.5, ("x", f"k={KEY}")], f"{KEY}": {"deep": [KEY]}, "same": {"b": "c"}}
    masked = Redactor([KEY]).value(value)
    assert masked == {
        "a": [1, None, True, 2.5, ("x", f"k={MASK}")],
        MASK: {"deep": [MASK]},
        "same": {"b": "c"},
    }
    assert masked["same"] is value["same"]
    assert KEY in value


def test_value_without_secrets_is_returned_as_is():
    value = {"a": [1, {"b": ("c", "d")}], "n": 12345678}
    assert Redactor([KEY, "12345678"]).value(value) is value
    assert NO_SECRETS.value(value) is value


def test_keys_with_the_same_mask_are_both_kept():
    masked = Redactor([KEY, "another-secret"]).value({KEY: 1, "another-secret": 2})
    assert masked == {MASK: 1, f"{MASK} (2)": 2}


def test_deeply_nested_value_is_omitted_without_crashing():
    value: object = KEY
    for _ in range(5000):
        value = [value]
    assert KEY not in repr(Redactor([KEY]).value(value))


def test_text_is_masked_before_it_is_truncated():
    redactor = Redactor([KEY])
    text = f"0123456789{KEY}abcdef"
    for length in range(len(text) + 5):
        for cut in (redactor.head(text, length), redactor.tail(text, length)):
            assert len(cut) <= max(length, 0)
            rest = cut.replace(MASK, "")
            assert set(rest) <= set("0123456789abcdef")
            assert "[" not in rest
            assert "]" not in rest
            assert not any(KEY[i : i + 4] in rest for i in range(len(KEY) - 3))
    assert redactor.head(text, 20) == f"0123456789{MASK}"
    assert redactor.tail(text, 16) == f"{MASK}abcdef"
    assert redactor.tail(text, 0) == redactor.head(text, 0) == ""


@pytest.mark.parametrize("encode", [lambda s: s, lambda s: base64.b64encode(s.encode()).decode()])
def test_secret_fragment_at_a_truncated_edge_is_masked(encode):
    redactor, spelled = Redactor([KEY]), encode(KEY)
    for kept in range(8, len(spelled)):
        tail = redactor.tail(spelled[-kept:] + " and more", 1000, cut_start=True)
        head = redactor.text("say " + spelled[:kept], cut_end=True)
        assert tail.endswith(" and more")
        assert head.startswith("say ")
        assert not any(spelled[i : i + 8] in tail + head for i in range(len(spelled) - 7))
    assert redactor.text("untouched", cut_start=True, cut_end=True) == "untouched"


def test_repr_of_a_redactor_hides_its_secrets():
    assert KEY not in repr(Redactor([KEY]))
    assert "1" in repr(Redactor([KEY]))


def test_mask_is_never_a_secret():
    redactor = Redactor(["redacted", MASK, KEY])
    assert redactor.text(redactor.text(KEY)) == MASK


@pytest.mark.parametrize("character", ["a", "\\", "%2", "+", "s", '\\"', "\\" * 16 + '"', "\\" * 20 + "n"])
def test_masking_a_megabyte_with_twenty_secrets_is_fast(character: str):
    letters, choose = string.ascii_letters + string.digits, random.Random(7)
    values = ["".join(choose.choices(letters + '\\"%+/-', k=40)) for _ in range(16)]
    awkward = ["\\" * 20 + "X", '\\"' * 10 + "X", '"\\\n' * 9 + "X", "a" * 30 + "b", "%2" * 15 + "x"]
    redactor = Redactor([*values, *awkward])
    text = character * (1_000_000 // len(character))
    redactor.text(values[0])
    started = time.process_time()
    redactor.text(text)
    assert time.process_time() - started < 20
