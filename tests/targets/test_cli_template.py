from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import which

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


SHELLS = [
    pytest.param(name, marks=pytest.mark.skipif(not which(name), reason=f"needs {name}")) for name in ("dash", "bash")
]
SAFE = [
    "printf '%s\\0' {PROMPT} {EVAL_ID}",
    "printf '%s\\0' \"{PROMPT}\" '{EVAL_ID}'",
    "# it's a comment with {PROMPT}\nprintf '%s\\0' {PROMPT} '{EVAL_ID}' # isn't it",
    "X=$(printf '%s.' {PROMPT}); printf '%s\\0' \"${X%.}\" {EVAL_ID}",
    'X="$(printf "%s." "{PROMPT}")"; printf "%s\\0" "${X%.}" {EVAL_ID}',
    'X="`printf "%s." "{PROMPT}"`"; printf "%s\\0" "${X%.}" {EVAL_ID}',
    'X="$(printf "%s." "$(printf "%s." "{PROMPT}")")"; printf "%s\\0" "${X%..}" {EVAL_ID}',
    'printf "%s\\0" "${NOT_SET:-"{PROMPT}"}" "${NOT_SET-{EVAL_ID}}"',
    "printf '%s\\0' ${NOT_SET:-{PROMPT}} {EVAL_ID}",
    "printf '%s\\0' \"it's ok\" >/dev/null; printf '%s\\0' {PROMPT} \"{EVAL_ID}\"",
    "X=a{PROMPT}; printf '%s\\0' \"${X#a}\" {EVAL_ID}",
    "X={PROMPT}y; printf '%s\\0' \"${X%y}\" {EVAL_ID}",
    "X=$(cat <<EOF\n{PROMPT}.\nEOF\n)\nprintf '%s\\0' \"${X%.}\" {EVAL_ID}",
    "f() { printf '%s\\0' \"$1\" {EVAL_ID}; }; f {PROMPT}",
    "case {PROMPT} in x) ;; *) printf '%s\\0' {PROMPT} {EVAL_ID} ;; esac",
    "if [ -n x{PROMPT} ]; then (printf '%s\\0' {PROMPT} {EVAL_ID}); fi",
    'sh -c \'printf "%s\\0" "$1" "$2"\' sh {PROMPT} {EVAL_ID}',
    'sh -c \'printf "%s\\0" "$AGENTV_PROMPT" "$1"\' sh {EVAL_ID}',
    'printf \'%s\\0\' "$AGENTV_PROMPT" "$AGENTV_EVAL_ID"',
    "printf '%s\\0' {PROMPT} $((1 + {ATTEMPT})) >/dev/null; printf '%s\\0' {PROMPT} {EVAL_ID} 2>&1 | cat",
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("command", SAFE)
def test_a_shell_gets_values_as_variables_at_any_depth_of_quotes(shell, command, tmp_path):
    template = CommandTemplate.parse(command, by_shell=True)
    for prompt in NASTY:
        (_, option, script), environment = template.argv(values(prompt), ()), template.variables(values(prompt), ())
        assert "pwned" not in script
        printed = subprocess.run(
            [shell, option, script], capture_output=True, check=True, cwd=tmp_path, env={**os.environ, **environment}
        )
        assert printed.stdout.decode() == f"{prompt}\0the id\0"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo 'say {PROMPT}'", "single quotes, where a shell expands nothing; use double quotes or none"),
        ("sh -c 'echo {PROMPT}'", r"in code for another program the variable \$AGENTV_PROMPT"),
        ("cat <<'EOF'\n{PROMPT}\nEOF\n", "write <<EOF without quotes"),
        ("cat <<EOF\n{PROMPT}\n", "there is no line EOF"),
        ("cat <<EOF\n{PROMPT}\\\nEOF\n", "backslash at the end of a line"),
        ("echo $'it\\'s' {PROMPT} '", "plain quotes"),
        ('echo $"x" {PROMPT}', "plain quotes"),
        ("echo 'x {PROMPT}", "not closed"),
        ('echo "x {PROMPT}', "not closed"),
        ("echo `x {PROMPT}", "not closed"),
        ('echo "$(x {PROMPT}"', "not closed|missing"),
        ("echo {PROMPT} )", r"`\)` without"),
        ("echo \\{PROMPT}", "backslash before {PROMPT}"),
        ("echo `echo \\`echo {PROMPT}\\``", r"write `\$\(...\)` instead"),
        ("echo $(( {PROMPT} ))", r"only {ATTEMPT}, which is a number"),
        ("echo $[ {ATTEMPT} ]", "cannot be used together"),
        ("(( {ATTEMPT} ))", "cannot be used together"),
        ("[[ {PROMPT} -eq 1 ]]", "evaluates it"),
        ("echo ${X:{PROMPT}:1}", "does not understand"),
        ("echo ${X/a/{PROMPT}}", "does not understand"),
        ("echo \"${X:-'{PROMPT}'}\"", "different shells"),
        ("diff <(echo {PROMPT}) x", "use a pipe or a file"),
        ("echo $(case x in x) echo {PROMPT};; esac)", "`case` inside"),
        ("eval echo {PROMPT}", "`eval` cannot be used"),
        ('X={PROMPT}; eval "$X"', "`eval` cannot be used"),
        ('sh -c "echo {PROMPT}"', r"""code of `sh -c`.*like `sh -c 'tool "\$1"' sh {PROMPT}`"""),
        ('X={PROMPT}; sh -c "echo $X"', "code of `sh -c`"),
        ('sh -c "echo $AGENTV_PROMPT"', "code of `sh -c`"),
        ('bash -eo pipefail -lc "echo $(cat {PROMPT_FILE})"', "code of `bash -lc`"),
        ('timeout 5 env A=b /bin/bash -c "echo {PROMPT}"', "code of `bash -c`"),
        ('docker exec box sh -c "echo {PROMPT}"', "code of `sh -c`"),
        ('my-runner --in box bash -c "echo {PROMPT}"', "code of"),
        ('"$SHELL" -c "echo {PROMPT}"', "code of `-c`"),
        ('.venv/bin/python3.12 -c "print({PROMPT})"', "code of `python3.12 -c`"),
        ('perl -pe "s/x/{PROMPT}/"', "code of `perl -pe`"),
        ('node -e "{PROMPT}"', "code of `node -e`"),
        ("node --eval={PROMPT}", "cannot tell"),
        ("python --odd x {PROMPT}", "cannot tell"),
        ("bash {PROMPT}", "cannot tell"),
        ('sed "s/x/{PROMPT}/"', "code of `sed`"),
        ('awk "{PROMPT}" file', "code of `awk`"),
        ('jq "{PROMPT}"', r"--arg q {PROMPT} '\$q'"),
        ('psql -c "select {PROMPT}"', "code of `psql -c`"),
        ("echo {PROMPT} | sh", "reads its code from stdin"),
        ("sh <<EOF\n{PROMPT}\nEOF\n", "reads its code from stdin"),
        ("echo {PROMPT} | xargs -I% sh -c 'echo %'", "leave out -I"),
        ('echo {PROMPT} | xargs -I% sh -c "echo {EVAL_ID}"', "leave out -I"),
        ("echo {PROMPT} | parallel", "runs what it reads"),
        ("alias x=eval\nx {PROMPT}", "`alias` cannot be used"),
        ("ssh host agent {PROMPT}", "argument of `ssh`, which parses it again"),
        ("make answer Q={PROMPT}", "argument of `make`"),
        ("trap {PROMPT} EXIT", "argument of `trap`"),
        ("{PROMPT} x", "would choose what runs"),
        ("nohup {PROMPT}", "would choose what runs"),
        ("printf {PROMPT}", "write `printf '%s' {PROMPT}`"),
        ("[ {PROMPT} {EVAL_ID} ]", "for an operator"),
        ("export {PROMPT}", "NAME={PROMPT}"),
    ],
)
def test_a_placeholder_whose_value_could_run_is_rejected(command, reason):
    with pytest.raises(ValueError, match=reason):
        CommandTemplate.parse(command, by_shell=True)


