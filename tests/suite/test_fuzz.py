"""Any suite file either loads or raises SuiteError. `benchmarks.fuzz_suites` runs many more rounds."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import yaml
from benchmarks.fuzz_suites import CASES, YAML, one_round, prepare, try_one
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentv.evaluators.reader import DEFAULT_TYPE
from agentv.suite.models import CaseModel, MessageModel, SuiteExecutionModel, SuiteModel, ToolCallModel

quick = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["user", "contains", "is_json", DEFAULT_TYPE, "cases.jsonl", "note.md", "file", "text", "x"]),
)


def keys_of(*models: Any) -> list[str]:
    return sorted({field.alias or name for model in models for name, field in model.model_fields.items()})


KEYS = [
    *keys_of(CaseModel, MessageModel, ToolCallModel, SuiteExecutionModel, SuiteModel),
    "type",
    "value",
    "file",
    "<<",
]
keys = st.one_of(st.sampled_from(KEYS), st.text(max_size=4))
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)
case_like = st.dictionaries(keys, values, max_size=6)
suite_like = st.dictionaries(keys, values, max_size=4).flatmap(
    lambda head: st.lists(case_like | values, max_size=3).map(lambda cases: {**head, "evalcases": cases})
)


def outcome(suite: bytes, cases: bytes = b"", name: str = "suite.yaml") -> str:
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        return try_one(Path(folder), suite, cases, name)


def test_suite_that_examples_are_mutated_from_loads():
    assert outcome(YAML.encode(), CASES.encode()) == "loaded"


def test_mutated_suite_loads_or_raises_suite_error(tmp_path):
    prepare(tmp_path)
    crashed = {seed: ended for seed in range(300) if (ended := one_round(tmp_path, seed)) not in ("loaded", "refused")}
    assert not crashed


@quick
@given(suite_like)
def test_suite_like_data_loads_or_raises_suite_error(data):
    assert outcome(yaml.safe_dump(data, allow_unicode=True).encode("utf-8", "surrogatepass")) in ("loaded", "refused")


@quick
@given(st.lists(case_like | values, max_size=4))
def test_any_json_lines_load_or_raise_suite_error(data):
    lines = "\n".join(json.dumps(line) for line in data)
    assert outcome(b"evalcases: cases.jsonl", lines.encode()) in ("loaded", "refused")


@quick
@given(st.binary(max_size=200))
def test_any_bytes_load_or_raise_suite_error(data):
    assert outcome(data) in ("loaded", "refused")
    assert outcome(b"evalcases:\n- " + data) in ("loaded", "refused")
    assert outcome(data, name="suite.jsonl") in ("loaded", "refused")


@quick
@given(st.text(alphabet="ab:-?[]{},&*!|>'\"%#@` \n\t<0.~", max_size=60))
def test_any_yaml_punctuation_loads_or_raises_suite_error(text):
    assert outcome(text.encode()) in ("loaded", "refused")
    assert outcome(f"x-a: &a {{b: 1}}\nevalcases:\n- {{id: a, input: x, metadata: {text}}}".encode()) in (
        "loaded",
        "refused",
    )
