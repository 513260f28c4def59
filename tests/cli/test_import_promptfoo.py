"""`agentv import promptfoo`: imported suites give the same verdicts as promptfoo."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from agentv.importing.rows import short_assertion
from agentv.importing.templates import (
    UnsupportedTemplateError,
    combinations,
    converted,
    environment_variables,
    render,
    resolved,
)
from agentv.suite.yaml import YamlWalk
from tests.conftest import Project


def document(project: Project, name: str = "suite.yaml") -> Any:
    return YamlWalk((project.root / name).read_bytes()).document()


def cases(project: Project, name: str = "suite.yaml") -> dict[str, Any]:
    return {case["id"]: case for case in document(project, name)["evalcases"]}


# With the provider `echo`, the answer is the prompt. The expected verdicts follow promptfoo's rules: without a
# threshold, all assertions must pass; with one, the weighted mean of 0s and 1s must reach it.
SEMANTICS = """\
prompts: ["The capital of {{country}} is {{city}}."]
providers: [echo]
defaultTest:
  vars: {city: Paris}
tests:
  - description: all hold                      # pass
    vars: {country: France}
    assert:
      - {type: contains, value: "{{city}}"}
      - {type: icontains, value: FRANCE}
      - {type: starts-with, value: The capital}
      - {type: equals, value: The capital of France is Paris.}
      - {type: regex, value: "Par[a-z]+\\\\.$"}
      - {type: contains-any, value: [Rome, Paris]}
      - {type: contains-all, value: "capital, Paris"}
      - {type: not-contains, value: Rome}
      - {type: not-contains-all, value: [Paris, Rome]}
      - {type: not-icontains-any, value: [rome, madrid]}
      - {type: latency, threshold: 60000}
  - description: one of two fails              # fail, 0.5
    vars: {country: France}
    assert:
      - {type: contains, value: Paris}
      - {type: contains, value: Rome}
  - description: all of five but one           # fail, although four fifths are there
    vars: {country: France}
    assert:
      - {type: contains-all, value: [The, capital, of, France, Rome]}
  - description: over its threshold            # 3 of 4 is 0.75, and 0.7 is wanted: pass
    threshold: 0.7
    vars: {country: France}
    assert:
      - {type: contains, value: Paris, weight: 3}
      - {type: contains, value: Rome, weight: 1}
  - description: under its threshold           # contains-all is 0, so 1 of 2 is 0.5: fail
    threshold: 0.6
    vars: {country: France}
    assert:
      - {type: contains, value: Paris}
      - {type: contains-all, value: [The, capital, Rome]}
  - description: fails without weight          # the mean is 1, and one assertion fails: fail
    vars: {country: France}
    assert:
      - {type: contains, value: Paris}
      - {type: contains, value: Rome, weight: 0}
  - description: holds without weight          # pass
    vars: {country: France}
    assert:
      - {type: contains, value: Paris, weight: 0}
  - description: other vars                    # pass
    vars: {country: Italy, city: Rome}
    assert:
      - {type: equals, value: The capital of Italy is Rome.}
  - description: no assertions                 # pass
    vars: {country: Italy}
