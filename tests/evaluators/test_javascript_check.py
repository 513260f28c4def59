"""`javascript`: checks in one line, as function bodies and as functions of a file, run by Node."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

import pytest

from tests.conftest import Project

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="requires Node")

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
CHECKS = """\
import { execSync } from "node:child_process";

export function lost(answer) {
  return answer.chunks.length;
}
export async function waits(answer, { config, input, metadata }) {
  return config.most === 9 && input.evalId === "one" && answer.includes(metadata.city);
}
export function noisy() {
  console.log('{"score": 0}');
  process.stdout.write('{"score": 0}\\n');
  execSync("echo '{\\"score\\": 0}'; cat", { stdio: "inherit" });
  return { score: 1, details: { pid: process.pid } };
}
export default (output, context) => ({ pass: true, score: 1, reason: `vars: ${Object.keys(context.vars).length}` });
"""


def write(project: Project, *evaluators: str, cases: str = CASE) -> None:
    project.write("agentv.config.yaml", CONFIG)
    project.write("checks.mjs", CHECKS)
    project.write("old.js", "module.exports = { short: (answer) => answer.length < 400 };\n")
    lines = "".join(f"    - {{name: e{n}, type: javascript, {options}}}\n" for n, options in enumerate(evaluators))
    project.write("suite.yaml", f"execution:\n  evaluators:\n{lines}evalcases:\n{cases}")


def results(project: Project, *evaluators: str, code: int, cases: str = CASE) -> list[dict[str, Any]]:
    """The results of the first case, in the order of the evaluators."""
    write(project, *evaluators, cases=cases)
    done = project.run("eval", "suite.yaml")
    assert done.returncode == code, done.stdout + done.stderr
    return list(project.rows()[0]["evaluator_results"])


def test_quoted_field_in_code_is_reported_with_its_name(project: Project) -> None:
    write(project, """value: 'answer.includes("{{reference_answer}}")'""")
    done = project.run("validate", "suite.yaml")
    assert done.returncode == 2
    assert 'use the name `referenceAnswer` instead of "{{reference_answer}}"' in done.stderr


def test_values_become_scores_that_name_the_expression(project: Project) -> None:
    is_true, is_false, below, mapping, passed, body, waited = results(
        project,
        'value: "answer.length < 400"',
        'value: "answer === answer.toUpperCase()"',
        'value: "answer.length / 100"',
        "value: \"({score: 0.5, hits: ['h'], misses: ['m'], reasoning: 'r', details: {k: 1}})\"",
        "value: \"({pass: false, reason: 'too long'})\"",
        'value: "const most = 400;\\nreturn answer.length < most;"',
        'value: "await new Promise((done) => setTimeout(done, 1, true));"',
        code=1,
    )
    assert (is_true["score"], is_true["hits"]) == (1.0, ["`answer.length < 400` is true"])
    assert (is_false["score"], is_false["misses"]) == (0.0, ["`answer === answer.toUpperCase()` is false"])
    assert (below["score"], below["misses"]) == (0.45, ["`answer.length / 100` is 0.45"])
    assert (mapping["score"], mapping["hits"], mapping["misses"]) == (0.5, ["h"], ["m"])
    assert (mapping["reasoning"], mapping["details"]) == ("r", {"k": 1})
    assert (passed["score"], passed["misses"], passed["reasoning"]) == (0.0, ["too long"], "too long")
    assert (body["score"], waited["score"]) == (1.0, 1.0)


def test_names_of_an_expression_and_arguments_of_functions(project: Project) -> None:
    facts = (
        "output === answer && answer === input.candidateAnswer",
        "input.raw.eval_id === 'one' && input.evalId === 'one' && input.inputFiles.length === 0",
        "question === input.question && referenceAnswer === 'Paris' && expectedOutcome === 'names Paris'",
        "metadata.city === 'Paris' && config.most === 9 && Object.keys(vars).length === 0",
        "judge === null && context.config === config && context.test.metadata === metadata",
        "require('node:os').EOL === '\\\\n'",
    )
    named, waits, common, default = results(
        project,
        f'value: "{" && ".join(facts)}", config: {{most: 9}}',
        'value: "checks.mjs:waits", config: {most: 9}',
        'value: "old.js:short"',
        'value: "file://checks.mjs"',
        code=0,
    )
    assert [named["score"], waits["score"], common["score"], default["score"]] == [1.0] * 4
    assert default["hits"] == ["vars: 0"]


FAILURES = [
    ("const x = null;\\nreturn x.y;", "TypeError: Cannot read properties of null (reading 'y') at value, line 2"),
    ("JSON.parse(answer)", "SyntaxError: "),
    ("'yes'", 'the check returned the string "yes"; return true or false'),
    ("answer.match(/x/)", "the check returned null; return true or false (for example with `Boolean(...)`)"),
    ("7", "score must be between 0 and 1, got 7; divide by the maximum of your scale"),
    ("0 / 0", "score must be a finite number from 0 to 1"),
    ("({reason: 'x'})", "the object has neither 'score' nor 'pass'"),
    ("({pass: false, score: 0.9})", "'pass' is false, but the score 0.9 is not below the threshold 0.8"),
    ("({score: 1, details: {n: 1n}})", "TypeError: Do not know how to serialize a BigInt"),
    ("Promise.reject('text')", 'the check threw the string "text"; throw an Error'),
    ("process.exit(0)", "the check ended its process (it exited with code 0)"),
    ("await new Promise(() => {})", "the check awaits a promise that never settles"),
    ("new Promise(() => setTimeout(() => { throw new Error('x'); }))", "Error: x at value, line 1"),
    ("checks.mjs:lost", "TypeError: Cannot read properties of undefined (reading 'length') at checks.mjs:4"),
    ("checks.mjs:nope", "checks.mjs exports no function 'nope'; it exports lost, noisy, waits"),
]


def test_failures_are_errors_and_begin_with_the_cause(project: Project) -> None:
    hang = 'value: "(() => { for (;;); })()", timeout_seconds: 0.3'
    *given, hung = results(project, *(f'value: "{value}"' for value, _ in FAILURES), hang, code=3)
    for result, (_, message) in zip(given, FAILURES, strict=True):
        assert result["error"].startswith(message)
        assert (result["score"], result["verdict"]) == (0.0, "fail")
    assert hung["error"].startswith("the check did not finish within 0.3 s and was killed")


def test_one_process_serves_many_cases_and_its_output_is_not_taken_for_results(project: Project) -> None:
    count = max(32, 4 * (os.cpu_count() or 1)) + 8
    cases = "".join(f"  - {{id: case-{n}, input: x}}\n" for n in range(count))
    results(project, 'value: "checks.mjs:noisy"', cases=cases, code=0)
    rows = [row["evaluator_results"][0] for row in project.rows()]
    assert [row["score"] for row in rows] == [1.0] * count
    assert len({row["details"]["pid"] for row in rows}) < count


LATE = """\
const late = {
  throws: () => setTimeout(() => { throw new Error(`late ${process.env.SHOP_TOKEN}`); }, 5),
  rejects: () => setTimeout(async () => { throw new Error("not awaited"); }, 5),
  exits: () => setTimeout(() => process.exit(3), 5),
  dies: () => setTimeout(() => process.kill(process.pid, "SIGKILL"), 5),
  forgets: () => Promise.reject(new Error("forgotten")),
}[input.evalId];
if (late === undefined) return await new Promise((done) => setTimeout(done, 50, true));
late();
return true;
"""


def test_late_errors_of_a_check_never_fail_the_next_check_of_its_process(project: Project) -> None:
    ids = ["throws", "a", "rejects", "b", "exits", "c", "dies", "d", "forgets", "e"]
    cases = "".join(f"  - {{id: {each}, input: x}}\n" for each in ids)
    write(project, f"value: {json.dumps(LATE)}", cases=cases)
    project.write(".env", "SHOP_TOKEN=hunter2-hunter2\n")
    done = project.run("eval", "suite.yaml", "--workers", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {row["eval_id"]: row["score"] for row in project.rows()} == dict.fromkeys(ids, 1.0)
    for expected in (
        "of case 'throws' failed after its result: Error: late [redacted] at value, line 2; the recorded results",
        "of case 'rejects' failed after its result: Error: not awaited at value, line 3",
        "of case 'exits' failed after its result: Error: process.exit(3) was called at value, line 4",
    ):
        assert expected in done.stderr
    warnings = {row["eval_id"]: row["evaluator_results"][0]["warnings"] for row in project.rows()}
    (forgotten,) = warnings.pop("forgets")
    assert forgotten.startswith("a promise that the check did not await was rejected: Error: forgotten at value")
    assert not any(warnings.values())


def test_judge_access_is_that_of_a_code_judge(project: Project) -> None:
    asked, batch, refused, leftover = results(
        project,
        "value: \"(await judge.invoke({question: answer})).rawText === 'yes'\", judge: {max_calls: 1}",
        "value: \"(await judge.invokeBatch([{question: 'a'}, {question: 'b'}])).every((r) => r.rawText === 'yes') "
        '&& (await judge.getInfo()).callCount === 2", judge: true',
        "value: \"await judge.invoke({question: 'a'}); return (await judge.invoke({question: 'b'})).rawText === 'yes'\""
        ", judge: {max_calls: 1}",
        "value: \"Object.keys(process.env).every((name) => !name.includes('PROXY_TOKEN'))\"",
        code=3,
    )
    assert (asked["score"], asked["judge_proxy"]["call_count"]) == (1.0, 1)
    assert batch["score"] == 1.0
    assert refused["error"].startswith("the check exceeded its judge call limit of 1")
    assert leftover["score"] == 1.0


def test_problems_are_reported_before_anything_is_called(project: Project) -> None:
    write(
        project,
        'value: "answer.length <"',
        'value: "const x = 1; x"',
        'value: "const x = 1;\\nconst x = 2;\\nreturn x"',
        'value: "chekcs.mjs:f"',
        "value: \"require('fs').writeFileSync('ran.txt', '')\"",
    )
    done = project.run("eval", "suite.yaml")
    assert (done.returncode, project.run_dirs()) == (2, [])
    for expected in (
        "suite.yaml:3:43: `value`: the code ends too early",
        "suite.yaml:4:43: `value`: it has statements but no `return`",
        "suite.yaml:5:43: `value`: line 2: Identifier 'x' has already been declared",
        "suite.yaml:6:43: `value`: there is no file 'chekcs.mjs'",
    ):
        assert expected in done.stderr
    assert not (project.root / "ran.txt").exists()


def test_missing_node_is_reported_before_anything_is_called(project: Project) -> None:
    write(project, 'value: "true"')
    done = project.run("eval", "suite.yaml", env={"PATH": str(project.root)})
    assert (done.returncode, project.run_dirs()) == (2, [])
    assert "suite.yaml:3:24: could not start `node`: program not found on PATH" in done.stderr
    assert "`javascript` needs Node 18 or newer" in done.stderr


def test_time_to_start_node_does_not_count(project: Project) -> None:
    node = project.write("bin/node", f'#!/bin/sh\nsleep 2\nexec {shutil.which("node")} "$@"\n')
    node.chmod(0o755)
    write(project, 'value: "answer.length > 0", timeout_seconds: 1')
    done = project.run("eval", "suite.yaml", env={"PATH": f"{node.parent}:{os.environ['PATH']}"})
    assert done.returncode == 0, done.stdout + done.stderr
