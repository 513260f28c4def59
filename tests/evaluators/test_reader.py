"""Reading evaluators from a suite: built-in types, suite defaults and types from other packages."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

from agentv.evaluators.reader import EvaluatorReader
from agentv.suite.loader import load_suite
from tests.suite.support import cases, load, options, write

WARM = """\
execution: {warm: true}
evalcases:
  - id: a
    input: x
    evaluators:
      - {name: plain, type: code_judge, script: python judge.py}
      - {name: cold, type: code_judge, script: python judge.py, warm: false}
      - {name: other, type: contains, value: x}
      - name: group
        type: composite
        evaluators:
          - {name: member, type: code_judge, script: python judge.py}
          - {name: inner, type: composite, evaluators: [{name: deep, type: code_judge, script: python judge.py}]}
        aggregator: {type: code_judge, script: python sum.py}
"""


def warm_of(evaluator: dict[str, Any]) -> dict[str, bool]:
    """Name of every script in an evaluator, mapped to whether it is warm."""
    parts = {evaluator["name"]: evaluator["warm"]} if "warm" in evaluator else {}
    for member in evaluator.get("evaluators", ()):
        parts |= warm_of(member)
    if "aggregator" in evaluator:
        parts |= {f"{name} (aggregator)": warm for name, warm in warm_of(evaluator["aggregator"]).items()}
    return parts


def test_warm_of_the_suite_is_the_default_for_every_code_judge(tmp_path: Path) -> None:
    (case,) = cases(tmp_path, WARM)
    assert [warm_of(evaluator) for evaluator in options(case)] == [
        {"plain": True},
        {"cold": False},
        {},
        {"member": True, "deep": True, "group (aggregator)": True},
    ]


def test_warm_applies_when_set_below_the_cases(tmp_path: Path) -> None:
    head, _, rest = WARM.partition("\n")
    (case,) = cases(tmp_path, f"{rest}{head}\n")
    assert warm_of(options(case)[0]) == {"plain": True}


def test_suite_can_be_pickled_and_restored(tmp_path: Path) -> None:
    suite = load(tmp_path, WARM)
    copy = pickle.loads(pickle.dumps(suite))
    assert list(copy.cases()) == list(suite.cases())
    assert copy.evaluator_needs == suite.evaluator_needs


def test_case_without_evaluators_is_judged_by_a_model(tmp_path: Path) -> None:
    (case,) = cases(tmp_path, "evalcases: [{id: a, input: x}]\n")
    assert [(evaluator.name, evaluator.type) for evaluator in case.evaluators] == [("llm_judge", "llm_judge")]


def test_case_rubrics_become_an_evaluator(tmp_path: Path) -> None:
    (case,) = cases(tmp_path, "evalcases: [{id: a, input: x, rubrics: [Be kind], evaluators: []}]\n")
    assert [(evaluator.name, evaluator.type) for evaluator in case.evaluators] == [("rubric", "rubric")]


def test_entry_points_are_read_only_for_unknown_types(tmp_path: Path) -> None:
    path = write(tmp_path, "evalcases: [{id: a, input: x, evaluators: [{type: contains, value: x}]}]\n")
    program = f"""
import importlib.metadata, sys
from pathlib import Path
asked = []
importlib.metadata.entry_points = lambda group: asked.append(group) or ()
from agentv.evaluators.reader import EvaluatorReader
from agentv.evaluators.registry import evaluator_class
from agentv.suite.loader import load_suite
load_suite(Path({str(path)!r}), EvaluatorReader())
before = list(asked)
evaluator_class("sentiment")
print(before.count("agentv.evaluators"), asked.count("agentv.evaluators"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "0 1\n"


def test_two_suites_do_not_share_defaults(tmp_path: Path) -> None:
    reader = EvaluatorReader()
    warm = load_suite(write(tmp_path, WARM, "warm.yaml"), reader)
    cold = load_suite(write(tmp_path, WARM.replace("true", "false"), "cold.yaml"), reader)
    assert [warm_of(options(next(suite.cases()))[0]) for suite in (warm, cold)] == [{"plain": True}, {"plain": False}]