"""
PASSES = {
    "all-hold": True,
    "one-of-two-fails": False,
    "all-of-five-but-one": False,
    "over-its-threshold": True,
    "under-its-threshold": False,
    "fails-without-weight": False,
    "holds-without-weight": True,
    "other-vars": True,
    "no-assertions": True,
}


def test_imported_suite_gives_the_verdicts_of_promptfoo(project: Project) -> None:
    project.write("promptfooconfig.yaml", SEMANTICS)
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 prompt, 9 cases, 1 target; 0 left out" in done.stdout
    assert project.run("validate", "suite.yaml").returncode == 0
    assert project.run("eval", "suite.yaml").returncode == 1
    rows = {row["eval_id"]: row for row in project.rows()}
    assert {case: row["error"] for case, row in rows.items() if row["error"]} == {}
    assert {case: row["verdict"] == "pass" for case, row in rows.items()} == PASSES
    scores = {case: rows[case]["score"] for case in ("one-of-two-fails", "over-its-threshold", "under-its-threshold")}
    assert scores == {"one-of-two-fails": 0.5, "over-its-threshold": 0.75, "under-its-threshold": 0.5}


JSON_CHECKS = """\
prompts: ['{"city": "{{city}}", "size": 2}']
providers: [echo]
tests:
  - {vars: {city: Oslo}, assert: [{type: is-json}]}
  - {vars: {city: Oslo}, assert: [{type: is-json, value: {type: object, required: [city]}}]}
  - {vars: {city: Oslo}, assert: [{type: is-json, value: file://schema.json}]}
  - {vars: {city: Oslo}, assert: [{type: equals, value: {city: Oslo, size: 2}}]}
  - {vars: {city: Oslo}, assert: [{type: not-is-json}]}
"""


def test_is_json_assertion_uses_its_schema(project: Project) -> None:
    project.write("promptfooconfig.yaml", JSON_CHECKS)
    project.write("schema.json", '{"type": "object", "properties": {"size": {"type": "string"}}}')
    assert project.run("import", "promptfoo", "promptfooconfig.yaml").returncode == 0
    project.run("eval", "suite.yaml")
    verdicts = {row["eval_id"]: row["verdict"] for row in project.rows()}
    assert verdicts == {"test-1": "pass", "test-2": "pass", "test-3": "fail", "test-4": "pass", "test-5": "fail"}


LEFT_OUT = """\
prompts: [Hello]
providers:
  - echo
  - huggingface:text-classification:some/model
  - id: openai:chat:gpt-4o
    config:
      apiKey: sk-abcdefgh12345678
      top_p: 0.5
      functionToolCallbacks: {}
tests:
  - vars: {a: 1}
    assert:
      - {type: contains, value: Hello}
      - type: webhook
        value: https://example.com
      - {type: regex, value: "(?<a>x"}
      - {type: contains, value: "{{ a | nl2br }}"}
      - {type: contains, value: x, transform: output.trim()}
  - assert: [{type: classifier, value: kind}]
extensions: []
sharing: true
tags: {team: search, 2: b}
"""


def test_left_out_parts_are_listed_with_lines_in_output_and_suite(project: Project) -> None:
    project.write("promptfooconfig.yaml", LEFT_OUT)
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert [line.split(": ", 1)[0].rpartition(":")[2] for line in lines] == [
        *("20", "4", "7", "9", "14", "16", "17", "18", "19", "19")
    ]
    text = (project.root / "suite.yaml").read_text()
    assert all(f"# - {line}" in text for line in lines)
    assert "no filter named 'nl2br'" in text
    assert [evaluator["value"] for evaluator in cases(project)["test-1"]["evaluators"]] == ["Hello"]
    assert document(project, "suite.yaml")["tags"] == ["team=search", "2=b"]


def test_test_without_imported_assertions_is_kept_and_fails(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        "prompts: [Hello]\nproviders: [echo]\ntests: [{assert: [{type: moderation}]}]\n",
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert done.returncode == 1
    assert "replace the check `not-imported`" in done.stderr
    assert project.run("eval", "suite.yaml").returncode == 1
    assert project.rows()[0]["verdict"] == "fail"


def test_api_key_is_never_copied(project: Project) -> None:
    project.write("promptfooconfig.yaml", LEFT_OUT)
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    everything = done.stdout + done.stderr + "".join(path.read_text() for path in project.root.glob("*.yaml"))
    assert everything.count("sk-abcdefgh12345678") == 1  # where it was
    assert document(project, "agentv.config.yaml")["targets"]["gpt-4o"]["api_key"] == "${{ OPENAI_API_KEY }}"


PLACEHOLDERS = """\
prompts: ["Hello {{name}}"]
providers:
  - sagemaker:llama:my-endpoint
  - id: slack:my-package:Provider
    label: mine
tests:
  - {vars: {name: Ann}, assert: [{type: contains, value: Ann}]}
"""


def test_unsupported_providers_become_placeholders_that_say_what_to_fill_in(project: Project) -> None:
    project.write("promptfooconfig.yaml", PLACEHOLDERS)
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert done.returncode == 1
    assert "promptfooconfig.yaml:3: provider `sagemaker:llama:my-endpoint`: not supported" in done.stderr
    assert "Fill in: 2 targets in agentv.config.yaml" in done.stdout
    targets = document(project, "agentv.config.yaml")["targets"]
    assert targets["sagemaker-llama-my-endpoint"] == {
        "provider": "openai_compatible",
        "model": "sagemaker:llama:my-endpoint",
        "base_url": "${{ FILL_IN_URL_OF_SAGEMAKER_LLAMA_MY_ENDPOINT }}",
    }
    config = (project.root / "agentv.config.yaml").read_text()
    assert "# - mine: provider `slack:my-package:Provider`: not supported; replace it with a target" in config
    assert project.run("validate", "suite.yaml").returncode == 0
    run = project.run("eval", "suite.yaml")
    assert run.returncode == 2
    assert "FILL_IN_URL_OF_SAGEMAKER_LLAMA_MY_ENDPOINT is not set" in run.stderr
    project.write("agentv.config.yaml", "targets: {sagemaker-llama-my-endpoint: {provider: mock, response: Hi Ann}}")
    assert project.run("eval", "suite.yaml").returncode == 0


PROVIDERS = """\
prompts: [Hello]
providers:
  - openai:gpt-4o-mini
  - openai:responses:gpt-5
  - anthropic:messages:claude-sonnet-4-5
  - id: azureopenai:chat:my-deployment
    label: Azure one
    config: {apiHost: me.openai.azure.com, temperature: 0.5}
  - ollama:chat:llama3.2:1b
  - google:gemini-2.5-flash
  - openai:chat:gpt-4o:
      config: {apiBaseUrl: "http://127.0.0.1:1/v1", max_tokens: 9, apiKey: "{{env.OTHER_KEY}}"}
tests:
  - assert: [{type: llm-rubric, value: Greets the reader., provider: openai:chat:gpt-4o-grader}]
"""


def test_providers_become_targets(project: Project) -> None:
    project.write("promptfooconfig.yaml", PROVIDERS)
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert document(project, "agentv.config.yaml") == {
        "targets": {
            "gpt-4o-mini": {"provider": "openai", "model": "gpt-4o-mini", "api_key": "${{ OPENAI_API_KEY }}"},
            "gpt-5": {"provider": "openai", "model": "gpt-5", "api": "responses", "api_key": "${{ OPENAI_API_KEY }}"},
            "claude-sonnet-4-5": {
                "provider": "anthropic",
                "model": "claude-sonnet-4-5",
                "api_key": "${{ ANTHROPIC_API_KEY }}",
            },
            "Azure-one": {
                "provider": "azure",
                "model": "my-deployment",
                "base_url": "https://me.openai.azure.com",
                "temperature": 0.5,
                "api_key": "${{ AZURE_API_KEY }}",
            },
            "llama3.2-1b": {"provider": "ollama", "model": "llama3.2:1b"},
            "gemini-2.5-flash": {"provider": "gemini", "model": "gemini-2.5-flash"},
            "gpt-4o": {
                "provider": "openai",
                "model": "gpt-4o",
                "base_url": "http://127.0.0.1:1/v1",
                "max_output_tokens": 9,
                "api_key": "${{ OTHER_KEY }}",
            },
            "gpt-4o-grader": {
                "provider": "openai",
                "model": "gpt-4o-grader",
                "api_key": "${{ OPENAI_API_KEY }}",
            },
        },
        "defaults": {"target": "gpt-4o-mini"},
    }
    (evaluator,) = cases(project)["test-1"]["evaluators"]
    assert evaluator == {
        "name": "rubric",
        "type": "rubric",
        "rubrics": ["Greets the reader."],
        "judge_target": "gpt-4o-grader",
    }
    assert "--target gpt-4o-mini --target gpt-5" in done.stdout
    assert "--target gpt-4o-grader" not in done.stdout


PROGRAMS = """\
prompts: ["say {{word}}"]
providers: ["exec:python last.py", "python:tools/shout.py:call", "file://tools/shout.py"]
tests:
  - {vars: {word: hello}, assert: [{type: equals, value: say hello}]}
"""


def test_programs_become_cli_targets_in_their_directory(project: Project) -> None:
    project.write("old/promptfooconfig.yaml", PROGRAMS)
    project.write("old/last.py", "import sys\nprint(sys.argv[-1])\n")
    project.write(
        "old/tools/shout.py",
        """\
        print("loading")
        def call_api(prompt, options, context):
            print("noise")
            return {"output": prompt}
        async def call(prompt, options, context):
            return {"error": "out of order"} if options["config"] else {"output": prompt.upper()}
        """,
    )
    done = project.run("import", "promptfoo", "old/promptfooconfig.yaml", "--out", "evals/words.yaml")
    assert done.returncode == 0, done.stderr
    assert "(note)" in done.stderr
    names = list(document(project, "evals/agentv.config.yaml")["targets"])
    options = [word for name in names for word in ("--target", name)]
    project.run("eval", "evals/words.yaml", *options)
    rows = {row["target"]: row for row in project.rows()}
    assert [row["error"] for row in rows.values()] == [None, None, None]
    assert [rows[name]["candidate_answer"].strip() for name in names] == ["say hello", "SAY HELLO", "say hello"]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize(
    ("name", "code"),
    [
        (
            "provider.mjs",
            "export default class { constructor(options) { this.word = options.config.word; }\n"
            "  async callApi(prompt) { console.log('noise'); return {output: this.word + prompt}; } }\n",
        ),
        ("provider.cjs", "module.exports = async (prompt) => ({output: 'loud ' + prompt});\n"),
        ("broken.mjs", "export default async () => ({error: 'out of order'});\n"),
    ],
)
def test_javascript_providers_become_cli_targets(project: Project, name: str, code: str) -> None:
    project.write(
        "promptfooconfig.yaml",
        f"prompts: ['say {{{{x}}}}']\nproviders: [{{id: 'file://{name}', config: {{word: 'loud '}}}}]\n"
        "tests: [{vars: {x: hello}}]\n",
    )
    (project.root / name).write_text(code)
    assert project.run("import", "promptfoo", "promptfooconfig.yaml").returncode == 0
    project.run("eval", "suite.yaml")
    (row,) = project.rows()
    if name == "broken.mjs":
        assert "out of order" in row["error"]["message"]
    else:
        assert row["candidate_answer"] == "loud say hello"


def test_prompts_are_read_from_strings_files_and_conversations(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts:
          - file://two.txt
          - {id: file://chat.json, label: As a chat}
          - '[{"role": "user", "content": "Hi {{name}}"}]'
        providers: [echo]
        tests: [{vars: {name: 'Ann "A"'}}]
        """,
    )
    project.write("two.txt", "One for {{name}}\n---\nTwo for {{ name }}\n")
    project.write(
        "chat.json", '[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "I am {{name}}"}]'
    )
    assert project.run("import", "promptfoo", "promptfooconfig.yaml").returncode == 0
    assert document(project)["prompts"] == [
        {"id": "prompt-1", "template": "One for {{name}}"},
        {"id": "prompt-2", "template": "Two for {{ name }}"},
        {
            "id": "As-a-chat",
            "messages": [
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": "I am {{name}}"},
            ],
        },
        {"id": "prompt-4", "messages": [{"role": "user", "content": "Hi {{name}}"}]},
    ]
    assert project.run("validate", ".").returncode == 0
    project.run("eval", "suite.yaml")
    answers = {row["prompt"]: row["candidate_answer"] for row in project.rows()}
    assert (answers["prompt-2"], answers["prompt-4"]) == ('Two for Ann "A"', 'Hi Ann "A"')


def test_tests_are_read_from_files(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        "prompts: ['{{q}}']\nproviders: [echo]\ntests: [file://a.yaml, file://b.jsonl, c.csv]\n",
    )
    project.write("a.yaml", "- {description: from yaml, vars: {q: [x, z]}}\n")
    project.write("b.jsonl", json.dumps({"vars": {"q": "y"}, "assert": [{"type": "equals", "value": "y"}]}) + "\n")
    project.write(
        "c.csv",
        'q,__expected,__expected2,__metric,__threshold\n"a, b",contains: a,"icontains-any:B,C",letters,0.5\nd,d,,,\n',
    )
    assert project.run("import", "promptfoo", "promptfooconfig.yaml").returncode == 0
    found = cases(project)
    assert list(found) == ["from-yaml", "from-yaml-2", "test-2", "test-3", "test-4"]
    assert [case["vars"]["q"] for case in found.values()] == ["x", "z", "y", "a, b", "d"]
    assert found["test-3"]["threshold"] == 0.5
    assert found["test-3"]["evaluators"] == [
        {"name": "letters", "type": "contains", "value": "a"},
        {"name": "letters-2", "type": "icontains", "value": ["B", "C"], "match": "any"},
    ]
    assert found["test-4"]["evaluators"] == [{"name": "equals", "type": "equals", "value": "d"}]


def test_import_does_not_overwrite_without_force(project: Project) -> None:
    project.write("promptfooconfig.yaml", "prompts: [x]\nproviders: [echo]\n")
    project.write("agentv.config.yaml", "targets: {mine: {provider: mock, response: x}}\n")
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert done.returncode == 2
    assert "agentv.config.yaml already exists" in done.stderr
    assert not (project.root / "suite.yaml").exists()
    assert project.run("import", "promptfoo", "promptfooconfig.yaml", "--force").returncode == 0
    assert "echo" in document(project, "agentv.config.yaml")["targets"]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("promptfooconfig.yaml", "prompts: [x\n", "promptfooconfig.yaml:1"),
        ("promptfooconfig.yaml", "- a\n", "must be a mapping"),
        ("promptfooconfig.yaml", "providers: [echo]\n", "no prompt can be imported"),
        (
            "promptfooconfig.yaml",
            "prompts: [x]\nproviders: [echo]\nredteam: {plugins: [pii]}\n",
            "promptfooconfig.yaml:3:1: red-team configurations (`redteam`) are not supported",
        ),
        (
            "promptfooconfig.yaml",
            "prompts: [x]\nproviders: [echo]\ntests: file://none.csv\n",
            "promptfooconfig.yaml:3:1: none.csv does not exist",
        ),
        ("promptfooconfig.js", "module.exports = {}\n", "must be YAML or JSON"),
    ],
)
def test_unreadable_configuration_is_reported_and_nothing_is_written(
    project: Project, name: str, text: str, problem: str
) -> None:
    project.write(name, text)
    done = project.run("import", "promptfoo", name)
    assert done.returncode == 2
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in project.root.glob("*.*") if path.name != ".git"] == [name]


