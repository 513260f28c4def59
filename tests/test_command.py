from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from agentv.command import split_command, with_own_python

FINE = [
    "one two  three",
    "a 'b c' \"d e\"f",
    r"a\ b \\ \' \"",
    r'"x\"y\\z\n\q"',
    "'' a \"\"",
    "a\\\nb c",
    "--pattern ^a$ 'awk {print $1 | x}' --x='$(no)' \\$HOME \\; \\|",
    '"\\$(no)" \'`no`\' "\\`no\\`"',
    "  padded\t ",
]


@pytest.mark.parametrize("text", FINE)
def test_words_are_split_as_by_a_shell(text):
    printed = subprocess.run(["/bin/sh", "-c", f"printf '%s\\0' {text}"], capture_output=True, check=True, text=True)
    assert split_command(text) == printed.stdout.split("\0")[:-1]


@pytest.mark.parametrize(
    "text",
    [
        "a | b",
        "a && b",
        "a; b",
        "a & b",
        "a > f",
        "a < f",
        "a $(b)",
        'a "$(b)"',
        "a `b`",
        'a "x`b`"',
        "(a)",
        "a\nb",
    ],
)
def test_shell_syntax_is_rejected(text):
    with pytest.raises(ValueError, match="needs a shell"):
        split_command(text)


@pytest.mark.parametrize(
    ("text", "message"), [("a 'b", "single quote"), ('a "b', "double quote"), ("a \\", "backslash")]
)
def test_unclosed_quotes_are_rejected(text, message):
    with pytest.raises(ValueError, match=message):
        split_command(text)


def test_variables_are_not_expanded():
    assert split_command('echo $HOME "${HOME}"') == ["echo", "$HOME", "${HOME}"]


def test_shlex_quoting_is_understood():
    words = ["a b", "it's", 'say "x"', "$(rm)", "new\nline", "", "back\\slash", "{PROMPT}"]
    assert split_command(shlex.join(words)) == words


def test_python_is_replaced_by_the_current_interpreter():
    assert with_own_python(["python", "x.py"]) == [sys.executable, "x.py"]
    assert with_own_python(["python3", "python"]) == [sys.executable, "python"]
    assert with_own_python(["/usr/bin/python3"]) == ["/usr/bin/python3"]