@pytest.mark.parametrize(
    "command",
    [
        "python app.py -c {PROMPT}",
        "python -m app -c {PROMPT}",
        "uv run python app.py {PROMPT}",
        "my-agent --language python {PROMPT}",
        "npx tsx agent.ts {PROMPT}",
        "./make {PROMPT}",
        "timeout 60 my-agent {PROMPT} > {OUTPUT_FILE} 2>agent.log",
        "jq -n --arg q {PROMPT} '$q'",
        "awk -v q={PROMPT} '{ print q }'",
        "sed -n 1p {PROMPT_FILE}",
        'tool --json "{\\"a\\": 1}" {PROMPT}',
        "ssh host agent < {PROMPT_FILE}",
        "tool ${HOME} $HOME ${#HOME} ${HOME%/} {PROMPT}",
    ],
)
def test_ordinary_commands_with_placeholders_are_accepted(command):
    assert CommandTemplate.parse(command, by_shell=True).names


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "echo {PROMPT}"],
        ["python", "-c", "print('{PROMPT}')"],
        ["env", "bash", "-lc", "agent {EVAL_ID}"],
        ["ssh", "host", "agent", "{PROMPT}"],
        ["{PROMPT}"],
    ],
)
def test_a_placeholder_in_code_is_rejected_without_a_shell_too(command):
    with pytest.raises(ValueError, match=r"code of|parses it again|choose what runs"):
        CommandTemplate.parse(command, by_shell=False)
    assert CommandTemplate.parse(["sh", "-c", 'agent "$1"', "sh", "{PROMPT}"], by_shell=False)


def test_code_without_a_shell_can_read_the_variables():
    template = CommandTemplate.parse(["sh", "-c", 'agent "$AGENTV_PROMPT" $AGENTV_FILES'], by_shell=False)
    files = [Path("/a"), Path("/b c")]
    assert template.variables(values("x"), files) == {
        "AGENTV_PROMPT": "x",
        "AGENTV_FILES": "/a /b c",
        "AGENTV_FILES_1": "/a",
        "AGENTV_FILES_2": "/b c",
    }
    assert CommandTemplate.parse(["agent", "{PROMPT}"], by_shell=False).variables(values("x"), files) == {}


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
    assert shell.argv(values(""), files)[2] == 'tool "${AGENTV_FILES_1}" "${AGENTV_FILES_2}"'
    assert shell.variables(values(""), files) == {
        "AGENTV_FILES": "--file=/a/b c.txt --file=/a/$(x).md",
        "AGENTV_FILES_1": "--file=/a/b c.txt",
        "AGENTV_FILES_2": "--file=/a/$(x).md",
    }
    several = CommandTemplate.parse('tool "{FILES}" "all {FILES}" f={FILES} >{FILES}', by_shell=True)
    assert several.argv(values(""), files)[2] == (
        'tool "${AGENTV_FILES_1}" "${AGENTV_FILES_2}" "all ${AGENTV_FILES}" f="${AGENTV_FILES}" >"${AGENTV_FILES}"'
    )
    assert CommandTemplate.parse("tool {FILES}", by_shell=True).argv(values(""), ())[2] == "tool "


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
