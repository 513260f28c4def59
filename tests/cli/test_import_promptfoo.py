"""`agentv import promptfoo`: imported suites give the same verdicts as promptfoo."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentv.importing.rows import short_assertion
from agentv.importing.templates import TemplateError, combinations, render
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
    assert "9 cases, 1 target; 0 left out" in done.stdout
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
  - huggingface:text-generation:some/model
  - id: openai:chat:gpt-4o
    config:
      apiKey: sk-abcdefgh12345678
      top_p: 0.5
tests:
  - vars: {a: 1}
    assert:
      - {type: contains, value: Hello}
      - type: javascript
        value: output.length < 10
      - {type: python, value: "file://check.py"}
      - {type: similar, value: Hi, threshold: 0.8}
      - {type: regex, value: "(?<a>x"}
      - {type: contains, value: "{{ a | upper }}"}
  - assert: [{type: javascript, value: "false"}]
scenarios: []
sharing: true
tags: {team: search, 2: b}
"""


def test_left_out_parts_are_listed_with_lines_in_output_and_suite(project: Project) -> None:
    project.write("promptfooconfig.yaml", LEFT_OUT)
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert [line.split(": ", 1)[0].rpartition(":")[2] for line in lines] == [
        *("20", "4", "7", "8", "13", "15", "16", "17", "18", "19", "19")
    ]
    text = (project.root / "suite.yaml").read_text()
    assert all(f"# - {line}" in text for line in lines)
    assert "code_judge" in text
    assert "none of its assertions is" in text
    assert [evaluator["value"] for evaluator in cases(project)["test-1"]["evaluators"]] == ["Hello"]
    assert list(cases(project)) == ["test-1"]
    assert document(project, "suite.yaml")["tags"] == ["team=search", "2=b"]


def test_api_key_is_never_copied(project: Project) -> None:
    project.write("promptfooconfig.yaml", LEFT_OUT)
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    everything = done.stdout + done.stderr + "".join(path.read_text() for path in project.root.glob("*.yaml"))
    assert everything.count("sk-abcdefgh12345678") == 1  # where it was
    assert document(project, "agentv.config.yaml")["targets"]["gpt-4o"]["api_key"] == "${{ OPENAI_API_KEY }}"


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
    inputs = [
        cases(project, f"suite-{suffix}.yaml")["test-1"]["input"]
        for suffix in ("prompt-1", "prompt-2", "As-a-chat", "prompt-4")
    ]
    assert inputs == [
        'One for Ann "A"',
        'Two for Ann "A"',
        [{"role": "system", "content": "Be kind."}, {"role": "user", "content": 'I am Ann "A"'}],
        [{"role": "user", "content": 'Hi Ann "A"'}],
    ]
    assert project.run("validate", ".").returncode == 0


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
    assert [case["input"] for case in found.values()] == ["x", "z", "y", "a, b", "d"]
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
        ("promptfooconfig.yaml", "prompts: [x]\nproviders: [missing:x]\n", "no provider can be imported"),
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


def test_variables_are_expanded_once() -> None:
    values = {"a": "{{b}}", "b": "no", "deep": {"list": ["x", 1.5]}, "n": None}
    assert render("{{a}} {{ deep.list[1] }} {{-n-}}{{unknown}}|{{ deep }}", values) == (
        '{{b}} 1.5 |{"list": ["x", 1.5]}'
    )
    for template in ("{{ a | upper }}", "{% if a %}x{% endif %}", "{{ env.SECRET }}"):
        with pytest.raises(TemplateError):
            render(template, values)


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


def test_unsupported_prompt_template_drops_only_its_suite(project: Project):
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts:
          - "Plain {{x}}"
          - "Filtered {{x | upper}}"
        providers: [echo]
        tests:
          - vars: {x: a}
            assert: [{type: contains, value: a}]
        """,
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert done.returncode == 1, done.stderr
    assert "promptfooconfig.yaml:3: the prompt uses {{x | upper}}" in done.stderr
    assert list(cases(project, "suite-prompt-1.yaml")) == ["test-1"]
    assert not (project.root / "suite-prompt-2.yaml").exists()


def test_import_without_usable_tests_reports_every_reason(project: Project):
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts: ["Filtered {{x | upper}}"]
        providers: [echo]
        tests: [{vars: {x: a}, assert: [{type: contains, value: a}]}]
        """,
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert done.returncode == 2
    assert "promptfooconfig.yaml:1:1: the prompt uses {{x | upper}}" in done.stderr
    assert "no test can be imported" in done.stderr


def test_nested_variable_in_a_list_is_reported(project: Project):
    project.write(
        "promptfooconfig.yaml",
        """\
        prompts: ["About {{topic}}"]
        providers: [echo]
        tests:
          - vars: {topic: [figs, "{{other}}"]}
            assert: [{type: contains, value: About}]
        """,
    )
    done = project.run("import", "promptfoo", "promptfooconfig.yaml")
    assert done.returncode == 1
    assert "promptfooconfig.yaml:4: variables inside variables are not supported" in done.stderr
    assert "1 left out" in done.stdout
