from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentv.targets.providers.cli_template import CommandTemplate

NASTY = [
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned;",
    "'; touch pwned; '",
    '" && touch pwned "',
    "a\nb\ttouch pwned\n",
    "{EVAL_ID} {FILES} ${HOME} $HOME %s \\n \\",
    "-rf * ~ # !x",
    "ünïcödé \u2028 🎉",
    "",
]


def values(prompt: str) -> dict[str, str]:
    return {"PROMPT": prompt, "EVAL_ID": "the id", "ATTEMPT": "2", "GUIDELINES": "", "OUTPUT_FILE": "/o"}


@pytest.mark.parametrize("prompt", NASTY)
def test_values_reach_argv_untouched(prompt):
    template = CommandTemplate.parse("tool --q={PROMPT} '{PROMPT}' x{EVAL_ID}{ATTEMPT}y", by_shell=False)
    assert template.argv(values(prompt), ()) == ["tool", f"--q={prompt}", prompt, "xthe id2y"]


@pytest.mark.parametrize("prompt", NASTY)
@pytest.mark.parametrize(
    "command",
    [
        "printf '%s\\0' {PROMPT} {EVAL_ID}",
        "printf '%s\\0' \"{PROMPT}\" '{EVAL_ID}'",
        "# it's a comment\nprintf '%s\\0' {PROMPT} '{EVAL_ID}' # isn't it",
        "X=$(printf '%s.' {PROMPT}); printf '%s\\0' \"${X%.}\" {EVAL_ID}",
    ],
)
def test_a_shell_sees_values_as_text(prompt, command, tmp_path):
    template = CommandTemplate.parse(command, by_shell=True)
    argv = template.argv(values(prompt), ())
    printed = subprocess.run(argv, capture_output=True, check=True, cwd=tmp_path)
    assert printed.stdout.decode() == f"{prompt}\0the id\0"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        'echo "say {PROMPT}"',
        "sh -c 'echo {PROMPT}'",
        "echo `echo {PROMPT}`",
        'echo "$(echo {PROMPT})"',
        "cat <<EOF\n{PROMPT}\nEOF\n",
        "cat <<EOF\n'{PROMPT}'\nEOF\n",
        "# don't\necho '{PROMPT} x' # it's",
    ],
)
def test_a_placeholder_inside_quotes_is_rejected(command):
    with pytest.raises(ValueError, match="without quotes: agentv quotes it"):
        CommandTemplate.parse(command, by_shell=True)


def test_ansi_quotes_with_placeholders_are_rejected():
    with pytest.raises(ValueError, match="plain quotes"):
        CommandTemplate.parse("echo $'it\\'s' {PROMPT} '", by_shell=True)


def test_an_unclosed_quote_is_rejected():
    with pytest.raises(ValueError, match="not closed"):
        CommandTemplate.parse("echo 'x {PROMPT}", by_shell=True)


def test_files_become_separate_words():
    files = [Path("/a/b c.txt"), Path("/a/$(x).md")]
    plain = CommandTemplate.parse(["tool", "{FILES}", "all:{FILES}"], by_shell=False)
    assert plain.argv(values(""), files) == [
        "tool",
        "/a/b c.txt",
        "/a/$(x).md",
        "all:/a/b c.txt /a/$(x).md",
    ]
    assert plain.argv(values(""), ()) == ["tool", "all:"]
    formatted = CommandTemplate.parse(["tool", "{FILES}"], by_shell=False, files_format="--file {path} as={basename}")
    assert formatted.argv(values(""), files[:1]) == ["tool", "--file", "/a/b c.txt", "as=b c.txt"]
    shell = CommandTemplate.parse("tool {FILES}", by_shell=True, files_format="--file={path}")
    assert shell.argv(values(""), files)[2] == "tool '--file=/a/b c.txt' '--file=/a/$(x).md'"


def test_an_unknown_placeholder_is_rejected_with_the_available_ones():
    for command, by_shell in ((["x", "a{PROMT}"], False), ("x {PROMT}", False), ("x {PROMT}", True)):
        with pytest.raises(ValueError, match=r"unknown placeholder \{PROMT\}; available: \{PROMPT\}, \{PROMPT_FILE\}"):
            CommandTemplate.parse(command, by_shell=by_shell)
    with pytest.raises(ValueError, match=r"\{path\} and \{basename\}"):
        CommandTemplate.parse(["x"], by_shell=False, files_format="{file}")


def test_text_that_is_not_a_placeholder_is_unchanged():
    template = CommandTemplate.parse(["x", "{}", '{"A": 1}', "{lower}", "${HOME}"], by_shell=False)
    assert template.argv(values("p"), ()) == ["x", "{}", '{"A": 1}', "{lower}", "${HOME}"]
    assert CommandTemplate.parse("echo ${HOME}", by_shell=True).argv(values("p"), ())[2] == "echo ${HOME}"


def test_shell_operators_without_a_shell_are_rejected():
    with pytest.raises(ValueError, match=r"`\|` needs a shell.*`shell: true`.*\[sh, -c"):
        CommandTemplate.parse("tool {PROMPT} | tee log", by_shell=False)


@pytest.mark.parametrize(("command", "by_shell"), [("", False), ([], False), ([""], False), ("  ", True)])
def test_an_empty_command_is_rejected(command, by_shell):
    with pytest.raises(ValueError, match="empty"):
        CommandTemplate.parse(command, by_shell=by_shell)


def test_a_list_with_a_shell_is_rejected():
    with pytest.raises(ValueError, match="must be a string, got a list"):
        CommandTemplate.parse(["a"], by_shell=True)


def test_python_is_the_interpreter_that_runs_agentv():
    assert CommandTemplate.parse("python x.py", by_shell=False).argv(values(""), ()) == [
        sys.executable,
        "x.py",
    ]
    assert CommandTemplate.parse("python3 x.py | cat", by_shell=True).argv(values(""), ())[2] == (
        f"{sys.executable} x.py | cat"
    )
    assert CommandTemplate.parse("pythonic x", by_shell=True).argv(values(""), ())[2] == "pythonic x"