def test_templates_are_rendered_as_in_promptfoo() -> None:
    values: dict[str, Any] = {"a": "{{b}}", "b": "no", "deep": {"list": ["x", 1.5]}, "n": None}
    template = converted("{{a}} {{ deep.list[1] }} {{-n-}}{{unknown}}|{{ deep | dump }}|{{ b | upper }}")
    assert render(template, values) == '{{b}} 1.5{"list": ["x", 1.5]}|NO'.replace("1.5{", "1.5|{")
    assert values["unknown"] == ""
    assert resolved(values) == {**values, "a": "no"}
    for odd in ("{{ b | nl2br }}", "{{ env.SECRET }}", "{{ b === 1 }}", "{% for m in _conversation %}{% endfor %}"):
        with pytest.raises(UnsupportedTemplateError):
            converted(odd)


def test_list_variables_expand_to_every_combination() -> None:
    assert list(combinations({"a": [1, 2], "b": "x", "c": ["y", "z"]})) == [
        {"a": 1, "b": "x", "c": "y"},
        {"a": 1, "b": "x", "c": "z"},
        {"a": 2, "b": "x", "c": "y"},
        {"a": 2, "b": "x", "c": "z"},
    ]


@pytest.mark.parametrize(
    ("cell", "assertion"),
    [
        ("Paris", {"type": "equals", "value": "Paris"}),
        ("contains:Paris", {"type": "contains", "value": "Paris"}),
        ("not-contains: a: b", {"type": "not-contains", "value": "a: b"}),
        ("similar(0.8):Paris", {"type": "similar", "value": "Paris", "threshold": 0.8}),
        ("is-json", {"type": "is-json"}),
        ("grade: is kind", {"type": "llm-rubric", "value": "is kind"}),
        ("fn: output.length", {"type": "javascript", "value": "output.length"}),
        ("http://example.com", {"type": "equals", "value": "http://example.com"}),
    ],
)
def test_short_assertions_in_csv_cells_are_parsed(cell: str, assertion: dict[str, Any]) -> None:
    assert short_assertion(cell) == assertion


