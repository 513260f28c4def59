"""Convert promptfoo assertions to evaluators that give the same verdicts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.importing.assertion_types import CODE, GRADED, Assertion, LeftOutError, evaluator_for
from agentv.importing.copied_files import CopiedFiles
from agentv.importing.prompts import PROGRAM, free
from agentv.importing.source import FILE, Node, Notes, UnreadableError, entries, named_files, read_document, read_text
from agentv.importing.templates import UnsupportedTemplateError, converted
from agentv.suite.files import repository_root

KNOWN = {"type", "value", "threshold", "weight", "metric", "provider", "rubricPrompt"}
SETS = {"type", "assert", "threshold", "weight", "metric"}
NOT_IMPORTED = {"name": "not-imported", "type": "regex", "pattern": "(?!)"}
"""Fails for every answer: nothing checks it until the user replaces this."""
_TEMPLATES = "#/assertionTemplates/"
_ODD_TAG = re.compile(r"\{%.*?%\}|\{\{(?!-?\s*[A-Za-z_]\w*\s*-?\}\}).*?\}\}", re.DOTALL)
_OUTPUT = re.compile(r"\{\{-?\s*output\s*-?\}\}")
_RUBRIC = re.compile(r"\{\{-?\s*rubric\s*-?\}\}")


@dataclass(frozen=True, slots=True)
class Assertions:
    """The evaluators of one test, and the threshold that gives the same verdict as promptfoo."""

    evaluators: list[dict[str, Any]]
    threshold: float


@dataclass(slots=True)
class AssertReader:
    """Reads the assertions of one configuration."""

    notes: Notes
    directory: Path
    out: Path
    """The directory of the suite."""
    judge_for: Callable[[Node, Node | None], str | None]
    """Returns the judge target for an assertion of a test with these options."""
    embeddings_for: Callable[[Node, Node | None], str | None]
    """Returns the target that computes embeddings for it; None for the local model."""
    templates: Node | None = None
    """The `assertionTemplates` of the configuration."""
    default_options: Node | None = None
    copied: CopiedFiles = field(default_factory=CopiedFiles)
    """Scripts outside the repository of the suite, which are copied next to it."""
    _converted: dict[int, tuple[Node, dict[str, Any]]] = field(default_factory=dict)

    def read(self, nodes: list[Node], options: Node | None, threshold: float | None) -> Assertions:
        evaluators = self._evaluators(nodes, options)
        if nodes and not evaluators:
            evaluators.append(NOT_IMPORTED)
            self.notes.left_out(
                nodes[0],
                "none of the assertions of the test is imported; replace the check `not-imported`, which fails",
            )
        if not evaluators:
            evaluators.append({"name": "answered", "type": "regex", "pattern": "^"})
        return with_threshold(evaluators, threshold)

    def _evaluators(self, nodes: list[Node], options: Node | None) -> list[dict[str, Any]]:
        evaluators: list[dict[str, Any]] = []
        for written in nodes:
            node = self._referenced(written)
            try:
                evaluator = self._evaluator(node, options)
            except (LeftOutError, UnsupportedTemplateError, UnreadableError) as error:
                kind = node.raw("type", "?") if node.is_mapping else "?"
                self.notes.left_out(written, f"assertion `{kind}`: {error}")
                continue
            is_metric = evaluator["type"] == "metric"
            wanted = node.raw("metric") or evaluator["metric" if is_metric else "type"]
            name = free(str(wanted), {other["name"] for other in evaluators})
            if is_metric and evaluator["metric"] == name:
                del evaluator["metric"]
            evaluators.append({"name": name, **evaluator})
        return evaluators

    def _referenced(self, node: Node) -> Node:
        """The template that an assertion refers to with `$ref`."""
        name = node.raw("$ref")
        if isinstance(name, str) and name.startswith(_TEMPLATES) and self.templates is not None:
            return self.templates.get(name.removeprefix(_TEMPLATES)) or node
        return node

    def _evaluator(self, node: Node, options: Node | None) -> dict[str, Any]:
        kind = node.raw("type")
        if not isinstance(kind, str):
            raise LeftOutError("`type` is missing")
        negate, base = kind.startswith("not-"), kind.removeprefix("not-")
        if base == "assert-set":
            evaluator = self._set(node, options)
        else:
            for key, entry in entries(node):
                if key not in KNOWN and not (key == "config" and base in CODE):
                    self._refuse(key, entry)
            value = self._value(node, base)
            if base == "llm-rubric" and value is None and self._rubric_prompt(node, options) is not None:
                value = "the answer meets the specification"
            assertion = Assertion(base, value, node)
            evaluator = converted(evaluator_for(assertion))
            self._set_judge(evaluator, node, options)
            if evaluator.get("metric") == "embedding":
                self._set_embeddings(evaluator, node, options)
        if evaluator["type"] == "llm_judge" and (odd := _ODD_TAG.search(evaluator["prompt"])):
            raise LeftOutError(f"the prompt of a judge can only have variables, got {odd[0][:60]}")
        if negate:
            evaluator["negate"] = True
            if evaluator["type"] in GRADED and "threshold" in evaluator:
                evaluator["threshold"] = round(1 - evaluator["threshold"], 6)
        weight = node.raw("weight")
        if weight is not None:
            if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
                raise LeftOutError(f"`weight` must be a number of 0 or more, got {weight!r}")
            evaluator["weight"] = weight
        return evaluator

    def _refuse(self, key: str, entry: Node) -> None:
        if key in ("transform", "contextTransform"):
            raise LeftOutError(
                f"`{key}` changes the answer first; check the result in a `javascript` or `python` check"
            )
        if key not in ("reason", "description", "id"):
            self.notes.left_out(entry, f"`{key}` of an assertion is not imported")

    def _set(self, node: Node, options: Node | None) -> dict[str, Any]:
        for key, entry in entries(node):
            if key not in SETS:
                self.notes.left_out(entry, f"`{key}` of an assertion is not imported")
        members = node.get("assert")
        evaluators = self._evaluators(list(members.items()) if members is not None else [], options)
        if not evaluators:
            raise LeftOutError("none of its assertions is imported")
        threshold = Assertion("assert-set", None, node).threshold
        group = with_threshold(evaluators, threshold)
        # With members that must all pass, the score of a set is above 0 exactly if all of them do.
        limit = group.threshold if group.threshold > 0 or threshold is not None else 0.001
        return {"type": "composite", "evaluators": group.evaluators, "threshold": limit}

    def _set_judge(self, evaluator: dict[str, Any], node: Node, options: Node | None) -> None:
        if evaluator["type"] not in ("rubric", "llm_judge", "metric"):
            return
        judge = self.judge_for(node, options)
        if judge and evaluator["type"] == "metric":
            evaluator["judge"] = {"target": judge}
        elif judge:
            evaluator["judge_target"] = judge
        prompt = self._rubric_prompt(node, options)
        if prompt is None or evaluator["type"] == "metric":
            return
        criterion = evaluator.pop("rubrics", [None])[0] or str(node.raw("value"))
        text = _RUBRIC.sub(lambda _: criterion, _OUTPUT.sub("{{ candidate_answer }}", prompt.value))
        threshold = evaluator.pop("threshold", 0.5)
        evaluator |= {"type": "llm_judge", "prompt": converted(text), "threshold": threshold}
        self.notes.look_at(
            prompt, "the judge replies with a score from 0 to 1 and its reasons; remove other formats from the prompt"
        )

    def _set_embeddings(self, evaluator: dict[str, Any], node: Node, options: Node | None) -> None:
        if target := self.embeddings_for(node, options):
            evaluator["target"] = target
        else:
            message = "a local model computes the embeddings instead of OpenAI's; check the threshold"
            self.notes.look_at(node, message)

    def _rubric_prompt(self, node: Node, options: Node | None) -> Node | None:
        """The prompt of the grader, as text."""
        for owner in (node, options, self.default_options):
            prompt = owner.get("rubricPrompt") if owner is not None else None
            if prompt is None:
                continue
            value = prompt.value
            if isinstance(value, str) and value.startswith(FILE):
                path = named_files(value, self.directory)[0]
                if PROGRAM.fullmatch(path.name):
                    raise LeftOutError(f"its `rubricPrompt` is the program {path.name}; save its result as text")
                value = read_document(path).value if path.suffix in (".yaml", ".yml") else read_text(path)
            return prompt.with_value(_plain_prompt(value))
        return None

    def _value(self, node: Node, kind: str) -> Any:
        value = node.raw("value")
        if not isinstance(value, str) or not value.startswith(FILE):
            return value
        if kind in CODE:
            return self._function(value, node)
        path = named_files(value, self.directory)[0]
        if PROGRAM.fullmatch(path.name):
            raise LeftOutError(f"`value` comes from the program {path.name}; write it as text")
        is_data = kind == "is-json" or path.suffix in (".json", ".yaml", ".yml")
        return read_document(path).value if is_data else read_text(path).strip()

    def _function(self, reference: str, node: Node) -> str:
        """The function in a file that an assertion calls, with its path relative to the suite."""
        name, _, function = reference.removeprefix(FILE).partition(":")
        path = named_files(name, self.directory)[0]
        if not path.is_file():
            raise LeftOutError(f"{name} does not exist")
        if path.suffix in (".ts", ".mts", ".cts"):
            raise LeftOutError(f"{path.name} is TypeScript; save it as JavaScript")
        home = self.out.resolve()
        if path.resolve().is_relative_to(root := repository_root(home) or home):
            relative = os.path.relpath(path.resolve(), home)
        elif copy := self.copied.add(path):
            relative = copy
            self.notes.look_at(node, f"{name} is outside {root}, where the suite is; the suite uses a copy")
        else:
            raise LeftOutError(
                f"{name} is outside {root}, where the suite is, and needs other files; "
                "write the suite next to the configuration (`--out`)"
            )
        if path.suffix == ".py":
            return f"{relative}:{function or 'get_assert'}"
        return f"{relative}:{function}" if function else relative


def _plain_prompt(value: Any) -> str:
    """A prompt of messages as text."""
    if isinstance(value, str):
        from agentv import jsonio  # noqa: PLC0415

        try:
            value = jsonio.read(value.strip()) if value.lstrip().startswith("[") else value
        except ValueError:
            return str(value)
    if isinstance(value, list):
        return "\n\n".join(str(message.get("content", "")) for message in value if isinstance(message, dict))
    return str(value)


def with_threshold(evaluators: list[dict[str, Any]], threshold: float | None) -> Assertions:
    """Without a threshold, every assertion must pass, including those with weight 0."""
    if threshold is not None:
        return Assertions(evaluators, threshold)
    if all(evaluator.get("weight", 1) > 0 and not _is_graded(evaluator) for evaluator in evaluators):
        return Assertions(evaluators, 1.0)
    return Assertions([{**evaluator, "required": True} for evaluator in evaluators], 0.0)


def _is_graded(evaluator: dict[str, Any]) -> bool:
    return evaluator["type"] in GRADED or (evaluator["type"] == "composite" and evaluator["threshold"] < 1)
