"""Values of a case never run as code in the command of a `cli` target, however its template is written."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from shutil import which

import pytest

from agentv.targets.providers.cli_template import CommandTemplate
from tests.conftest import Project

CANARY = "touch canary"
PROMPTS = [
    f"$({CANARY})",
    f"`{CANARY}`",
    f"; {CANARY};",
    f"'; {CANARY}; '",
    f'"; {CANARY}; "',
    f"')\"; {CANARY}; (\"'",
    f"\\$({CANARY})\\",
    f"a[$({CANARY})]",
    f"x\nE\n{CANARY}\nE",
    f"}}; {CANARY}; {{",
    f"() {{ :;}}; {CANARY}",
    f"$(( $({CANARY}) ))",
    f"${{X:-$({CANARY})}}",
    f"\n{CANARY}\n",
    f"&& {CANARY} #",
    f"__import__('os').system('{CANARY}')",
    "* ~ $HOME {EVAL_ID} %s \\n  two  spaces",
    "-c",
    "",
]
SHELLS = [name for name in ("dash", "bash") if which(name)]
TOKENS = [
    *(
        '"',
        '"',
        "'",
        "`",
        "$(",
        ")",
        "(",
        "${X:-",
        "${X",
        "}",
        "\\",
        "$",
        "#",
        ";",
        "|",
        "&",
        "\n",
        "$((",
        "))",
        "[[ ",
        "]]",
    ),
    *(
        " ",
        " ",
        " ",
        "a",
        "X=",
        "-c ",
        "-e ",
        "=",
        "{PROMPT}",
        "{PROMPT}",
        "{PROMPT}",
        "{EVAL_ID}",
        "'{PROMPT}'",
        '"{PROMPT}"',
    ),
    *("echo ", "printf %s ", "sh ", "bash -c ", "eval ", "test ", "let ", "env ", "exec ", "command ", "python3 -c "),
    *("cat <<E\n", "cat <<'E'\n", "\nE\n", "case x in ", "x) ", ";; ", "esac", "if ", "then ", "fi", "unset ", "trap "),
]


def word(pick: random.Random, depth: int, *, quoted: bool = False) -> str:
    """A word with the prompt in it, inside quotes and substitutions. It expands to the prompt and more text."""
    inner = [
        "{PROMPT}",
        "a{PROMPT}b",
        *([] if quoted else ['"{PROMPT}"', "'{PROMPT}'", '"x {PROMPT} it\'s"', "'it''s'{PROMPT}", '\\"{PROMPT}']),
    ]
    if depth == 0:
        return pick.choice(inner)
    below = word(pick, depth - 1)
    outer = [
        f"$(printf %s. {below})" if quoted else f'"$(printf %s. {below})"',
        f'"${{NOT_SET:-{word(pick, depth - 1, quoted=True)}}}"' if not quoted else '${NOT_SET:-"{PROMPT}"}',
        f'"x $(printf %s. "$(printf %s. {below})")"' if not quoted else f"$(printf %s. {below} # no )\n)",
        f"$(cat <<E\n{word(pick, depth - 1, quoted=True)}.\nE\n)" if quoted else f'"$(X={below}; printf %s. "$X")"',
    ]
    if "\\" not in below and "`" not in below:
        outer.append(f"`printf %s. {below}`" if quoted else f'"`printf %s. {below}`"')
    return pick.choice([*inner, *outer])


def run_template(template: CommandTemplate, shell: str, prompt: str, folder: Path) -> bytes:
    """What the command prints. Fails if the prompt ran."""
    values = {"PROMPT": prompt, "EVAL_ID": prompt, "ATTEMPT": "1"}
    (_, option, script), variables = template.argv(values, ()), template.variables(values, ())
    done = subprocess.run(
        [shell, option, script],
        cwd=folder,
        env={"PATH": os.environ["PATH"], **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert list(folder.iterdir()) == [], (script, prompt)
    return done.stdout


def nested(seed: int, folder: Path) -> None:
    """Templates in valid syntax are accepted, and the command gets the prompt unchanged."""
    pick = random.Random(seed)
    template = CommandTemplate.parse(f"printf '%s\\0' {word(pick, pick.randint(0, 3))}; true", by_shell=True)
    prompt = pick.choice(PROMPTS)
    for shell in SHELLS:
        assert prompt.encode() in run_template(template, shell, prompt, folder)


def anything(seed: int, folder: Path) -> bool:
    """Templates in any syntax are rejected, or run without running the prompt. Returns whether it was accepted."""
    pick = random.Random(seed)
    text = "".join(pick.choice(TOKENS) for _ in range(pick.randint(3, 14)))
    try:
        template = CommandTemplate.parse(f"echo {{PROMPT}} {text}", by_shell=True)
    except ValueError:
        return False
    for shell in SHELLS:
        run_template(template, shell, pick.choice(PROMPTS), folder)
    return True


def test_generated_templates_pass_the_prompt_unchanged(tmp_path: Path) -> None:
    for seed in range(150):
        nested(seed, tmp_path)


def test_random_templates_are_rejected_or_do_not_run_the_prompt(tmp_path: Path) -> None:
    accepted = sum(anything(seed, tmp_path) for seed in range(1_500))
    assert accepted > 30


@pytest.mark.soak
def test_many_generated_and_random_templates_do_not_run_the_prompt(tmp_path: Path) -> None:
    for seed in range(10_000, 12_000):
        nested(seed, tmp_path)
    assert sum(anything(seed, tmp_path) for seed in range(10_000, 70_000)) > 1_000


# -- through the command line

QUOTED = {
    "substitution": 'out="$(printf %s "{PROMPT}")"; echo "$out"',
    "backticks": 'out="`printf %s "{PROMPT}"`"; echo "$out"',
    "default": 'printf %s "${NOT_SET:-"{PROMPT}"}"',
    "sentence": 'printf %s "{PROMPT}"',
    "document": "cat <<EOF\n{PROMPT}\nEOF\n",
}


def write_suite(project: Project, prompt: str, **targets: str) -> None:
    settings = {name: {"provider": "cli", "shell": True, "command": command} for name, command in targets.items()}
    project.write("agentv.config.yaml", json.dumps({"targets": settings}))
    case = {"id": "a", "input": prompt, "evaluators": [{"type": "equals", "value": prompt}]}
    project.write("evals/suite.yaml", json.dumps({"evalcases": [case]}))


def test_quoted_placeholders_do_not_run_the_input_of_a_case(project: Project) -> None:
    prompt = f"$({CANARY}) `{CANARY}` \"; {CANARY}; \" '; {CANARY}; ' * \\ {{EVAL_ID}} é"
    write_suite(project, prompt, **QUOTED)
    names = [argument for name in QUOTED for argument in ("--target", name)]
    done = project.run("eval", "evals", *names, env={"AGENTV_PROMPT": "inherited"})
    assert {row["target"]: row["candidate_answer"] for row in project.rows()} == dict.fromkeys(QUOTED, prompt)
    assert done.returncode == 0
    assert list(project.root.rglob("canary")) == []


def test_templates_that_cannot_be_safe_are_rejected_with_file_and_line(project: Project) -> None:
    write_suite(project, "x")
    project.write(
        "agentv.config.yaml",
        """\
        targets:
          single:
            provider: cli
            command_template: "echo 'say {PROMPT}'"
          inner:
            provider: cli
            shell: true
            command: bash -c "agent {PROMPT}"
          listed: {provider: cli, command: [sh, -c, "agent {PROMPT}"]}
        """,
    )
    for command in ("validate", "eval"):
        done = project.run(command, "evals")
        assert done.returncode == 2
        assert "agentv.config.yaml:4:" in done.stderr
        assert "{PROMPT} is inside single quotes, where a shell expands nothing" in done.stderr
        assert "agentv.config.yaml:8:" in done.stderr
        assert "pass the value as an argument" in done.stderr
        assert "agentv.config.yaml:9:" in done.stderr


def test_a_prompt_too_long_for_a_variable_is_an_error_that_names_the_remedy(project: Project) -> None:
    prompt = "long " * 40_000
    write_suite(project, prompt, variable="printf %s {PROMPT}", file="cat {PROMPT_FILE}", stdin="cat")
    done = project.run("eval", "evals", "--target", "variable", "--target", "file", "--target", "stdin")
    rows = {row["target"]: row for row in project.rows()}
    assert "can hold at most 128 KiB" in rows["variable"]["error"]["message"]
    assert "{PROMPT_FILE}" in rows["variable"]["error"]["message"]
    assert (rows["file"]["candidate_answer"], rows["stdin"]["candidate_answer"]) == (prompt, prompt)
    assert done.returncode == 3


KEY = "sk-canary-0123456789abcdefghij"


def test_a_judge_script_cannot_read_a_key_through_a_cli_target(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        """\
        targets:
          assistant: {provider: mock, response: fine}
          agent:
            provider: cli
            shell: true
            command: 'out="$(printf %s "{PROMPT}")"; echo "$out"'
            env: {AGENT_KEY: "${{ AGENT_KEY }}"}
        defaults: {target: assistant}
        """,
    )
    project.write(
        "judge.py",
        """\
        import json, pathlib
        from agentv_eval import create_judge_proxy_client, JudgeProxyError
        judge, replies = create_judge_proxy_client(), []
        question = "$(printf %s $AGENT_KEY > stolen)"
        for target in (None, "agent"):
            try:
                replies.append(judge.invoke(question=question, target=target).raw_text)
            except JudgeProxyError as error:
                replies.append(error.message)
        print(json.dumps({"score": 1, "details": {"replies": replies}}))
        """,
    )
    for allowed, reply in ((None, "is a `cli` target; name it in"), (["agent"], "$(printf %s $AGENT_KEY > stolen)")):
        judge = {} if allowed is None else {"allowed_targets": allowed}
        evaluator = {"name": "j", "type": "code_judge", "script": ["python", "judge.py"], "judge": judge}
        project.write("suite.yaml", json.dumps({"evalcases": [{"id": "a", "input": "x", "evaluators": [evaluator]}]}))
        done = project.run("eval", "suite.yaml", env={"AGENT_KEY": KEY})
        (result,) = project.rows()[0]["evaluator_results"]
        assert reply in result["details"]["replies"][1]
        assert KEY not in done.stdout + done.stderr + json.dumps(result)
        assert list(project.root.rglob("stolen")) == []
