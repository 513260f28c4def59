"""`python`: checks in one line, as function bodies and as functions of a file, through real runs."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agentv.processes.launcher import Launcher
from agentv.results import Score
from agentv.scripts import Runtime, ScriptError, ScriptSpec, run_script
from agentv.targets.environment import Environment
from agentv.wire.payload import with_empty_values
from tests.conftest import Project
from tests.evaluators.support import problem_of

CONFIG = """\
targets:
  assistant: {provider: mock, response: "The capital is Paris, founded 2300 years ago."}
  strict: {provider: mock, response: "yes"}
defaults: {target: assistant, judge_target: strict}
"""
CASE = """\
  - id: one
    input: What is the capital?
    reference_answer: Paris
    expected_outcome: names Paris
    metadata: {city: Paris}
"""


def results(project: Project, *evaluators: str, cases: str = CASE, code: int | None = None) -> list[dict[str, Any]]:
    """The results of the first case, in the order of the evaluators."""
    project.write("agentv.config.yaml", CONFIG)
    lines = "".join(f"    - {{name: e{n}, type: python, {options}}}\n" for n, options in enumerate(evaluators))
    project.write("suite.yaml", f"execution:\n  evaluators:\n{lines}evalcases:\n{cases}")
    done = project.run("eval", "suite.yaml")
    assert done.returncode == code if code is not None else done.returncode in (0, 1, 3), done.stdout + done.stderr
    return list(project.rows()[0]["evaluator_results"])


def problems(project: Project, *evaluators: str) -> str:
    project.write("agentv.config.yaml", CONFIG)
    lines = "".join(f"    - {{name: e{n}, type: python, {options}}}\n" for n, options in enumerate(evaluators))
    project.write("suite.yaml", f"execution:\n  evaluators:\n{lines}evalcases:\n{CASE}")
    done = project.run("eval", "suite.yaml")
    assert done.returncode == 2
    assert project.run_dirs() == []
    return done.stderr


def test_values_become_scores_that_name_the_expression(project: Project) -> None:
    is_true, is_false, number, below, mapping, passed, sdk = results(
        project,
        'value: "len(answer) < 400"',
        'value: "answer.isupper()"',
        'value: "0.9"',
        'value: "len(answer) / 100"',
        """value: "{'score': 0.5, 'hits': ['h'], 'misses': ['m'], 'reasoning': 'r', 'details': {'k': 1}}" """,
        """value: "{'pass': False, 'reason': 'too long'}" """,
        """value: "__import__('agentv_eval').CodeJudgeResult(0.25, misses=['m'])" """,
        code=1,
    )
    assert (is_true["score"], is_true["hits"]) == (1.0, ["`len(answer) < 400` is true"])
    assert (is_false["score"], is_false["misses"]) == (0.0, ["`answer.isupper()` is false"])
    assert (number["score"], number["hits"]) == (0.9, ["`0.9` is 0.9"])
    assert (below["score"], below["misses"]) == (0.45, ["`len(answer) / 100` is 0.45"])
    assert (mapping["score"], mapping["hits"], mapping["misses"]) == (0.5, ["h"], ["m"])
    assert (mapping["reasoning"], mapping["details"]) == ("r", {"k": 1})
    assert (passed["score"], passed["misses"], passed["reasoning"]) == (0.0, ["too long"], "too long")
    assert (sdk["score"], sdk["misses"]) == (0.25, ["m"])


def test_names_of_an_expression(project: Project) -> None:
    facts = (
        "output == answer == input.candidate_answer",
        "input.raw['eval_id'] == 'one'",
        "question == input.question",
        "reference_answer == 'Paris'",
        "expected_outcome == 'names Paris'",
        "vars == {}",
        "metadata == {'city': 'Paris'}",
        "config == {'most': 9}",
        "judge is None",
        "json.loads('1') == math.floor(1.5)",
        "bool(re.search('[0-9]', answer))",
        "context['config'] == config",
        "context['test']['metadata'] == metadata",
    )
    every = f'value: "{" and ".join(facts)}", config: {{most: 9}}'
    (result,) = results(project, every, code=0)
    assert result["score"] == 1.0


def test_several_lines_are_a_function_body(project: Project) -> None:
    lines = ("import textwrap", "answer = answer.strip()", "for word in answer.split():", "    if word == 'Paris,':")
    code = "\\n".join((*lines, "        return 1", "return 0"))
    body = f'value: "{code}"'
    awaits = r'value: "import asyncio\nawait asyncio.sleep(0)\nreturn True"'
    found, awaited = results(project, body, awaits, code=0)
    assert (found["score"], awaited["score"]) == (1.0, 1.0)


def test_functions_get_arguments_by_name_or_position(project: Project) -> None:
    project.write("helper.py", "LONGEST = 400\n")
    project.write(
        "checks.py",
        """\
        from helper import LONGEST

        class Limits:
            @staticmethod
            def short(text, /, case, *rest, most=LONGEST, **more):
                return case.candidate_answer == text and len(text) < most

        def named(config, metadata, answer): return config["most"] > 0 and metadata["city"] in answer
        async def waits(output, context): return context["config"] == {"most": 9} and "Paris" in output
        def get_assert(output, context): return {"pass": True, "score": 1, "reason": "as in promptfoo"}
        """,
    )
    given = results(
        project,
        'value: "checks.py:Limits.short"',
        'value: "checks.py:named", config: {most: 9}',
        'value: "checks.py:waits", config: {most: 9}',
        'value: "checks:get_assert"',
        'value: "file://checks.py"',
        code=0,
    )
    assert [result["score"] for result in given] == [1.0] * 5
    assert given[0]["hits"] == ["`checks.py:Limits.short` is true"]
    assert given[4]["hits"] == ["as in promptfoo"]


FAILURES = [
    ("x = 0\\nreturn 1 / x", "ZeroDivisionError: division by zero at value, line 2"),
    ("json.loads(answer)", "JSONDecodeError: Expecting value: line 1 column 1 (char 0) at value, line 1"),
    ("'yes'", "the check returned the string 'yes'; return True or False"),
    ("re.search('x', answer)", "the check returned None; return True or False (for example with `bool(...)`)"),
    ("7", "score must be between 0 and 1, got 7; divide by the maximum of your scale"),
    ("{'reason': 'x'}", "the mapping has neither 'score' nor 'pass'"),
    ("{'pass': False, 'score': 0.9}", "'pass' is False, but the score 0.9 is not below the threshold 0.8"),
    ("__import__('sys').exit('enough')", "the check called sys.exit() (enough) instead of returning a result"),
    ("__import__('os')._exit(0)", "the check ended its process (it exited with code 0)"),
    ("checks.py:lost", "KeyError: 'chunks' at checks.py:2"),
    ("checks.py:three", "the parameter 'third' of `checks.py:three` is unknown"),
    ("checks.py:CONSTANT", "`checks.py:CONSTANT` is not a function"),
]


def test_failures_are_errors_and_begin_with_the_cause(project: Project) -> None:
    project.write(
        "checks.py",
        """\
        def lost(answer):
            return {}["chunks"]
        def three(first, second, third):
            return True
        CONSTANT = 1
        """,
    )
    given = results(project, *(f'value: "{value}"' for value, _ in FAILURES), code=3)
    for result, (_, message) in zip(given, FAILURES, strict=True):
        assert result["error"].startswith(message)
        assert (result["score"], result["verdict"]) == (0.0, "fail")


def test_a_check_that_hangs_is_killed_and_the_next_one_is_judged(project: Project) -> None:
    hung, after = results(
        project, "value: \"__import__('time').sleep(60)\", timeout_seconds: 0.3", 'value: "True"', code=3
    )
    assert hung["error"].startswith("the check did not finish within 0.3 s and was killed")
    assert after["score"] == 1.0


def test_one_process_serves_many_cases_and_its_output_is_not_taken_for_results(project: Project) -> None:
    project.write(
        "checks.py",
        """\
        import os, sys
        def noisy(answer):
            print('{"score": 0}')
            os.write(1, b'{"score": 0}\\n')
            os.system("echo '{\\"score\\": 0}'")
            assert sys.stdin.read() == ""
            return {"score": 1, "details": {"pid": os.getpid()}}
        """,
    )
    count = max(32, 4 * (os.cpu_count() or 1)) + 8
    cases = "".join(f"  - {{id: case-{n}, input: x}}\n" for n in range(count))
    results(project, 'value: "checks.py:noisy"', cases=cases, code=0)
    rows = [row["evaluator_results"][0] for row in project.rows()]
    assert [row["score"] for row in rows] == [1.0] * count
    assert len({row["details"]["pid"] for row in rows}) < count


def test_judge_access_is_that_of_a_code_judge(project: Project) -> None:
    environment = "not [name for name in __import__('os').environ if 'PROXY_TOKEN' in name]"
    asked, waited, refused, leftover = results(
        project,
        "value: \"judge.invoke(question=answer).raw_text == 'yes'\", judge: {max_calls: 1}",
        "value: \"(await judge.invoke(question=answer)).raw_text == 'yes'\", judge: true",
        'value: "bool([judge.invoke(question=answer) for _ in range(2)])", judge: {max_calls: 1}',
        f'value: "{environment}"',
        code=3,
    )
    assert (asked["score"], asked["judge_proxy"]["call_count"]) == (1.0, 1)
    assert waited["score"] == 1.0
    assert refused["error"].startswith("the check exceeded its judge call limit of 1")
    assert leftover["score"] == 1.0


def test_problems_are_reported_before_anything_is_called(project: Project) -> None:
    project.write("checks.py", "def short(answer): return True\n")
    project.write("broken.py", "def f(:\n")
    project.write("../outside.py", "def f(answer): return True\n")
    text = problems(
        project,
        'value: "len(answer <"',
        'value: "x = 1"',
        'value: "break\\nreturn 1"',
        'value: "checks.py:shor"',
        'value: "check.py:short"',
        'value: "broken.py:f"',
        'value: "../outside.py:f"',
        'value: "checks:long"',
        'value: "chex:short"',
        'value: "True", timeout: 3',
    )
    for expected in (
        "suite.yaml:3:39: `value`: line 1, column 4: '(' was never closed",
        "suite.yaml:4:39: `value`: line 1, column 1: it has statements but no `return`",
        "suite.yaml:5:39: `value`: line 1, column 1: 'break' outside loop",
        "suite.yaml:6:39: `value`: checks.py has no function 'shor' (did you mean `short`?)",
        "suite.yaml:7:39: `value`: there is no file 'check.py'",
        f"suite.yaml:8:39: `value`: {project.root / 'broken.py'}:1:7: invalid syntax",
        "suite.yaml:9:39: `value`: '../outside.py' is outside",
        "suite.yaml:10:39: `value`: checks has no function 'long'",
        "suite.yaml:11:39: `value`: there is no module 'chex'",
        "suite.yaml:12:47: unknown key `timeout` (did you mean `timeout_seconds`?)",
    ):
        assert expected in text


def test_code_of_the_suite_is_not_run_by_validate(project: Project) -> None:
    project.write("agentv.config.yaml", CONFIG)
    project.write("checks.py", "open('ran.txt', 'w')\ndef f(answer): return True\n")
    values = ("open('ran.txt', 'w')", "checks.py:f", "checks:f")
    evaluators = "".join(f'    - {{name: e{n}, type: python, value: "{v}"}}\n' for n, v in enumerate(values))
    project.write("suite.yaml", f"execution:\n  evaluators:\n{evaluators}evalcases:\n{CASE}")
    assert project.run("validate", "suite.yaml").returncode == 0
    assert not (project.root / "ran.txt").exists()


def test_quoted_field_in_code_is_reported_with_its_name(project: Project) -> None:
    text = problems(project, """value: "'{{ reference_answer }}' in answer" """)
    assert "suite.yaml:3:39: `value`: values are not inserted into code: use the name `reference_answer`" in text
    assert "instead of '{{ reference_answer }}'" in text


def test_braces_in_code_are_characters(project: Project) -> None:
    passed, braces = results(
        project,
        """value: "'{{ customer }}' not in answer and '{{' not in answer" """,
        """value: "f'{{{answer}}}' == '{' + answer + '}'" """,
    )
    assert (passed["score"], braces["score"]) == (1, 1)


@pytest.mark.parametrize(
    "source",
    [
        "-" * 19_000 + "1",
        "(" * 9_000 + ")" * 9_000,
        "lambda: " * 2_400 + "1",
        "not " * 4_900 + "1",
        "1 if 1 else " * 1_600 + "1",
    ],
)
def test_deeply_nested_code_is_a_problem_of_the_suite(source: str) -> None:
    location, message = problem_of("python", value=source)
    assert location == ("value",)
    assert "too" in message


def test_files_of_checks_are_recorded_with_the_run(project: Project) -> None:
    project.write("checks.py", "def f(answer): return True\n")
    project.write("more.py", "def f(answer): return True\n")
    results(project, 'value: "checks.py:f"', 'value: "more:f"', code=0)
    assert {"checks.py", "more.py"} <= {Path(path).name for path in project.manifest()["digests"]}


def test_a_check_that_returns_twice_gets_advice_for_checks(tmp_path: Path) -> None:
    # In one write, as of a check that forks: two processes do not always write before one of them reads on.
    twice = 'import sys\nfor line in sys.stdin:\n    print(\'{"score": 1}\\n{"score": 1}\', flush=True)\n'
    (tmp_path / "runner.py").write_text(twice)
    spec = ScriptSpec("forks", [sys.executable, "runner.py"], tmp_path, protocol="jsonl", inline=True)

    async def run() -> Score:
        async with Launcher() as launcher:
            runtime = Runtime(launcher, environment=Environment(dict(os.environ)))
            return await run_script(spec, with_empty_values({"eval_id": "a", "attempt": 1}), runtime)

    with pytest.raises(ScriptError) as caught:
        asyncio.run(run())
    assert caught.value.message.splitlines() == [
        "the check returned more than once, so its result is ambiguous.",
        "If it forks, end the child with os._exit(0), or use the `subprocess` module.",
    ]
