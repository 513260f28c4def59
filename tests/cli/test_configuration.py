"""The configuration on the command line: variables, unknown names, and what is recorded."""

from __future__ import annotations

import base64
import json
import re

import jsonschema
import pytest
import yaml

from tests.conftest import Project

SUITE = "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: ok}]}]\n"
JUDGED = "evalcases: [{id: a, input: x, evaluators: [{type: llm_judge}]}]\n"
VERDICT = '\'{"score": 1, "hits": [], "misses": [], "reasoning": "fine"}\''


def listed(project: Project, **env: str) -> dict[str, dict[str, object]]:
    done = project.run("targets", "--json", env=env)
    assert done.returncode == 0, done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)}


def test_missing_variable_in_judge_target_disables_only_its_target(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets:\n"
        "  a: {provider: mock, response: ok}\n"
        "  b: {provider: mock, response: ok, judge_target: '${{ WHO_JUDGES }}'}\n",
    )
    targets = listed(project)
    assert targets["a"]["ready"]
    assert not targets["b"]["ready"]
    assert "WHO_JUDGES" in str(targets["b"]["missing"])
    assert "agentv.config.yaml:3" in str(targets["b"]["missing"])
    assert listed(project, WHO_JUDGES="a")["b"]["judge"] == "a"
    refused = project.run("targets", env={"WHO_JUDGES": "missing"})
    assert refused.returncode == 2
    assert "unknown target 'missing'" in refused.stderr


def test_numeric_target_names_are_strings(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets:\n"
        "  - {name: a, provider: mock, response: ok, judge_target: 7}\n"
        f"  - {{name: 7, provider: mock, response: {VERDICT}}}\n",
    )
    assert listed(project)["a"]["judge"] == "7"
    project.write("suite.yaml", JUDGED)
    assert project.run("eval", "suite.yaml", "--target", "a", "--quiet").returncode == 0
    project.write("agentv.config.yaml", "targets: {a: {provider: mock, response: ok, judge_target: 8}}\n")
    refused = project.run("targets")
    assert refused.returncode == 2
    assert "agentv.config.yaml:1:59: unknown target '8'" in refused.stderr


def test_target_name_must_not_be_empty(project: Project) -> None:
    for targets in ("{'': {provider: mock}}", "[{name: ' ', provider: mock}]"):
        project.write("agentv.config.yaml", f"targets: {targets}\n")
        refused = project.run("targets")
        assert refused.returncode == 2
        assert "the name of a target must not be blank" in refused.stderr


def test_provider_and_defaults_can_be_variables(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets:\n"
        "  a: {provider: '${{ KIND:-mock }}', response: ok}\n"
        "  b: {provider: '${{ NO_SUCH_KIND }}', response: ok}\n"
        "defaults: {target: '${{ WHICH:-a }}', judge_target: '${{ WHO:-none }}'}\n",
    )
    targets = listed(project)
    assert (targets["a"]["provider"], targets["a"]["default"], targets["a"]["judge"]) == ("mock", True, None)
    assert "NO_SUCH_KIND" in str(targets["b"]["missing"])
    assert listed(project, WHICH="b", WHO="a")["b"]["default"] is True
    refused = project.run("targets", env={"KIND": "mok"})
    assert refused.returncode == 2
    assert "unknown provider 'mok' (did you mean `mock`?)" in refused.stderr
    project.write("agentv.config.yaml", "targets: {a: {provider: mock}}\ndefaults: {target: '${{ NO_SUCH_NAME }}'}\n")
    refused = project.run("targets")
    assert refused.returncode == 2
    assert "agentv.config.yaml:2:20: `target`: the environment variable NO_SUCH_NAME" in refused.stderr


@pytest.mark.parametrize("written", ["${{ env.KEY }}", "${{ }}", "${{ A-B }}", "${{ KEY", "${{ A:-${{ B }} }}"])
def test_malformed_variable_reference_is_an_error(project: Project, written: str) -> None:
    project.write("agentv.config.yaml", f"targets:\n  a: {{provider: openai, model: m, api_key: '{written}'}}\n")
    refused = project.run("targets")
    assert refused.returncode == 2
    assert "agentv.config.yaml:2:44: `api_key`: `${{ }}` must contain the name of a variable" in refused.stderr


