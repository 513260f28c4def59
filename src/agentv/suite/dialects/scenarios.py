"""`scenarios` of AgentV 5: every row of `config` with every case of `tests`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from agentv.suite.dialects.tables import FILE
from agentv.suite.files import FileReferenceError, SuiteFiles
from agentv.suite.findings import AllFindings, Findings
from agentv.suite.validation import show
from agentv.suite.yaml import NodePath, YamlProblem, YamlWalk

KEY = "scenarios"


class ScenarioCase(NamedTuple):
    """A case made from a scenario, and where its test is written."""

    value: dict[str, Any]
    line: int
    node: NodePath
    findings: Findings


class _Scenario(NamedTuple):
    value: Any
    node: NodePath
    findings: Findings
    walk: YamlWalk


def scenario_cases(listed: Any, files: SuiteFiles, found: AllFindings, suite: Path) -> Iterator[ScenarioCase]:
    """The cases of the scenarios of a suite."""
    own = found.of(suite)
    if not isinstance(listed, list):
        own.add((KEY,), f"`{KEY}` must be a list, got {show(listed)}")
        return
    number = 0
    for index, entry in enumerate(listed):
        for scenario in _expanded(entry, (KEY, index), files, found, own):
            number += 1
            yield from _crossed(scenario, number)


def _expanded(entry: Any, node: NodePath, files: SuiteFiles, found: AllFindings, own: Findings) -> Iterator[_Scenario]:
    """The scenario, or those of the files that it names."""
    if not isinstance(entry, str):
        yield _Scenario(entry, node, own, YamlWalk(b""))
        return
    reference = entry.removeprefix(FILE)
    try:
        matches = sorted(files.directory.glob(reference)) if set("*?[") & set(reference) else [Path(reference)]
        if not matches:
            own.add(node, f"no file matches '{reference}' in {files.directory}")
        for match in matches:
            path = files.find(str(match))
            walk = YamlWalk(files.read_text(path), record=True)
            data = walk.document()
            inside: NodePath = (KEY,) if isinstance(data, dict) and KEY in data else ()
            scenarios = data[KEY] if inside else data if isinstance(data, list) else [data]
            for index, scenario in enumerate(scenarios):
                place = (*inside, index) if isinstance(data, list) or inside else ()
                yield _Scenario(scenario, place, found.of(path), walk)
    except (FileReferenceError, ValueError, NotImplementedError) as error:
        own.add(node, str(error))
    except YamlProblem as problem:
        found.of(path).add_at(problem.line, problem.column, problem.message)


def _crossed(scenario: _Scenario, number: int) -> Iterator[ScenarioCase]:
    """Every row with every test. Variables and metadata of the test win; assertions are those of both."""
    value, node, findings, walk = scenario
    rows, tests = (value.get("config"), value.get("tests")) if isinstance(value, dict) else (None, None)
    if not isinstance(rows, list) or not isinstance(tests, list):
        findings.add(node, "a scenario must be a mapping with the lists `config` and `tests`")
        return
    for row_number, row in enumerate(rows, 1):
        for test_number, test in enumerate(tests, 1):
            place: NodePath = (*node, "tests", test_number - 1)
            if not isinstance(row, dict) or not isinstance(test, dict):
                wrong = (*node, "config", row_number - 1) if not isinstance(row, dict) else place
                findings.add(wrong, "a row and a test of a scenario must be mappings")
                continue
            case = {**row, **test, "id": _id(row, test, len(tests), (number, row_number, test_number))}
            for key in ("vars", "metadata"):
                parts = [part[key] for part in (row, test) if isinstance(part.get(key), dict)]
                if len(parts) == 2:
                    case[key] = {**parts[0], **parts[1]}
            if isinstance(row.get("assert"), list) and isinstance(test.get("assert"), list):
                case["assert"] = [*test["assert"], *row["assert"]]
            yield ScenarioCase(case, walk.place(place)[0].line, place, findings)


def _id(row: dict[str, Any], test: dict[str, Any], tests: int, numbers: tuple[int, int, int]) -> Any:
    """The id of the test, else of the row, else made from the positions."""
    if test.get("id"):
        return test["id"]
    if row.get("id"):
        return f"{row['id']}__scenario_test_{numbers[2]}" if tests > 1 else row["id"]
    return "scenario-{}-{}-{}".format(*numbers)
