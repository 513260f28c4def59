"""Convert a promptfoo configuration to a suite with its prompts, and a configuration with one target per provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.errors import InvalidFilesError, Problem
from agentv.importing.asserts import NOT_IMPORTED, AssertReader
from agentv.importing.promptfoo_tests import TestReader
from agentv.importing.prompts import Prompt, PromptReader, free, matching, names_in_text, slug
from agentv.importing.providers import ProviderReader
from agentv.importing.source import Node, Note, Notes, UnreadableError, entries, read_document, unreadable
from agentv.importing.templates import UnsupportedTemplateError, render

WITHOUT_EFFECT = {"$schema", "sharing", "outputPath", "outputs", "writeLatestResults", "metadata"}
"""Keys of a configuration that do not affect results."""
READ = {
    *("description", "prompts", "providers", "tags", "targets", "tests", "defaultTest", "scenarios"),
    *("assertionTemplates", "evaluateOptions"),
}
HINTS = {
    "commandLineOptions": "pass them to `agentv eval`",
    "env": "set the variables in the environment or in a .env file",
    "nunjucksFilters": "templates can only use the filters of Jinja2",
    "extensions": "not supported; prepare the data before the run",
    "tracing": "not supported",
}
RUN_OPTIONS = {"showProgressBar", "cache", "generateSuggestions", "eventSource"}
"""Options of a run that do not affect results."""
_TEST_KEYS = {"description", "vars", "assert", "threshold", "options", "metadata", "provider", "providers", "prompts"}
_OPTIONS = {"disableDefaultAsserts", "disableVarExpansion", "includeMetrics", "provider", "rubricPrompt", "runSerially"}


@dataclass(frozen=True, slots=True)
class Imported:
    """An imported configuration: suites by file name suffix (empty for the only one), targets and notes."""

    suites: dict[str, dict[str, Any]]
    config: dict[str, Any]
    notes: tuple[Note, ...]
    targets: tuple[str, ...]
    """Targets for the providers, without those used only as judges."""
    to_fill_in: Mapping[str, str]
    """Placeholder target -> what to do."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """Scripts to write next to the suite: name -> content."""


def import_promptfoo(path: Path, out: Path) -> Imported:
    """Read a configuration for a suite in the directory `out`. Raises InvalidFilesError if it cannot be imported."""
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise unreadable(path, "the configuration must be YAML or JSON; save the result of a program as YAML first")
    try:
        root = read_document(path)
        return _Importer(root, out).run()
    except UnreadableError as error:
        raise unreadable(path, str(error), error.line) from None


class _Importer:
    def __init__(self, root: Node, out: Path) -> None:
        if not root.is_mapping:
            raise UnreadableError("the configuration must be a mapping with `prompts`, `providers` and `tests`")
        if (redteam := root.get("redteam")) is not None:
            raise UnreadableError("red-team configurations (`redteam`) are not supported", redteam.line)
        self.root, self.notes = root, Notes()
        self.directory = root.path.parent
        self.providers = ProviderReader(self.notes, self.directory, out)
        self.reader = TestReader(root, self.notes)
        self.default = self.reader.default()
        self.judge: str | None = None
        self.asserts = AssertReader(
            self.notes,
            self.directory,
            out,
            self._judge_for,
            self._embeddings_for,
            root.get("assertionTemplates"),
            self.default.get("options") if self.default is not None else None,
        )

    def run(self) -> Imported:
        for key, entry in entries(self.root):
            if key not in READ | WITHOUT_EFFECT and not key.startswith("x-"):
                self.notes.left_out(entry, f"`{key}`: {HINTS.get(key, 'not imported')}")
        prompts = PromptReader(self.directory, self.notes).read(self.root.get("prompts"))
        if not prompts:
            raise self._nothing_left("no prompt can be imported")
        targets = self._targets()
        if self.default is not None:
            self._note_unread(self.default)
        self._grader()
        suites = self._suites(prompts, targets)
        self._run_options()
        defaults = {"target": targets[0]} | ({"judge_target": self.judge} if self.judge else {})
        config = {"targets": self.providers.targets, "defaults": defaults}
        return Imported(
            suites, config, tuple(self.notes.all), targets, self.providers.to_fill_in, self.asserts.copied.contents
        )

    def _nothing_left(self, message: str) -> InvalidFilesError:
        """Why nothing could be imported: everything that was left out."""
        problems = [Problem(note.path, note.line, 1, note.message) for note in self.notes.all if note.left_out]
        return InvalidFilesError([*problems, Problem(self.root.path, 1, 1, message)], next_step="Nothing was written.")

    def _targets(self) -> tuple[str, ...]:
        nodes = self.root.get("providers") or self.root.get("targets")
        names = [self.providers.read(node) for node in (nodes.items() if nodes else ())]
        if not names:
            names.append(self.providers.placeholder(self.root, "the configuration has no providers"))
        return tuple(dict.fromkeys(names))

    def _run_options(self) -> None:
        """Apply the options of a run to all targets, also to those of judges."""
        for key, entry in entries(self.root.get("evaluateOptions")):
            if key == "maxConcurrency" and isinstance(entry.value, int) and entry.value > 0:
                for settings in self.providers.targets.values():
                    settings.setdefault("max_concurrency", entry.value)
            elif key not in RUN_OPTIONS:
                self.notes.left_out(entry, f"`{key}`: use --workers, --repeat and --cache of `agentv eval`")

    # -- judge targets

    def _grader(self) -> None:
        options = self.default.get("options") if self.default else None
        provider = (options.get("provider") if options is not None else None) or (
            self.default.get("provider") if self.default else None
        )
        if provider is not None:
            self.judge = self._judge(provider)

    def _judge(self, node: Node) -> str | None:
        if node.is_mapping and not node.get("id") and (node.get("text") or node.get("embedding")):
            text = node.get("text")
            return self.providers.read(text) if text is not None else None
        return self.providers.read(node)

    def _embeddings_for(self, node: Node, options: Node | None) -> str | None:
        """The target that computes the embeddings of an assertion; None for the local model."""
        default = self.default.get("options") if self.default is not None else None
        for owner in (node, options, default):
            provider = owner.get("provider") if owner is not None else None
            if provider is not None and provider.is_mapping and (own := provider.get("embedding")) is not None:
                return self.providers.embeddings(own)
        own = node.get("provider")
        return self.providers.embeddings(own) if own is not None else None

    def _judge_for(self, node: Node, options: Node | None) -> str | None:
        for owner in (node, options):
            if owner is not None and (own := owner.get("provider")):
                return self._judge(own)
        if self.judge is None:
            message = (
                "promptfoo's default grader is not used; the `judge_target` of the target judges, or the target itself"
            )
            self.notes.look_at(node, message)
        return None

    # -- the suite

    def _suites(self, prompts: list[Prompt], targets: tuple[str, ...]) -> dict[str, dict[str, Any]]:
        """The suite; several if not every prompt is sent to every target with every test."""
        cases: list[tuple[dict[str, Any], frozenset[str]]] = []
        taken: set[str] = set()
        for number, test in enumerate(self.reader.tests(), 1):
            chosen = matching(prompts, self._own_or_default(test, "prompts"))
            own = [prompt for prompt in prompts if prompt.id in chosen]
            cases += [(case, chosen) for case in self._cases(own, test, number, taken)]
        if not cases:
            raise self._nothing_left("no test can be imported")
        defaults = self._default_values()
        subsets = list(dict.fromkeys(chosen for _, chosen in cases))
        suites: dict[str, dict[str, Any]] = {}
        for target in targets if self.providers.prompts else (None,):
            allowed = matching(prompts, self.providers.prompts.get(target) if target else None)
            for subset in subsets:
                sent = [prompt for prompt in prompts if prompt.id in subset & allowed]
                own_cases = [deepcopy(case) for case, chosen in cases if chosen == subset]
                if not sent:
                    continue
                words = [*([target] if target else []), *((prompt.id for prompt in sent) if len(subsets) > 1 else ())]
                suites[free(slug("-".join(words)), suites) if words else ""] = self._suite(
                    sent, own_cases, defaults, target
                )
        return suites

    def _suite(
        self, prompts: list[Prompt], cases: list[dict[str, Any]], defaults: Mapping[str, Any], target: str | None
    ) -> dict[str, Any]:
        suite: dict[str, Any] = {}
        if description := self.root.raw("description"):
            suite["description"] = str(description)
        if tags := _tags(self.root.raw("tags")):
            suite["tags"] = tags
        suite |= _shared(cases, defaults)
        if target is not None:
            suite["execution"] = {"target": target, **suite.get("execution", {})}
        return suite | {"prompts": [prompt.entry() for prompt in prompts], "evalcases": cases}

    def _default_values(self) -> dict[str, Any]:
        """The variables of the default test that have the same value in every case that does not override them."""
        variables = self.default.get("vars") if self.default is not None else None
        if self.default is None or variables is None:
            return {}
        first = next(self.reader.values(self.root.with_value({}), self.default), {})
        return {name: value for name, value in first.items() if not isinstance(variables.raw(name), list)}

    def _cases(self, prompts: list[Prompt], test: Node, number: int, taken: set[str]) -> Iterator[dict[str, Any]]:
        self._note_unread(test)
        description = test.raw("description")
        options = test.get("options")
        for values in self.reader.values(test, self.default):
            assertions = self.asserts.read(self._assertions(test), options, self._threshold(test))
            known = set(values)
            self._note_media(prompts, values, test)
            try:
                render([prompt.template for prompt in prompts], values)
                evaluators = [each for each in assertions.evaluators if self._has_value(each, values, test)]
            except UnsupportedTemplateError as error:
                self.notes.left_out(test, f"the test is not imported: {error}")
                return
            if names := [name for name in values if name not in known]:
                self.notes.look_at(test, f"no value for {', '.join(names)}: an empty string is used, as in promptfoo")
            case_id = free(slug(str(description)) or "test" if description else f"test-{number}", taken)
            taken.add(case_id)
            case: dict[str, Any] = {"id": case_id}
            if description:
                case["description"] = str(description)
            if metadata := self._metadata(test):
                case["metadata"] = metadata
            case |= {"vars": values} if values else {}
            if target := self._target(test):
                case["execution"] = {"target": target}
            yield case | {"threshold": assertions.threshold, "evaluators": evaluators or [NOT_IMPORTED]}

    def _note_media(self, prompts: list[Prompt], values: Mapping[str, Any], test: Node) -> None:
        """Report images and audio that prompts use as text: targets get them only in parts of messages."""
        names = {name for name, value in values.items() if isinstance(value, str) and value in self.reader.media}
        for name in sorted({name for prompt in prompts for name in names & names_in_text(prompt.template)}):
            message = (
                f"the file of the variable `{name}` is sent as text; use it in a part `image_url` or `input_audio`"
            )
            self.notes.left_out(test, message)

    def _own_or_default(self, test: Node, key: str) -> Node | None:
        """A value of a test, otherwise that of the default test."""
        own = test.get(key)
        return own if own is not None or self.default is None else self.default.get(key)

    def _metadata(self, test: Node) -> dict[str, Any]:
        values = [owner.raw("metadata") for owner in (self.default, test) if owner is not None]
        return {name: value for part in values if isinstance(part, dict) for name, value in part.items()}

    def _has_value(self, evaluator: Mapping[str, Any], values: dict[str, Any], test: Node) -> bool:
        """Whether an evaluator has something to compare with in this case. Raises UnsupportedTemplateError."""
        rendered = render(_rendered_options(evaluator), values)
        if "" not in rendered or "" in _rendered_options(evaluator):
            return True
        self.notes.left_out(test, f"assertion `{evaluator['name']}`: its value is empty for this test")
        return False

    def _note_unread(self, test: Node) -> None:
        for key, entry in entries(test):
            if key not in _TEST_KEYS:
                self.notes.left_out(entry, f"`{key}` of a test is not imported")
        for key, entry in entries(test.get("options")):
            if key == "transform":
                self.notes.left_out(
                    entry, "`transform` changes the answer first; do that in the checks, or in the target"
                )
            elif key not in _OPTIONS:
                self.notes.left_out(entry, f"the option `{key}` of a test is not imported")

    def _target(self, test: Node) -> str | None:
        """The target of a test with its own provider."""
        node = test.get("provider") or self._own_or_default(test, "providers")
        if node is None:
            return None
        nodes = list(node.items())
        if len(nodes) > 1:
            self.notes.left_out(node, "`providers` of a test: every case is sent to every target")
            return None
        if nodes and (name := self.providers.named(nodes[0].value)):
            return name
        return self.providers.read(nodes[0]) if nodes else None

    def _assertions(self, test: Node) -> list[Node]:
        nodes: list[Node] = []
        options = test.get("options")
        own_only = options is not None and options.raw("disableDefaultAsserts") is True
        for owner in (None if own_only else self.default, test):
            asserts = owner.get("assert") if owner is not None else None
            nodes += asserts.items() if asserts is not None else ()
        return nodes

    def _threshold(self, test: Node) -> float | None:
        for owner in (test, self.default):
            node = owner.get("threshold") if owner is not None else None
            if node is None:
                continue
            if isinstance(node.value, int | float) and not isinstance(node.value, bool) and 0 <= node.value <= 1:
                return float(node.value)
            self.notes.left_out(node, f"`threshold` must be a number from 0 to 1, got {node.value!r}")
        return None


def _rendered_options(evaluator: Mapping[str, Any]) -> list[Any]:
    """The options of an evaluator whose variables come from the case, not from the judge."""
    own = [value for key, value in evaluator.items() if key not in ("name", "prompt", "evaluators")]
    return own + [_rendered_options(member) for member in evaluator.get("evaluators", ())]


def _shared(cases: list[dict[str, Any]], variables: Mapping[str, Any]) -> dict[str, Any]:
    """Move what all cases have in common to the suite."""
    shared: dict[str, Any] = {}
    common = {name: value for name, value in variables.items() if all(name in case["vars"] for case in cases)}
    if common:
        shared["vars"] = common
        for case in cases:
            case["vars"] = {n: v for n, v in case["vars"].items() if n not in common or common[n] != v}
            if not case["vars"]:
                del case["vars"]
    if len(cases) == 1:
        return shared
    execution: dict[str, Any] = {}
    if all(case["threshold"] == cases[0]["threshold"] for case in cases):
        execution["threshold"] = cases[0]["threshold"]
        for case in cases:
            del case["threshold"]
    lists = [case["evaluators"] for case in cases]
    count = next(
        (n for n, items in enumerate(zip(*lists, strict=False)) if any(item != items[0] for item in items)),
        min(map(len, lists)),
    )
    if count:
        execution["evaluators"] = lists[0][:count]
        for case in cases:
            if own := case.pop("evaluators")[count:]:
                case["evaluators+"] = own
    return {"execution": execution, **shared} if execution else shared


def _tags(tags: Any) -> list[str]:
    """Tags of a suite: promptfoo has pairs of names and values, which become `name=value`."""
    if isinstance(tags, Mapping):
        return [f"{name}={value}" for name, value in tags.items()]
    return [str(tag) for tag in tags if str(tag).strip()] if isinstance(tags, list) else []