def test_scripted_answer_can_contain_braces(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {a: {provider: mock, response: 'ok ${{ github.sha }}'}}\n")
    project.write("suite.yaml", SUITE)
    assert project.run("eval", "suite.yaml", "--quiet").returncode == 0
    assert project.rows()[0]["candidate_answer"] == "ok ${{ github.sha }}"


def test_malformed_dotenv_line_is_reported_with_its_line_but_not_printed(project: Project) -> None:
    project.write(".env", "GREETING=ok\nthis is hidden\nOTHER=2\n")
    project.write("agentv.config.yaml", "targets: {a: {provider: mock, response: '${{ GREETING }} ${{ OTHER }}'}}\n")
    project.write("suite.yaml", SUITE)
    done = project.run("eval", "suite.yaml")
    assert done.returncode == 0
    assert done.stderr.count(f"{project.root / '.env'}:2: not a `NAME=value` line") == 1
    assert "hidden" not in done.stderr
    assert project.rows()[0]["candidate_answer"] == "ok 2"


def test_all_unknown_targets_are_reported_together(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {main: {provider: mock, response: ok}}\n")
    project.write("one.yaml", f"target: mian\nexecution: {{judge_target: jugde}}\n{SUITE}")
    project.write("two.yaml", SUITE.replace("input: x", "input: x, execution: {target: other}"))
    for command in ("validate", "eval"):
        refused = project.run(command, "one.yaml", "two.yaml")
        assert refused.returncode == 2
        assert "one.yaml:1:9: `target` names the unknown target 'mian'" in refused.stderr
        assert "one.yaml:2:27: `execution.judge_target` names the unknown target 'jugde'" in refused.stderr
        assert re.search(r"^two\.yaml:1:\d\d: case 'a' names the unknown target 'other'", refused.stderr, re.MULTILINE)
    assert project.run("eval", "two.yaml", "--target", "main", "--quiet").returncode == 0


def test_empty_target_is_rejected(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {main: {provider: mock, response: ok}}\n")
    project.write("suite.yaml", f"execution: {{target: '', judge_target: ''}}\n{SUITE}")
    refused = project.run("validate", "suite.yaml")
    assert refused.returncode == 2
    assert "suite.yaml:1:21: `target` must not be empty" in refused.stderr
    assert "suite.yaml:1:39: `judge_target` must not be empty" in refused.stderr


def test_judging_recorded_answers_needs_a_configuration(project: Project) -> None:
    project.write("answers.jsonl", '{"eval_id": "a", "candidate_answer": "ok"}\n')
    project.write("judged.yaml", JUDGED)
    project.write("checked.yaml", SUITE)
    for extra in ([], ["--judge-target", "strict"]):
        refused = project.run("eval", "judged.yaml", "--outputs", "answers.jsonl", *extra)
        assert refused.returncode == 2
        assert "agentv init" in refused.stderr
    assert not (project.root / ".agentv").exists()
    assert project.run("eval", "checked.yaml", "--outputs", "answers.jsonl", "--quiet").returncode == 0
    # With `--judge-target none`, evaluators that need no judge still run.
    no_judge = ("eval", "judged.yaml", "--outputs", "answers.jsonl", "--judge-target", "none", "--quiet")
    assert project.run(*no_judge).returncode == 3


def test_target_log_is_printed(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets: {a: {provider: cli, verbose: true, keep_temp_files: true, command: 'cat {PROMPT_FILE}'}}\n",
    )
    project.write("suite.yaml", SUITE.replace("input: x", "input: ok"))
    done = project.run("eval", "suite.yaml", env={"TMPDIR": str(project.root)})
    assert done.returncode == 0
    [kept] = project.root.glob("agentv-*/prompt.txt")
    assert f"target 'a': cat {kept}" in done.stderr
    assert f"temporary files of 'a' are kept in {kept.parent}" in done.stderr


def test_secrets_in_urls_are_masked(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets:\n  a: {provider: cli, command: [echo, 'ok https://me:${{ ONE }}@host/?q=${{ TWO }}#${{ THREE }}']}\n",
    )
    project.write("suite.yaml", SUITE)
    values = {"ONE": "first/hidden", "TWO": "second#hidden&more", "THREE": "plain-fragment"}
    assert project.run("eval", "suite.yaml", "--quiet", env=values).returncode == 0
    answer = project.rows()[0]["candidate_answer"]
    assert answer == "ok https://me:[redacted]@host/?q=[redacted]#plain-fragment"


def test_literal_secret_in_configuration_is_not_recorded(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets:\n"
        "  a: {provider: cli, command: echo ok, env: {API_TOKEN: written-out-1, MODE: fast, KEY: '${{ OWN_KEY }}'}}\n"
        "  b: {provider: openai, model: m, headers: {Authorization: Bearer written-out-2, Accept: text/plain}}\n",
    )
    project.write("suite.yaml", SUITE)
    assert project.run("eval", "suite.yaml", "--target", "a", "-q", env={"OWN_KEY": "from-outside"}).returncode == 0
    kept = (project.run_dirs()[-1] / "run.json").read_text(encoding="utf-8")
    [configuration] = json.loads(kept)["configuration"].values()
    assert "written-out" not in kept
    assert configuration["targets"]["a"]["env"] == {
        "API_TOKEN": "[redacted]",
        "MODE": "fast",
        "KEY": "${{ OWN_KEY }}",
    }
    assert configuration["targets"]["b"]["headers"] == {"Authorization": "[redacted]", "Accept": "text/plain"}


def test_script_does_not_receive_encoded_secrets(project: Project) -> None:
    project.write("agentv.config.yaml", "targets: {a: {provider: mock, model: '${{ OWN_KEY }}', response: ok}}\n")
    project.write(
        "judge.py", 'import json, os\nprint(json.dumps({"score": 1, "details": {"seen": sorted(os.environ)}}))\n'
    )
    project.write(
        "suite.yaml",
        "evalcases: [{id: a, input: x, evaluators: [{type: code_judge, script: [python, judge.py], judge: {}}]}]\n",
    )
    encoded = base64.b64encode(b"me:pass/word+1234").decode()
    env = {
        "OWN_KEY": "pass/word+1234",
        "BASIC": f"Basic {encoded}",
        "IN_URL": "db://me:pass%2Fword%2B1234@host",
        "FREE": "y",
    }
    done = project.run("eval", "suite.yaml", "--quiet", env=env)
    assert done.returncode == 0, done.stderr
    seen = project.rows()[0]["evaluator_results"][0]["details"]["seen"]
    assert "FREE" in seen
    assert not {"OWN_KEY", "BASIC", "IN_URL"} & set(seen)


def test_problem_in_an_alternative_spelling_is_reported_at_its_line(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets:\n"
        "  a:\n"
        "    provider: azure\n"
        "    deploymentName: d\n"
        "    endpoint: ${{ NO_SUCH_PLACE }}\n"
        "  b:\n"
        "    provider: cli\n"
        "    commandTemplate: 'true'\n"
        "    maxRetries: many\n"
        "    healthcheck: {type: comand}\n"
        "  c:\n"
        "    provider: cli\n"
        "    command: 'true'\n"
        "    healthcheck: {type: command, comand: 'true'}\n",
    )
    refused = project.run("targets")
    assert refused.returncode == 2
    assert "agentv.config.yaml:9:17: `maxRetries` must be a whole number, got 'many'" in refused.stderr
    assert "10:18: `healthcheck`: `type` must be `http` or `command`, got 'comand' (did you mean" in refused.stderr
    assert "14:34: unknown key `comand` (did you mean `command`?)" in refused.stderr
    path = project.root / "agentv.config.yaml"
    path.write_text(path.read_text(encoding="utf-8").partition("  b:\n")[0], encoding="utf-8")
    assert f"it is used by `endpoint` at {path}:5" in str(listed(project)["a"]["missing"])


def test_config_schema_accepts_what_the_configuration_accepts(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets:\n"
        "  cmd: {provider: cli, commandTemplate: 'true', maxRetries: 1, env: [HOME], judge_target: 7}\n"
        "  own: {provider: cli, command: 'true', env: {A: 1}}\n"
        "  7: {provider: azure-openai, endpoint: 'https://x', deployment: d, apiKey: '${{ NO_SUCH_KEY }}'}\n"
        "  agent: {provider: claude-code, executable: claude}\n"
        "  any: {provider: '${{ NO_SUCH_KIND }}', what: ever}\n",
    )
    assert project.run("validate", "agentv.config.yaml").returncode == 0
    config = jsonschema.Draft202012Validator(json.loads(project.run("schema", "--only", "config").stdout))
    assert list(config.iter_errors(yaml.safe_load((project.root / "agentv.config.yaml").read_text()))) == []
    for wrong in ("{provider: azur}", "{provider: azure-openai, endpont: x}", "{provider: cli, env: 1}"):
        assert list(config.iter_errors({"targets": {"a": yaml.safe_load(wrong)}}))


def test_settings_of_commands_on_other_targets_are_ignored_with_a_note(project: Project) -> None:
    project.write(
        "agentv.config.yaml",
        "targets:\n  a:\n    provider: mock\n    response: ok\n    verbose: true\n    keepTempFiles: false\n",
    )
    project.write("suite.yaml", SUITE)
    for command in ("validate", "eval"):
        done = project.run(command, "suite.yaml")
        assert done.returncode == 0, done.stderr
        assert "`verbose` of the target 'a' is ignored: only `cli` targets have it" in done.stderr
        assert done.stderr.count("`keepTempFiles` of the target 'a' is ignored") == 1