def test_unsupported_prompt_template_drops_only_its_prompt(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts:
          - "Plain {{x}}"
          - "Loud {{x | upper}}{% if y %} and {{y}}{% endif %}"
          - "Odd {{x | nl2br}}"
        providers: [echo]
        tests:
          - vars: {x: a}
            assert: [{type: icontains, value: "{{ x }}"}]
        """,
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert done.returncode == 1, done.stderr
    assert "promptfooconfig.yaml:4: prompt: the template {{x | nl2br}} cannot be used: no filter named" in done.stderr
    assert "no value for y: an empty string is used" in done.stderr
    assert [prompt["id"] for prompt in document(project)["prompts"]] == ["prompt-1", "prompt-2"]
    assert project.run("eval", "suite.yaml").returncode == 0
    assert {row["candidate_answer"] for row in project.rows()} == {"Plain a", "Loud A"}


def test_import_without_usable_prompts_reports_every_reason(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts: ["Odd {{x | nl2br}}", "file://prompt.py"]
        providers: [echo]
        tests: [{vars: {x: a}, assert: [{type: contains, value: a}]}]
        """,
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert done.returncode == 2
    assert "promptfooconfig.yaml:1:1: prompt: the template {{x | nl2br}}" in done.stderr
    assert "prompt.py is a program that generates prompts" in done.stderr
    assert "no prompt can be imported" in done.stderr


def test_variables_inside_variables_are_filled_in(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts: ["About {{topic}}"]
        providers: [echo]
        defaultTest: {vars: {tone: dry, hint: "in a {{tone}} tone"}}
        tests:
          - vars: {topic: [figs, "dates {{hint}}"]}
            assert: [{type: contains, value: "About {{topic}}"}]
          - vars: {topic: "{{hint}}", tone: warm}
        """,
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert document(project)["vars"] == {"tone": "dry", "hint": "in a dry tone"}
    assert project.run("eval", "suite.yaml").returncode == 0
    answers = {row["eval_id"]: row["candidate_answer"] for row in project.rows()}
    assert answers == {
        "test-1": "About figs",
        "test-1-2": "About dates in a dry tone",
        "test-2": "About in a warm tone",
    }


SHARED = """\
prompts: ["{{greeting}} {{name}}"]
providers: [echo]
defaultTest:
  vars: {greeting: Hello}
  assert: [{type: contains, value: "{{name}}"}]
tests:
  - {vars: {name: Ann}}
  - {vars: {name: Bob, greeting: Bye}, assert: [{type: starts-with, value: Bye}]}
scenarios:
  - config: [{vars: {name: Cem}}, {vars: {name: Dora}}]
    tests:
      - {description: in a scenario, assert: [{type: contains, value: Hello}]}
"""


def test_defaults_and_scenarios_stay_shared(project: Project) -> None:
    project.write("promptfooconfig.yaml", SHARED)
    assert project.run("import", "promptfoo", "promptfooconfig.yaml").returncode == 0
    suite = document(project)
    assert suite["execution"] == {
        "threshold": 1.0,
        "evaluators": [{"name": "contains", "type": "contains", "value": "{{name}}"}],
    }
    assert suite["vars"] == {"greeting": "Hello"}
    assert [case["vars"] for case in suite["evalcases"]] == [
        {"name": "Ann"},
        {"name": "Bob", "greeting": "Bye"},
        {"name": "Cem"},
        {"name": "Dora"},
    ]
    assert suite["evalcases"][2]["evaluators+"] == [{"name": "contains-2", "type": "contains", "value": "Hello"}]
    assert project.run("eval", "suite.yaml").returncode == 0


def test_prompts_of_providers_and_tests_become_separate_suites(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts: [{label: short, raw: "{{x}}"}, {label: long, raw: "Please {{x}}"}]
        providers:
          - {id: echo, label: one, prompts: [short]}
          - {id: echo, label: two}
        tests:
          - {vars: {x: a}}
          - {vars: {x: b}, prompts: [long]}
        """,
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    suites = sorted(path.name for path in project.root.glob("suite*.yaml"))
    assert suites == ["suite-one-short.yaml", "suite-two-long.yaml", "suite-two-short-long.yaml"]
    assert project.run("eval", *suites).returncode == 0
    answered = {(row["target"], row["prompt"], row["candidate_answer"]) for row in project.rows()}
    assert answered == {
        ("one", "short", "a"),
        ("two", "short", "a"),
        ("two", "long", "Please a"),
        ("two", "long", "Please b"),
    }


def test_scenarios_join_the_assertions_of_their_configurations_and_tests(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts: ["{{x}}"]
        providers: [echo]
        scenarios:
          - config:
              - {vars: {x: ab}, assert: [{type: contains, value: a}]}
              - {vars: {x: b}, assert: [{type: contains, value: a}]}
            tests: [{assert: [{type: icontains, value: b}]}]
        """,
    )
    assert project.run("import", "promptfoo", "promptfooconfig.yaml").returncode == 0
    assert project.run("eval", "suite.yaml").returncode == 1
    assert {row["eval_id"]: row["verdict"] for row in project.rows()} == {"test-1": "pass", "test-2": "fail"}
    assert [[result["name"] for result in row["evaluator_results"]] for row in project.rows()] == [
        ["contains", "icontains"],
        ["contains", "icontains"],
    ]


def test_tests_inherit_prompts_and_metadata_of_the_default_test(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts:
          - {label: "math:short", raw: "{{x}}"}
          - {label: "math:long", raw: "Please {{x}}"}
          - {label: talk, raw: Hi}
        providers: [echo]
        defaultTest: {prompts: [math], metadata: {area: sums, level: easy}}
        tests:
          - {vars: {x: a}}
          - {vars: {x: b}, prompts: ["math:l*"], metadata: {level: hard}}
        """,
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert project.run("eval", *sorted(path.name for path in project.root.glob("suite*.yaml"))).returncode == 0
    answers = {(row["candidate_answer"], row["metadata"]["area"], row["metadata"]["level"]) for row in project.rows()}
    assert answers == {("a", "sums", "easy"), ("Please a", "sums", "easy"), ("Please b", "sums", "hard")}


def test_test_without_the_default_assertions_keeps_only_its_own(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts: ["{{x}}"]
        providers: [echo]
        defaultTest: {assert: [{type: contains, value: a}]}
        tests:
          - {vars: {x: b}, options: {disableDefaultAsserts: true}, assert: [{type: contains, value: b}]}
          - {vars: {x: b}, assert: [{type: contains, value: b}]}
        """,
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    project.run("eval", "suite.yaml")
    assert {row["eval_id"]: row["verdict"] for row in project.rows()} == {"test-1": "pass", "test-2": "fail"}


def test_provider_of_a_test_is_the_target_with_this_id_or_label(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts: ["{{x}}"]
        providers:
          - {id: "openai:gpt-5", config: {temperature: 0}}
          - {id: "openai:gpt-5-mini", label: The small one}
        tests:
          - {vars: {x: a}, providers: ["openai:gpt-5"]}
          - {vars: {x: b}, provider: The small one}
          - {vars: {x: c}, provider: "openai:gpt-5-nano"}
        """,
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    targets = document(project, "agentv.config.yaml")["targets"]
    assert list(targets) == ["gpt-5", "The-small-one", "gpt-5-nano"]
    assert targets["gpt-5"]["temperature"] == 0
    assert [case["execution"] for case in document(project)["evalcases"]] == [
        {"target": "gpt-5"},
        {"target": "The-small-one"},
        {"target": "gpt-5-nano"},
    ]


@pytest.mark.parametrize(
    ("template", "setting"),
    [
        ("{{ env.HOST }}", "${{ HOST }}"),
        ("https://{{env.HOST | default('a.example')}}/v1", "https://${{ HOST:-a.example }}/v1"),
        ('{{ env.HOST | default("./a b", true) }}', "${{ HOST:-./a b }}"),
        ("{{ env.HOST or 'x' }}", "${{ HOST:-x }}"),
        ("{{ env.HOST | upper }}", "{{ env.HOST | upper }}"),
    ],
)
def test_environment_variables_keep_their_defaults(template: str, setting: str) -> None:
    assert environment_variables([template]) == [setting]


def test_function_outside_the_repository_of_the_suite_is_left_out(project: Project) -> None:
    project.write("theirs/check.py", "import own\ndef get_assert(output, context): return True\n")
    project.write("theirs/own.py", "")
    project.write(
        "theirs/promptfooconfig.yaml",
        """\
        prompts: [Hello]
        providers: [echo]
        tests: [{assert: [{type: python, value: "file://check.py"}, {type: contains, value: H}]}]
        """,
    )
    (project.root / "ours" / ".git").mkdir(parents=True)
    done = project.run("import", "promptfoo", "theirs/promptfooconfig.yaml", "--out", "ours/suite.yaml")
    assert done.returncode == 1
    assert "write the suite next to the configuration (`--out`)" in done.stdout + done.stderr
    assert [each["type"] for each in document(project, "ours/suite.yaml")["evalcases"][0]["evaluators"]] == ["contains"]
    assert project.run("validate", "ours/suite.yaml").returncode == 0
    assert (
        project.run("import", "promptfoo", "theirs/promptfooconfig.yaml", "--out", "theirs/suite.yaml").returncode == 0
    )


def test_assertions_in_a_set_keep_their_meaning(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts: ["{{x}}"]
        providers: [echo]
        assertionTemplates: {short: {type: contains, value: abc}}
        tests:
          - vars: {x: abc}
            assert:
              - type: assert-set
                threshold: 0.5
                assert: [{type: contains, value: a}, {type: contains, value: x}]
              - {$ref: "#/assertionTemplates/short"}
          - vars: {x: abc}
            assert:
              - type: assert-set
                assert: [{type: contains, value: a}, {type: contains, value: x}]
        """,
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    project.run("eval", "suite.yaml")
    assert {row["eval_id"]: row["verdict"] for row in project.rows()} == {"test-1": "pass", "test-2": "fail"}


CONFIGURED = """\
prompts: [Hello]
providers:
  - {id: "bedrock:us.amazon.nova-lite-v1:0", config: {region: us-east-1, inferenceConfig: {max_new_tokens: 9}}}
  - id: openai:responses:gpt-5
    config: {reasoning_effort: low, response_format: {type: json_schema, json_schema: {name: a}}}
  - id: anthropic:claude-sonnet-4-5
    config: {thinking: {type: enabled, budget_tokens: 2048}, tools: "file://tools.json"}
  - {id: "deepseek:deepseek-chat", delay: 1000, config: {top_p: 0.5, seed: 1}}
  - {id: "google:gemini-2.5-flash", config: {generationConfig: {topK: 3, maxOutputTokens: 5}}}
evaluateOptions: {maxConcurrency: 2, showProgressBar: false}
"""


def test_settings_of_providers_are_kept(project: Project) -> None:
    project.write("promptfooconfig.yaml", CONFIGURED)
    project.write("tools.json", '[{"name": "search"}]')
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    targets = document(project, "agentv.config.yaml")["targets"]
    assert {settings.pop("max_concurrency") for settings in targets.values()} == {1, 2}
    assert targets["us.amazon.nova-lite-v1-0"] == {
        "provider": "bedrock",
        "model": "us.amazon.nova-lite-v1:0",
        "region": "us-east-1",
        "max_output_tokens": 9,
    }
    assert targets["gpt-5"]["extra_body"] == {
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "a"}},
    }
    assert targets["claude-sonnet-4-5"]["thinking_budget"] == 2048
    assert targets["claude-sonnet-4-5"]["extra_body"] == {"tools": [{"name": "search"}]}
    assert targets["deepseek-chat"] == {
        "provider": "openai_compatible",
        "model": "deepseek-chat",
        "base_url": "https://api.deepseek.com/v1",
        "top_p": 0.5,
        "extra_body": {"seed": 1},
        "api_key": "${{ DEEPSEEK_API_KEY }}",
        "requests_per_minute": 60.0,
    }
    assert targets["gemini-2.5-flash"]["extra_body"] == {"generationConfig": {"topK": 3}}


def test_judge_target_is_written_once_if_many_tests_use_it(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts: ["{{q}}"]
        providers: [{id: "openai:gpt-5", config: {temperature: 0}}, "openai:gpt-5-mini"]
        evaluateOptions: {maxConcurrency: 2}
        defaultTest:
          assert:
            - {type: llm-rubric, value: polite, provider: "openai:gpt-5"}
            - {type: llm-rubric, value: short, provider: "openai:gpt-5-mini"}
        tests: [{vars: {q: a}}, {vars: {q: b}}, {vars: {q: c}}]
        """,
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    targets = document(project, "agentv.config.yaml")["targets"]
    assert list(targets) == ["gpt-5", "gpt-5-mini", "gpt-5-2"]
    assert {settings["max_concurrency"] for settings in targets.values()} == {2}


def test_missing_file_of_a_provider_is_reported(project: Project) -> None:
    project.write("promptfooconfig.yaml", "prompts: [Hello]\nproviders: ['file://gpt.yaml']\n")
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert done.returncode == 1
    assert "provider `file://gpt.yaml`: gpt.yaml does not exist; target" in done.stderr


def test_columns_of_csv_files_give_metadata_and_thresholds(project: Project) -> None:
    project.write("promptfooconfig.yaml", "prompts: ['{{q}}']\nproviders: [echo]\ntests: tests.csv\n")
    project.write(
        "tests.csv",
        "q,__expected,__config:__expected:threshold,__metadata:topic,__metadata:tags[]\n"
        'x,llm-rubric: is kind,0.7,manners,"a,b\\, c"\n',
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert done.returncode == 0, done.stderr
    case = cases(project)["test-1"]
    assert case["metadata"] == {"topic": "manners", "tags": ["a", "b, c"]}
    assert (case["evaluators"][0]["type"], case["evaluators"][0]["threshold"]) == ("llm_judge", 0.7)
