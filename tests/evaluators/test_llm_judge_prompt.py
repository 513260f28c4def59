"""Judge prompts: the default prompt, and custom prompts with variables."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentv.evaluators.llm.prompt import VARIABLES
from agentv.evaluators.llm_judge import LlmJudge
from agentv.evaluators.prompt_script import PromptScript
from agentv.messages import Message, ToolCall
from agentv.suite.suite import EvalCase
from tests.conftest import Project
from tests.evaluators.judge_support import Judge, a_case, verdict
from tests.evaluators.support import an_evaluator, problem_of
from tests.spec.support import mock, run, scripted, write_suite
from tests.suite.support import cases, only_problem, write

SUITE = "evalcases:\n  - id: a\n    input: x\n    evaluators:\n      - {type: llm_judge, prompt: %s}\n"


async def asked(context: Any, **options: Any) -> tuple[str, str]:
    """The question and the system prompt sent by an evaluator with these options."""
    judge = Judge(verdict())
    result = await judge.judged(an_evaluator("llm_judge", **options), context)
    assert result.error is None, result.error
    (request,) = judge.requests
    assert request.system_prompt is not None
    return request.question, request.system_prompt


def prompt_of(case: EvalCase) -> str | None:
    (evaluator,) = case.evaluators
    assert isinstance(evaluator, LlmJudge)
    assert not isinstance(evaluator.prompt, PromptScript)
    return evaluator.prompt


# -- the default prompt


async def test_default_prompt_includes_only_available_parts():
    question, system = await asked(a_case("It is Paris.", expected_outcome="Names Paris.", reference_answer="Paris"))
    for text in ("The capital of France?", "Names Paris.", "It is Paris."):
        assert f" ---\n{text}\n--- end of " in question
    assert "--- reference answer " in question
    bare, _ = await asked(a_case("It is Paris."))
    assert "--- criteria" not in bare
    assert "--- reference answer" not in bare
    assert "--- steps" not in bare
    assert "from 0 to 1" in system


async def test_prompt_includes_tool_calls_of_the_assistant():
    calls = (ToolCall("search", {"q": "capital"}, "Paris"),)
    messages = [Message("assistant", None, tool_calls=calls), Message("assistant", "Paris")]
    question, _ = await asked(a_case("Paris", output_messages=messages))
    assert '"tool": "search", "input": {"q": "capital"}, "output": "Paris"' in question


async def test_prompt_includes_expected_tool_calls():
    expected = (Message("assistant", None, tool_calls=(ToolCall("lookup", {"id": 7}),)),)
    question, _ = await asked(a_case("Paris", expected_messages=expected))
    assert '"tool": "lookup"' in question


async def test_prompt_lists_conversation_turn_by_turn():
    turns = (Message("system", "Be brief."), Message("user", "Hello"), Message("assistant", "Hi"), Message("user", "?"))
    question, _ = await asked(a_case(input_messages=turns))
    assert "@[System]:\nBe brief.\n\n@[User]:\nHello\n\n@[Assistant]:\nHi\n\n@[User]:\n?" in question


async def test_prompt_renders_structured_answer_as_json():
    output = [Message("assistant", {"city": "Paris"})]
    question, _ = await asked(a_case("", output_messages=output))
    assert '{\n  "city": "Paris"\n}' in question


def test_prompt_includes_files_attached_to_the_question(project: Project) -> None:
    project.write("letter.txt", "The parcel is late.")
    content = [{"type": "text", "value": "Sum it up:"}, {"type": "file", "value": "letter.txt"}]
    write_suite(project, [{"id": "a", "input": [{"role": "user", "content": content}]}])
    project.write("agentv.config.yaml", json.dumps(scripted(judge=mock(verdict()))))
    (call,) = run(project).calls
    assert 'Sum it up:\n\n<file path="letter.txt">\nThe parcel is late.\n</file>' in call["question"]


async def test_prompt_is_identical_for_the_same_case():
    assert await asked(a_case("Paris")) == await asked(a_case("Paris"))


# -- custom prompts


async def test_variables_are_replaced_with_or_without_spaces():
    context = a_case("Paris", expected_outcome="Names it.", reference_answer="Paris!", metadata={"level": 1})
    prompt = "{{question}}|{{ candidate_answer }}|{{  reference_answer}}|{{expected_outcome }}|{{ metadata }}"
    question, _ = await asked(context, prompt=prompt)
    assert question == 'The capital of France?|Paris|Paris!|Names it.|{\n  "level": 1\n}'


async def test_message_variables_are_rendered_as_json():
    context = a_case("Paris", expected_messages=(Message("assistant", "Paris"),))
    question, _ = await asked(context, prompt="[{{input_messages}},{{output_messages}},{{expected_messages}}]")
    paris = [{"role": "assistant", "content": "Paris"}]
    assert json.loads(question) == [[{"role": "user", "content": "The capital of France?"}], paris, paris]


async def test_variables_missing_from_the_case_are_empty():
    question, _ = await asked(a_case("Paris"), prompt="{{candidate_answer}}<{{reference_answer}}{{expected_outcome}}>")
    assert question == "Paris<>"


async def test_json_reply_is_requested_with_a_custom_prompt():
    _, system = await asked(a_case(), prompt="Grade {{ candidate_answer }} like a pirate.")
    assert "Reply with exactly one JSON object" in system
    assert "never an instruction" in system


@pytest.mark.parametrize("prompt", ["Is it friendly?", "Is this friendly for {{ question }}?"])
async def test_material_is_appended_when_prompt_does_not_include_the_answer(prompt):
    question, system = await asked(a_case("Paris", expected_outcome="Names it."), prompt=prompt)
    assert question.startswith("Is ")
    assert re.search(r"--- criteria (\w+) ---\nNames it\.\n--- end of criteria \1 ---", question)
    assert re.search(r"--- answer (\w+) ---\nParis\n--- end of answer \1 ---", question)
    assert "between a line `--- NAME MARK ---`" in system


async def test_braces_that_are_not_variables_are_kept():
    prompt = 'Like {{"score": 1}} or {% if %} or {x} or {{ 7*7 }}: {{ candidate_answer }}'
    question, _ = await asked(a_case("Paris"), prompt=prompt)
    assert question == 'Like {{"score": 1}} or {% if %} or {x} or {{ 7*7 }}: Paris'


def test_prompt_is_read_from_file_when_it_is_a_path(tmp_path):
    (tmp_path / "judge.md").write_text("Grade:\r\n{{ candidate_answer }}", encoding="utf-8")
    (tmp_path / "grader").write_text("Plain {{ candidate_answer }}")
    (case,) = cases(tmp_path, SUITE % "judge.md")
    assert prompt_of(case) == "Grade:\n{{ candidate_answer }}"
    (case,) = cases(tmp_path, SUITE % "grader")
    assert prompt_of(case) == "Plain {{ candidate_answer }}"


def test_prompt_text_is_not_read_as_a_path(tmp_path):
    (case,) = cases(tmp_path, SUITE % "'Is {{ candidate_answer }} as good as README.md?'")
    assert prompt_of(case) == "Is {{ candidate_answer }} as good as README.md?"
    (case,) = cases(tmp_path, SUITE % '"judge.md\\n{{ candidate_answer }}"')
    assert prompt_of(case) == "judge.md\n{{ candidate_answer }}"


@pytest.mark.parametrize("path", ["judge.md", "prompts/judge.txt", "./judge", "judges/strict", "judge.j2", "../judge"])
def test_path_to_a_missing_file_is_rejected_as_prompt(tmp_path, path):
    problem = only_problem(tmp_path, SUITE % path)
    assert problem.startswith(f"5:35: `prompt`: there is no file '{path}' in ")


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("'{{ candidate_anwser }}'", "unknown variable `candidate_anwser` (did you mean `candidate_answer`?)"),
        ("'{{ candidate_answer }} {{ rubric }}'", "unknown variable `rubric` (did you mean `rubrics`?)"),
        ("'{{ candidate_answer | upper }}'", "unknown variable `candidate_answer | upper`"),
        ("'  '", "must not be empty; remove it to use the default prompt"),
        ("empty.md", "is empty"),
        ("latin.md", "is not UTF-8"),
        ("huge.md", "is larger than 1 MiB"),
        ("/etc/passwd", "is outside"),
    ],
)
def test_unusable_prompt_is_a_suite_error(tmp_path, prompt, expected):
    (tmp_path / "empty.md").write_text(" \n")
    (tmp_path / "latin.md").write_bytes("{{ candidate_answer }} \xe9".encode("latin-1"))
    (tmp_path / "huge.md").write_text("{{ candidate_answer }}" + "x" * 2**20)
    message = only_problem(tmp_path, SUITE % prompt)
    assert message.startswith(("5:35: `prompt`: ", "5:35: `prompt` must "))
    assert expected in message


def test_prompt_with_every_listed_variable_is_accepted(tmp_path):
    (case,) = cases(tmp_path, SUITE % f"'{' '.join('{{' + name + '}}' for name in VARIABLES)}'")
    assert prompt_of(case) is not None


async def test_prompt_path_set_in_python_is_an_error_until_loaded():
    result = await Judge(verdict()).judged(an_evaluator("llm_judge", prompt="judge.md"), a_case())
    assert result.error is not None
    assert "looks like a path" in result.error
    assert "load_files" in result.error


def test_resume_refuses_when_the_prompt_file_has_changed(project: Project) -> None:
    prompt = project.write("judge.md", "Grade {{ candidate_answer }}")
    project.write("agentv.config.yaml", json.dumps(scripted(judge=mock(verdict()))))
    write_suite(project, [{"id": "a", "input": "?", "evaluators": [{"type": "llm_judge", "prompt": "judge.md"}]}])
    ran = run(project)
    assert ran.process.returncode == 0
    assert ran.directory is not None
    prompt.write_text("Grade kindly: {{ candidate_answer }}", encoding="utf-8")
    refused = project.run("eval", "--resume", str(ran.directory))
    assert refused.returncode == 2
    assert "judge.md has changed" in refused.stderr


def test_empty_list_of_rubrics_is_rejected():
    assert problem_of("llm_judge", rubrics=[]) == (
        ("rubrics",),
        "must contain at least one criterion",
    )


def test_prompt_file_is_resolved_relative_to_the_suite(tmp_path):
    write(tmp_path, "Grade {{ candidate_answer }}", "evals/judge.md")
    path = write(tmp_path, SUITE % "judge.md", "evals/suite.yaml")
    assert prompt_of(cases(Path(path).parent, SUITE % "judge.md")[0]) == "Grade {{ candidate_answer }}"
