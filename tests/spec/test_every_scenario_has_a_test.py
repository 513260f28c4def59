"""Every scenario in scenarios.json has a test in this directory, and vice versa."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

HERE = Path(__file__).parent
SCENARIOS = json.loads((HERE / "scenarios.json").read_text(encoding="utf-8"))


def name_for(title: str) -> str:
    """`SDK provides getInfo method` -> `test_sdk_provides_get_info_method`."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", title)
    return "test_" + "_".join(re.findall(r"[a-z0-9]+", words.lower()))


def defined_in(directory: Path) -> list[str]:
    files = [path for path in sorted(directory.glob("test_*.py")) if path != Path(__file__)]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    functions = [
        node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [node.name for node in functions if node.name.startswith("test_")]


def test_every_scenario_has_exactly_one_test_and_vice_versa() -> None:
    titles = [title for group in SCENARIOS["tested"].values() for title in group]
    assert sorted(defined_in(HERE)) == sorted(map(name_for, titles))


def test_pending_scenarios_have_a_reason_and_no_test() -> None:
    pending = {title: reason for group in SCENARIOS["pending"].values() for title, reason in group.items()}
    assert all(reason.strip() for reason in pending.values())
    assert not {name_for(title) for title in pending} & set(defined_in(HERE))


def test_test_names_are_found_and_derived_from_titles(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text("async def test_disabled_by_default(): ...\ndef helper(): ...\n")
    assert defined_in(tmp_path) == [name_for("Disabled by default")]
    assert name_for("SDK provides getInfo method") == "test_sdk_provides_get_info_method"
