"""Metrics of other libraries for the evaluator `metric`: `deepeval:FaithfulnessMetric` and the like."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from agentv.command import with_own_python
from agentv.errors import EvaluatorError
from agentv.evaluators.base import Complain
from agentv.judge.access import read_access
from agentv.metrics.libraries import LIBRARIES, adapter_of, library_name
from agentv.scripts import ScriptError
from agentv.suite.validation import show
from agentv.text import all_of, did_you_mean

AN_EXAMPLE = "deepeval:FaithfulnessMetric"
OPTIONS = ("context", "parameters")
"""Options that go to the adapter."""
_MISSING = re.compile(r"^(?:agentv_eval: the judge failed: )?((?:ModuleNotFound|Import)Error: .+)$", re.MULTILINE)


def names_library_metric(written: Any) -> bool:
    """Whether a metric is that of a library: `LIBRARY:METRIC`."""
    return isinstance(written, str) and ":" in written


def split(written: str) -> tuple[str, str]:
    """The library and the metric that a name is composed of."""
    library, _, metric = written.partition(":")
    return library_name(library), metric.strip()


def library_options(options: dict[str, Any], key: str, others: Sequence[str], complain: Complain) -> dict[str, Any]:
    """The options of an evaluator whose option `key` names the metric of a library. `others` are those of ready
    metrics, which it does not have."""
    written = options[key]
    library, metric = split(written)
    if library not in LIBRARIES or not metric:
        near = did_you_mean(library, list(LIBRARIES))
        problem = (
            f"unknown library {show(library)}{near}" if library not in LIBRARIES else f"{show(written)} has no metric"
        )
        complain(key, f"{problem}; write `LIBRARY:METRIC` (like `{AN_EXAMPLE}`) with {all_of(list(LIBRARIES))}")
        return {**options, "metric": "", "script": ["-"]}
    for option in others:
        if option in options:
            complain(option, f"`{option}` is not an option of `{written}`; its own options go under `parameters`")
    disabled = options.get("judge") is False
    access = read_access(options, complain)
    if not disabled:
        options["judge"] = dict(access or {})
    name = f"{library}:{metric}"
    return {"name": name, **options, "metric": name, "script": ["python", str(adapter_of(library))]}


def variables_of(metric: str, env: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """The variables that stop telemetry of the library, unless `env` names them."""
    return {name: value for name, value in LIBRARIES[split(metric)[0]].variables.items() if name not in env}


def config_of(metric: str, options: Mapping[str, Any], *, has_embeddings: bool) -> dict[str, Any]:
    """What the adapter gets as `config`."""
    return {"metric": split(metric)[1], **options, "embeddings": has_embeddings}


def not_installed(metric: str, program: str, error: ScriptError) -> EvaluatorError | None:
    """The error for a library, or a package that it needs, which the Python that `program` names does not have; None if
    that is not the cause."""
    missing = _MISSING.findall(error.stderr)
    if not missing:
        return None
    library, python = LIBRARIES[split(metric)[0]], with_own_python([program])[0]
    install = f"{python} -m pip install --upgrade agentv-eval"
    if "agentv_eval" not in missing[-1]:
        install = (
            f"Add `{library.python}` to the evaluator (and the package, if it is another one), or install it there: "
            f"{install} {shlex.join(library.requirements)}"
        )
    return EvaluatorError(
        f"`{metric}` needs a package that {python} does not have: {missing[-1].rstrip('.')}.",
        next_step=install,
        judge_proxy=error.judge_proxy,
    )
