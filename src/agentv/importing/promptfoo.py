"""Convert a promptfoo configuration to one suite per prompt, and a configuration with one target per provider."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentv.errors import InvalidFilesError, Problem
from agentv.importing.asserts import AssertReader, NothingLeftError
from agentv.importing.prompts import Prompt, read_prompts
from agentv.importing.providers import ProviderReader, slug
from agentv.importing.rows import row_as_test
from agentv.importing.source import (
    FILE,
    Node,
    Note,
    Notes,
    UnreadableError,
    entries,
    named_files,
    read_document,
    read_tests,
    read_text,
    unreadable,
)
from agentv.importing.templates import TemplateError, combinations

WITHOUT_EFFECT = {"$schema", "sharing", "outputPath", "writeLatestResults", "metadata"}
"""Keys of a configuration that do not affect results."""
READ = {"description", "prompts", "providers", "tags", "targets", "tests", "defaultTest"}
HINTS = {
    "evaluateOptions": "use --workers, --repeat and --cache of `agentv eval`",
    "commandLineOptions": "pass them to `agentv eval`",
    "scenarios": "write the combinations as tests",
    "env": "set the variables in the environment or in a .env file",
    "redteam": "not supported",
}
_TEST_KEYS = {"description", "vars", "assert", "threshold", "options", "metadata"}


@dataclass(frozen=True, slots=True)
class Imported:
    """An imported configuration: suites by file name suffix (empty for a single suite), targets and notes."""

    suites: dict[str, dict[str, Any]]
    config: dict[str, Any]
    notes: tuple[Note, ...]
    targets: tuple[str, ...]
    """Targets for the providers, without those used only as judges."""


def import_promptfoo(path: Path, out: Path) -> Imported:
    """Read a configuration for suites in the directory `out`. Raises InvalidFilesError if it cannot be imported."""
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise unreadable(path, "the configuration must be YAML or JSON; save the result of a program as YAML first")
    try:
        root = read_document(path)
        return _Importer(root, out).run()
    except UnreadableError as error:
        raise unreadable(path, str(error), error.line) from None


class _Importer:
    def __init__(self, root: Node, out: Path) -> None:
        self.root, self.notes = root, Notes()
        self.directory = root.path.parent
        self.providers = ProviderReader(self.notes, self.directory, out)
        self.default = self._default()
        self.judge: str | None = None
        self.asserts = AssertReader(self.notes, self.directory, self._judge_for)

    def run(self) -> Imported:
        for key, entry in entries(self.root):
            if key not in READ | WITHOUT_EFFECT:
                self.notes.left_out(entry, f"`{key}`: {HINTS.get(key, 'not imported')}")
        if not self.root.is_mapping:
            raise UnreadableError("the configuration must be a mapping with `prompts`, `providers` and `tests`")
        prompts = read_prompts(self.root.get("prompts"), self.directory, self.notes)
        if not prompts:
            raise UnreadableError("no prompt can be imported")
        providers = self.root.get("providers") or self.root.get("targets")
        names = [self.providers.read(node) for node in (providers.items() if providers else ())]
        targets = tuple(dict.fromkeys(name for name in names if name is not None))
        if not targets:
            raise UnreadableError("no provider can be imported")
        self._grader()
        tests = list(self._tests())
        all_suites = {
            suffix: self._suite(prompt, tests, several=len(prompts) > 1)
            for suffix, prompt in zip(_suffixes(prompts), prompts, strict=True)
        }
        suites = {suffix: suite for suffix, suite in all_suites.items() if suite["evalcases"]}
        if not suites:
            raise self._nothing_left()
        defaults = {"target": targets[0]} | ({"judge_target": self.judge} if self.judge else {})
        return Imported(
            suites, {"targets": self.providers.targets, "defaults": defaults}, tuple(self.notes.all), targets
        )

    def _nothing_left(self) -> InvalidFilesError:
        """Why no test could be imported: everything that was left out."""
        problems = [Problem(note.path, note.line, 1, note.message) for note in self.notes.all if note.left_out]
        return InvalidFilesError(
            [*problems, Problem(self.root.path, 1, 1, "no test can be imported")],
            next_step="Nothing was written.",
        )

    # -- judge targets

    def _grader(self) -> None:
        options = self.default.get("options") if self.default else None
        if options is not None and (provider := options.get("provider")):
            self.judge = self._judge(provider)

    def _judge(self, node: Node) -> str | None:
        if node.is_mapping and node.get("text"):
            node = node["text"]
        return self.providers.read(node)

    def _judge_for(self, node: Node) -> str | None:
        if own := node.get("provider"):
            return self._judge(own)
        if self.judge is None:
            message = (
                "promptfoo's default grader is not used; the `judge_target` of the target judges, or the target itself"
            )
            self.notes.look_at(node, message)
        return None

    # -- tests

    def _default(self) -> Node | None:
        node = self.root.get("defaultTest")
        if node is not None and isinstance(node.value, str) and node.value.startswith(FILE):
            try:
                path = named_files(node.value, self.directory)[0]
            except UnreadableError as error:
                self.notes.left_out(node, f"`defaultTest`: {error}")
                return None
            return read_document(path)
        return node

    def _tests(self) -> Iterator[Node]:
        tests = self.root.get("tests")
        if tests is None:
            yield self.root.with_value({})
            return
        for node in tests.items():
            if isinstance(node.value, str):
                yield from self._from_files(node)
            elif node.is_mapping and isinstance(node.raw("path"), str):
                self.notes.left_out(node, "tests generated with `path` and `config` are not imported")
            else:
                yield node

    def _from_files(self, node: Node) -> Iterator[Node]:
        try:
            paths = named_files(node.value, self.directory)
        except UnreadableError as error:
            self.notes.left_out(node, f"tests: {error}")
            return
        for path in paths:
            if path.suffix not in (".yaml", ".yml", ".json", ".jsonl", ".csv"):
                self.notes.left_out(node, f"tests in {path.name} are not imported; save them as YAML, JSONL or CSV")
                continue
            try:
                for test in read_tests(path):
                    yield row_as_test(test, self.notes) if path.suffix == ".csv" else test
            except UnreadableError as error:
                raise UnreadableError(str(error), node.line) from None

    # -- suites

    def _suite(self, prompt: Prompt, tests: list[Node], *, several: bool) -> dict[str, Any]:
        cases: list[dict[str, Any]] = []
        for number, test in enumerate(tests, 1):
            if test.is_mapping:
                cases += self._cases(prompt, test, number, {case["id"] for case in cases})
            else:
                self.notes.left_out(test, "a test must be a mapping with `vars` and `assert`")
        description = self.root.raw("description")
        text = f"{description} ({prompt.label})" if description and several and prompt.label else description
        tags = _tags(self.root.raw("tags"))
        return ({"description": str(text)} if text else {}) | ({"tags": tags} if tags else {}) | {"evalcases": cases}

    def _cases(self, prompt: Prompt, test: Node, number: int, taken: set[str]) -> Iterator[dict[str, Any]]:
        for key, entry in entries(test):
            if key not in _TEST_KEYS:
                self.notes.left_out(entry, f"`{key}` of a test is not imported")
        for key, entry in entries(test.get("options")):
            if key != "disableVarExpansion":
                self.notes.left_out(entry, f"the option `{key}` of a test is not imported")
        description = test.raw("description")
        for values in self._values(test):
            try:
                case_input = prompt.input(values)
            except TemplateError as error:
                self.notes.left_out(prompt.node, f"the prompt uses {error}; only {{{{ variables }}}} are supported")
                return
            if names := prompt.without_value(values):
                self.notes.look_at(
                    test, f"no value for {', '.join(names)}: the prompt uses an empty string, as in promptfoo"
                )
            try:
                assertions = self.asserts.read(self._assertions(test), values, self._threshold(test))
            except NothingLeftError:
                self.notes.left_out(test, "the test is not imported, because none of its assertions is")
                return
            case_id = _free(slug(str(description)) if description else f"test-{number}", taken)
            taken.add(case_id)
            case: dict[str, Any] = {"id": case_id}
            if description:
                case["description"] = str(description)
            case |= {"input": case_input, "threshold": assertions.threshold}
            if test.get("metadata") and test["metadata"].is_mapping:
                case["metadata"] = test.value["metadata"]
            yield case | {"evaluators": assertions.evaluators}

    def _assertions(self, test: Node) -> list[Node]:
        nodes: list[Node] = []
        for owner in (self.default, test):
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

    def _values(self, test: Node) -> Iterator[dict[str, Any]]:
        """The variables of a test, which override those of the default test; one mapping per combination of lists."""
        values: dict[str, Any] = {}
        for owner in (self.default, test):
            variables = owner.get("vars") if owner is not None else None
            if variables is not None and not variables.is_mapping:
                self.notes.left_out(variables, "`vars` must be a mapping")
                continue
            for key, entry in entries(variables):
                values[key] = self._value(entry)
        expands = not (test.get("options") and test["options"].raw("disableVarExpansion"))
        yield from combinations(values) if expands else (values,)

    def _value(self, node: Node) -> Any:
        value = node.value
        if isinstance(value, str) and value.startswith(FILE):
            try:
                path = named_files(value, self.directory)[0]
                if path.suffix in (".js", ".ts", ".mjs", ".cjs", ".py", ".pdf"):
                    self.notes.left_out(node, f"variable: {path.name} is not a text file; save its result as text")
                    return ""
                is_data = path.suffix in (".yaml", ".yml", ".json")
                return read_document(path).value if is_data else read_text(path).strip()
            except UnreadableError as error:
                self.notes.left_out(node, f"variable: {error}")
                return ""
        choices = value if isinstance(value, list) else [value]
        if any(isinstance(choice, str) and "{{" in choice for choice in choices):
            self.notes.left_out(node, "variables inside variables are not supported")
        return value


def _tags(tags: Any) -> list[str]:
    """Tags of a suite: promptfoo has pairs of names and values, which become `name=value`."""
    if isinstance(tags, Mapping):
        return [f"{name}={value}" for name, value in tags.items()]
    return [str(tag) for tag in tags if str(tag).strip()] if isinstance(tags, list) else []


def _suffixes(prompts: list[Prompt]) -> list[str]:
    """File name suffixes for the suites of several prompts."""
    if len(prompts) == 1:
        return [""]
    names: dict[str, None] = {}
    for number, prompt in enumerate(prompts, 1):
        names[_free(slug(prompt.label) or f"prompt-{number}", names)] = None
    return list(names)


def _free(wanted: str, taken: Mapping[str, Any] | set[str]) -> str:
    wanted = wanted or "test"
    return next(name for name in (wanted, *(f"{wanted}-{n}" for n in range(2, len(taken) + 3))) if name not in taken)
