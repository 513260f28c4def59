"""The head of a suite of another dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentv.suite.dialects import content
from agentv.suite.dialects.assertions import Assertions
from agentv.suite.dialects.detect import V5, Dialect, is_trivial
from agentv.suite.dialects.parts import Part
from agentv.suite.dialects.scenarios import KEY as SCENARIOS
from agentv.suite.dialects.tables import (
    FILE,
    HEAD_NAMES,
    IGNORED_EVALUATE_OPTIONS,
    IGNORED_EXECUTION,
    IGNORED_HEAD,
    LISTS,
    RENAMED_HEAD,
    UNSUPPORTED_EXECUTION,
    UNSUPPORTED_HEAD,
    our_type,
    unsupported,
)
from agentv.suite.files import FileReferenceError, SuiteFiles
from agentv.suite.validation import show
from agentv.suite.yaml import NodePath, YamlProblem, YamlWalk

_STRATEGIES: Mapping[str, dict[str, Any]] = {
    "pass_at_k": {"pass_if": "any", "stop_early": True},
    "pass_any": {"pass_if": "any"},
    "mean": {"pass_if": "mean"},
    "pass_all": {"pass_if": "all"},
}
_DEFAULT_TEST = frozenset({"vars", "assert", "assertions", "threshold", "metadata", "provider", "description"})


@dataclass(slots=True)
class Head:
    """What the head of a suite adds to its cases."""

    messages: list[Any] = field(default_factory=list)
    """Messages before the input of each case."""
    is_list: bool = True
    """Whether they are written as a list."""
    files: Any = None
    """Files of cases that do not name their own."""
    metadata: dict[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    threshold: float | None = None
    has_prompts: bool = False
    """Whether the suite has prompts that are more than the input."""
    scenarios: Any = None
    """Cases that are made from rows and tests."""
    templated: list[tuple[NodePath, list[Any]]] = field(default_factory=list)
    """Lists of assertions with variables of cases, and where they are."""


class HeadReader:
    """Reads the head of one suite."""

    def __init__(self, dialect: Dialect, assertions: Assertions, files: SuiteFiles, part: Part) -> None:
        self._dialect, self._assertions, self._files, self._part = dialect, assertions, files, part
        self._execution: dict[str, Any] = {}
        self._trials: dict[str, Any] = {}
        self._listed: tuple[str, Any] | None = None
        """The list of assertions under `execution`, with its key."""

    def read(self, raw: dict[str, Any]) -> tuple[dict[str, Any], Head]:
        """The head in our form, and what it adds to cases."""
        part = self._part
        head = Head(scenarios=raw.get(SCENARIOS))
        part.refuse_unsupported(raw, UNSUPPORTED_HEAD, ())
        left_out = {*IGNORED_HEAD, *UNSUPPORTED_HEAD, SCENARIOS}
        left_out |= part.misspelled(raw.keys() - left_out, HEAD_NAMES, ())
        rest = {key: value for key, value in raw.items() if key not in left_out}
        self._read_execution(rest.pop("execution", None))
        self._read_evaluate_options(rest.pop("evaluate_options", None), ("evaluate_options",))
        run = rest.pop("run", None)
        if isinstance(run, dict) and "threshold" in run:
            self._set("threshold", run["threshold"], ("run", "threshold"))
        if "threshold" in rest:
            self._set("threshold", rest.pop("threshold"), ("threshold",))
        self._read_providers(rest.pop("providers", None))
        self._read_parts(rest, head)
        lists: list[tuple[str, Any]] = [(key, rest.pop(key)) for key in LISTS[:2] if key in rest]
        extra = self._read_default_test(rest.pop("default_test", None), head)
        self._read_prompts(rest, head)
        self._read_evaluators(lists, extra, head)
        if isinstance(named := rest.get("evaluator"), str):
            rest["evaluator"] = our_type(named)
        if isinstance(tags := rest.get("tags"), dict):
            rest["tags"] = [value for value in tags.values() if isinstance(value, str)]
        if self._trials:
            self._execution["trials"] = self._trials
        result = part.renamed(rest, RENAMED_HEAD, (), ())
        if self._execution:
            result["execution"] = self._execution
        return result, head

    def _set(self, key: str, value: Any, written: NodePath) -> None:
        self._execution[key] = value
        self._part.move(("execution", key), written)

    def _read_execution(self, raw: Any) -> None:
        if not isinstance(raw, dict):
            if raw is not None:
                self._part.refuse(("execution",), f"`execution` must be a mapping, got {show(raw)}", at_key=False)
            return
        self._part.refuse_unsupported(raw, UNSUPPORTED_EXECUTION, ("execution",))
        for key, value in raw.items():
            if key in IGNORED_EXECUTION or key in UNSUPPORTED_EXECUTION or key in LISTS:
                continue
            if key == "targets":
                self._read_targets(value, ("execution", "targets"))
            elif key in ("budget_usd", "budgetUsd"):
                self._set("max_cost", value, ("execution", key))
            elif key == "trials":
                self._read_trials(value, ("execution", "trials"))
            else:
                self._execution[key] = value
        self._listed = next(((key, raw[key]) for key in LISTS if raw.get(key) is not None), None)

    def _read_targets(self, value: Any, at: NodePath) -> None:
        if not isinstance(value, list):
            self._set("target", value, at)
            return
        names: list[Any] = []
        for index, entry in enumerate(value):
            node: NodePath = (*at, index)
            name = entry
            if isinstance(entry, dict):
                name = entry.get("label", entry.get("name", entry.get("id")))
                if entry.get("use_target") is not None:
                    name = entry["use_target"]
                extra = [key for key in entry if key not in ("label", "name", "id", "use_target")]
                if extra:
                    self._part.refuse(
                        (*node, extra[0]), unsupported(extra[0], "define the target in the configuration")
                    )
            if isinstance(name, str) and name:
                names.append(name)
            elif name != "":  # an unset variable is a note already
                self._part.refuse(node, f"a target must be a name, got {show(name)}", at_key=False)
        if len(names) == 1:
            self._set("target", names[0], (*at, 0))
        elif names:
            self._set("targets", names, at)

    def _read_providers(self, value: Any) -> None:
        if isinstance(value, str) and value.startswith(FILE):
            advice = "name the file `.agentv/providers.yaml`, and write the labels here"
            self._part.refuse(("providers",), unsupported("providers: file://", advice))
        elif value is not None:
            self._read_targets(value, ("providers",))

    def _read_trials(self, value: Any, at: NodePath) -> None:
        if isinstance(value, int) and not isinstance(value, bool):
            value, spelled = {"count": value}, at
            self._part.move(("execution", "trials", "count"), spelled)
        if not isinstance(value, dict):
            self._set("trials", value, at)
            return
        self._part.move(("execution", "trials"), at)
        for key, item in value.items():
            if key == "strategy":
                if not isinstance(item, str) or item not in _STRATEGIES:
                    self._part.refuse((*at, key), unsupported(f"strategy: {item}", "use `pass_at_k` or `mean`"))
                else:
                    self._trials.update(_STRATEGIES[item])
            elif key in ("cost_limit_usd", "costLimitUsd"):
                self._execution.setdefault("max_cost", item)
            elif key == "early_exit":
                self._trials["stop_early"] = item
            else:
                self._trials[key] = item
        if "strategy" not in value and "pass_if" not in value:
            self._trials = {**_STRATEGIES["pass_at_k"], **self._trials}

    def _read_evaluate_options(self, raw: Any, at: NodePath) -> None:
        if not isinstance(raw, dict):
            return
        for key, value in raw.items():
            if key == "max_concurrency":
                self._set("workers", value, (*at, key))
            elif key == "budget_usd":
                self._set("max_cost", value, (*at, key))
            elif key == "repeat":
                if isinstance(value, int):
                    self._trials.update({"count": value, "pass_if": "mean"})
                    self._part.move(("execution", "trials"), (*at, key))
                else:
                    self._read_trials(value, (*at, key))
            elif key not in IGNORED_EVALUATE_OPTIONS:
                self._part.refuse((*at, key), unsupported(key, "remove it"))

    def _read_parts(self, rest: dict[str, Any], head: Head) -> None:
        """What applies to every case."""
        before = rest.pop("input", None)
        if before is not None:
            messages = content.as_messages(before, "user")
            if isinstance(messages, list):
                head.messages, head.is_list = messages, isinstance(before, list)
            else:
                self._part.refuse(("input",), f"`input` must be a string or a list of messages, got {show(before)}")
        head.files = rest.pop("input_files", None)
        metadata = rest.pop("metadata", None)
        if isinstance(metadata, dict):
            head.metadata = dict(metadata)
        elif metadata is not None:
            self._part.refuse(("metadata",), f"`metadata` must be a mapping, got {show(metadata)}")
        governance = rest.pop("governance", None)
        if governance is not None:
            head.metadata["governance"] = governance

    def _read_default_test(self, raw: Any, head: Head) -> list[tuple[NodePath, Any]]:
        """The defaults of cases in version 5; returns its list of assertions."""
        at: NodePath = ("default_test",)
        if isinstance(raw, str):
            raw = self._file(raw)
        if raw is None:
            return []
        if not isinstance(raw, dict):
            self._part.refuse(at, f"`default_test` must be a mapping, got {show(raw)}")
            return []
        options = raw.get("options")
        if isinstance(options, dict) and options.keys() == {"rubric_prompt"}:
            prompt = options["rubric_prompt"]
            self._assertions.rubric_prompt = prompt.removeprefix(FILE) if isinstance(prompt, str) else None
            raw = {key: value for key, value in raw.items() if key != "options"}
        for key in raw.keys() - _DEFAULT_TEST:
            inner = raw[key]
            name = next(iter(inner)) if isinstance(inner, dict) and inner else key
            self._part.refuse(
                (*at, key), unsupported(str(name), UNSUPPORTED_HEAD.get(str(name), "set it on each case"))
            )
        if isinstance(raw.get("vars"), dict):
            head.variables = raw["vars"]
        if isinstance(raw.get("metadata"), dict):
            head.metadata = content.merged_metadata(head.metadata, raw["metadata"])
        if "threshold" in raw:
            self._set("threshold", raw["threshold"], (*at, "threshold"))
        if isinstance(raw.get("provider"), str):
            self._set("target", raw["provider"], (*at, "provider"))
        return [((*at, key), raw[key]) for key in ("assert", "assertions") if key in raw]

    def _file(self, reference: str) -> Any:
        """The content of a YAML file that a key names."""
        at: NodePath = ("default_test",)
        try:
            path, text = self._files.attach(reference.removeprefix(FILE))
            return YamlWalk(text).document()
        except FileReferenceError as error:
            self._part.refuse(at, str(error), at_key=False)
        except YamlProblem as problem:
            self._part.refuse(at, f"{path.name}:{problem.line}:{problem.column}: {problem.message}", at_key=False)
        return None

    def _read_prompts(self, rest: dict[str, Any], head: Head) -> None:
        prompts = rest.get("prompts")
        if prompts is None:
            return
        if is_trivial(prompts):
            del rest["prompts"]
            return
        head.has_prompts = True
        if head.variables:
            rest["vars"] = {**head.variables}
        if isinstance(prompts, str):
            prompts = [prompts]
            self._part.move(("prompts", 0), ("prompts",))
        if isinstance(prompts, list):
            rest["prompts"] = [self._prompt(entry, ("prompts", index)) for index, entry in enumerate(prompts)]

    def _prompt(self, entry: Any, at: NodePath) -> Any:
        if isinstance(entry, str):
            return {"file": entry.removeprefix(FILE)} if entry.startswith(FILE) else entry
        if not isinstance(entry, dict):
            return entry
        known = {key: value for key, value in entry.items() if key not in ("label", "config", "description")}
        normal = self._part.renamed(known, {"prompt": "template", "raw": "template"}, at, at)
        if isinstance(normal.get("template"), list):
            normal["messages"] = normal.pop("template")
        return normal

    def _read_evaluators(self, lists: list[tuple[str, Any]], extra: list[tuple[NodePath, Any]], head: Head) -> None:
        """The list of the suite, which is added to that of each case."""
        threshold = self._execution.get("threshold")
        if isinstance(threshold, int | float) and not isinstance(threshold, bool):
            head.threshold = threshold
        places: list[tuple[NodePath, Any]] = [((key,), value) for key, value in lists[:1]]
        for key, _ in lists[1:]:
            self._part.refuse((key,), f"`{key}` and `{lists[0][0]}` mean the same: keep one")
        if not places and self._listed is not None:
            places = [(("execution", self._listed[0]), self._listed[1])]
        node: NodePath = ("execution", "evaluators")
        entries: list[Any] = []
        for place, listed in (*places, *extra):
            if not isinstance(listed, list):
                self._part.refuse(place, f"`{place[-1]}` must be a list, got {show(listed)}", at_key=False)
                continue
            if self._dialect is V5 and not head.has_prompts and content.has_fields(listed):
                head.templated.append((place, listed))
                continue
            taken, first = self._assertions.taken, len(entries)
            entries += self._assertions.listed(
                listed, node, place, self._part, taken=taken, pass_line=head.threshold, first=first
            )
            self._part.moved.setdefault(node, place)
        if entries:
            self._execution["evaluators"] = entries
