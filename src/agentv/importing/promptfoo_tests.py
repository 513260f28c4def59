"""The tests of a promptfoo configuration: lists, files and scenarios, with the variables of each test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.importing.media import as_base64, is_media
from agentv.importing.prompts import PROGRAM
from agentv.importing.rows import row_as_test
from agentv.importing.source import (
    FILE,
    Node,
    Notes,
    UnreadableError,
    entries,
    named_files,
    read_document,
    read_tests,
    read_text,
)
from agentv.importing.templates import UnsupportedTemplateError, combinations, resolved

FILES = (".yaml", ".yml", ".json", ".jsonl", ".csv")
MOST_CASES = 10_000
"""Maximum cases of one test with lists of values."""


@dataclass(slots=True)
class TestReader:
    """Reads the tests of one configuration."""

    root: Node
    notes: Notes
    media: set[str] = field(default_factory=set)
    """Values of variables that are images, audio or video, in base64."""

    @property
    def directory(self) -> Path:
        return self.root.path.parent

    def default(self) -> Node | None:
        """The test that is merged into all others."""
        node = self.root.get("defaultTest")
        if node is not None and isinstance(node.value, str) and node.value.startswith(FILE):
            try:
                path = named_files(node.value, self.directory)[0]
            except UnreadableError as error:
                self.notes.left_out(node, f"`defaultTest`: {error}")
                return None
            return read_document(path)
        return node

    def tests(self) -> Iterator[Node]:
        """Every test, with those of the scenarios."""
        tests, scenarios = self.root.get("tests"), self.root.get("scenarios")
        if tests is None and scenarios is None:
            yield self.root.with_value({})
            return
        yield from self._listed(tests)
        for scenario in self._read_files(scenarios):
            yield from self._of_scenario(scenario)

    def _listed(self, tests: Node | None) -> Iterator[Node]:
        for node in self._read_files(tests):
            if node.is_mapping and isinstance(node.raw("path"), str):
                self.notes.left_out(node, "tests generated with `path` and `config` are not imported")
            elif node.is_mapping:
                yield node
            else:
                self.notes.left_out(node, "a test must be a mapping with `vars` and `assert`")

    def _of_scenario(self, scenario: Node) -> Iterator[Node]:
        """Every test of a scenario, with each of its configurations."""
        if not scenario.is_mapping:
            self.notes.left_out(scenario, "a scenario must be a mapping with `config` and `tests`")
            return
        tests = list(self._listed(scenario.get("tests"))) or [scenario.with_value({})]
        for config in self._read_files(scenario.get("config")):
            if not config.is_mapping:
                self.notes.left_out(config, "`config` of a scenario must be a list of mappings with `vars`")
                continue
            for test in tests:
                merged = {**config.value, **test.value}
                for key in ("vars", "options", "metadata"):
                    parts = [part for part in (config.raw(key), test.raw(key)) if isinstance(part, dict)]
                    if parts:
                        merged[key] = {name: value for part in parts for name, value in part.items()}
                lists = [part for part in (config.raw("assert"), test.raw("assert")) if isinstance(part, list)]
                if lists:
                    merged["assert"] = [assertion for part in lists for assertion in part]
                yield test.with_value(merged)

    def _read_files(self, nodes: Node | None) -> Iterator[Node]:
        """The items of a list, with the content of files it names."""
        for node in nodes.items() if nodes is not None else ():
            if isinstance(node.value, str):
                yield from self._from_files(node)
            else:
                yield node

    def _from_files(self, node: Node) -> Iterator[Node]:
        if "://" in node.value and not node.value.startswith(FILE):
            self.notes.left_out(node, "tests at another address are not imported; save them as a CSV file")
            return
        if PROGRAM.fullmatch(node.value):
            name = node.value.removeprefix(FILE)
            self.notes.left_out(node, f"tests in {name} are not imported; save them as YAML, JSONL or CSV")
            return
        try:
            paths = named_files(node.value, self.directory)
        except UnreadableError as error:
            self.notes.left_out(node, f"tests: {error}")
            return
        for path in paths:
            if path.suffix not in FILES:
                self.notes.left_out(node, f"tests in {path.name} are not imported; save them as YAML, JSONL or CSV")
                continue
            try:
                for test in read_tests(path):
                    yield row_as_test(test, self.notes) if path.suffix == ".csv" else test
            except UnreadableError as error:
                raise UnreadableError(str(error), node.line) from None

    # -- variables

    def values(self, test: Node, default: Node | None) -> Iterator[dict[str, Any]]:
        """The variables of a test, which override those of the default test; one mapping per combination of lists."""
        values: dict[str, Any] = {}
        for owner in (default, test):
            variables = self._variables(owner.get("vars") if owner is not None else None)
            for key, entry in entries(variables):
                values[key] = self._value(entry)
        options = [owner.get("options") for owner in (test, default) if owner is not None]
        expands = not any(option is not None and option.raw("disableVarExpansion") for option in options)
        for number, chosen in enumerate(combinations(values) if expands else (values,)):
            if number >= MOST_CASES:
                self.notes.left_out(test, f"only the first {MOST_CASES:,} combinations of the variables are imported")
                return
            try:
                yield resolved(chosen)
            except UnsupportedTemplateError as error:
                self.notes.left_out(test, f"variables: {error}")
                return

    def _variables(self, node: Node | None) -> Node | None:
        if node is not None and isinstance(node.value, str) and node.value.startswith(FILE):
            try:
                node = read_document(named_files(node.value, self.directory)[0])
            except UnreadableError as error:
                self.notes.left_out(node, f"variables: {error}")
                return None
        if node is not None and not node.is_mapping:
            self.notes.left_out(node, "`vars` must be a mapping")
            return None
        return node

    def _value(self, node: Node) -> Any:
        value = node.value
        if isinstance(value, list):
            return [self._value(item) for item in node.items()]
        if not isinstance(value, str) or not value.startswith(FILE):
            return value
        if PROGRAM.fullmatch(value):
            self.notes.left_out(node, f"variable: {value.removeprefix(FILE)} is a program; save its result as text")
            return ""
        try:
            path = named_files(value, self.directory)[0]
            if is_media(path):
                encoded = as_base64(path)
                self.media.add(encoded)
                return encoded
            is_data = path.suffix in (".yaml", ".yml", ".json")
            return read_document(path).value if is_data else read_text(path).strip()
        except UnreadableError as error:
            self.notes.left_out(node, f"variable: {error}")
            return ""
