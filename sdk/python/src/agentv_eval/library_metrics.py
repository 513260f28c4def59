"""For judge scripts that run a metric of another library: its name, its parameters, its material and its score.

What cannot be computed is a `MetricError` whose message says what to do, never a low score.
"""

from __future__ import annotations

import math
from contextlib import contextmanager

from .material import MetricError, answer_of, fail, reference_of, value_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from .values import CodeJudgeInput

_SUFFIXES = ("metric", "evaluator", "prompt")
"""Ends of names that can be omitted."""
_EMBEDDINGS = (
    "configure a target with `provider: embeddings`, and name it in `judge: {embeddings: NAME}` of the evaluator"
)
_MOST_LISTED = 40
_LONGEST = 500


# -- what was asked for


def chosen(case: CodeJudgeInput, metric: str, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The metric and its parameters: those of the script, which `config` of the evaluator overrides."""
    config = case.config or {}
    name = config.get("metric") or metric or fail("no metric is chosen; set `METRIC` in the script")
    return str(name), {**parameters, **(config.get("parameters") or {})}


def named(written: str, available: Iterable[str], library: str) -> str:
    """The name of a metric as its library spells it: `contextual_precision` is `ContextualPrecisionMetric`."""
    names = sorted(available)
    if written in names:
        return written
    for folded in (_folded, _stem):
        same = [name for name in names if folded(name) == folded(written)]
        if len(same) == 1:
            return same[0]
    from difflib import get_close_matches  # loaded only for errors

    stems = {_stem(name): name for name in names}
    alike = [stem for stem in stems if stem.startswith(_stem(written))] or get_close_matches(_stem(written), stems, n=3)
    near = [stems[stem] for stem in alike[:3]]
    hint = f" (did you mean {' or '.join(f'`{name}`' for name in near)}?)" if near else ""
    listed = ", ".join(names[:_MOST_LISTED]) + (", ..." if len(names) > _MOST_LISTED else "")
    return fail(f"{library} has no metric '{written}'{hint}; available: {listed}")


def _folded(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _stem(name: str) -> str:
    folded = _folded(name)
    return next((folded[: -len(end)] for end in _SUFFIXES if folded.endswith(end) and folded != end), folded)


def parameters_of(function: Callable[..., Any]) -> dict[str, bool]:
    """The named parameters of a function, and whether each is required."""
    import inspect  # takes 10 ms; the libraries load it anyway

    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default is each.empty for each in parameters if each.kind in kinds and each.name != "self"}


def checked_parameters(metric: str, accepted: Mapping[str, bool], written: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters, with the metric as `name` if it needs one. Raises MetricError if a parameter is unknown, or a
    required one is missing."""
    from difflib import get_close_matches

    parameters = {**({"name": metric} if accepted.get("name") else {}), **written}
    for name in written:
        if name not in accepted:
            near = get_close_matches(name, accepted, n=1)
            hint = f" (did you mean `{near[0]}`?)" if near else ""
            fail(f"{metric} has no parameter `{name}`{hint}; parameters: {', '.join(accepted) or 'none'}")
    for name, required in accepted.items():
        if required and name not in parameters:
            fail(f"{metric} needs the parameter `{name}`; set it in `parameters` of the evaluator")
    return parameters


# -- its material


def gathered(
    case: CodeJudgeInput,
    fields: Mapping[str, Callable[[CodeJudgeInput], Any]],
    required: Iterable[str],
    optional: Iterable[str] = (),
    written: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What a metric gets, by its own names: values in `written`, those of `fields`, and others from `metadata` or
    `vars` of the case. Raises MetricError if a required one is missing.

    The answer may be empty in metrics that require the expected answer: others would find nothing wrong in it.
    """
    material: dict[str, Any] = dict(written or {})
    required = list(required)
    if any(fields.get(name) is reference_of for name in required):
        fields = {name: _any_answer if found is answer_of else found for name, found in fields.items()}
    for name in required:
        if name not in material:
            material[name] = _found(case, fields, name)
    for name in optional:
        if name not in material:
            try:
                material[name] = _found(case, fields, name)
            except MetricError:
                continue
    return material


def _any_answer(case: CodeJudgeInput) -> str:
    return case.candidate_answer or ""


def _found(case: CodeJudgeInput, fields: Mapping[str, Callable[[CodeJudgeInput], Any]], name: str) -> Any:
    if name in fields:
        return fields[name](case)
    for place in ("metadata", "vars"):
        value = value_at(case, f"{place}.{name}")
        if value is not None:
            return value
    return fail(f"the metric needs `{name}`; set `metadata.{name}` or `vars.{name}` of the case")


def need_embeddings(case: CodeJudgeInput) -> None:
    """Raise MetricError if agentv says that the evaluator has no embeddings."""
    if (case.config or {}).get("embeddings") is False:
        fail(f"the metric needs embeddings: {_EMBEDDINGS}")


@contextmanager
def errors_of(metric: str) -> Iterator[None]:
    """Raise MetricError for errors of a library: with the message of the judge proxy if it caused the error."""
    try:
        yield
    except (MetricError, ImportError):
        raise
    except Exception as error:
        message = f"{metric} failed: {type(error).__name__}: {str(error)[:_LONGEST]}"
        raise MetricError(_of_proxy(error) or message) from error


def _of_proxy(error: BaseException | None) -> str | None:
    """The message of the HTTP error that an exception was raised from."""
    for _ in range(10):
        if error is None:
            return None
        body, status = getattr(error, "body", None), getattr(error, "status_code", None)
        if isinstance(status, int) and isinstance(body, dict):
            inner = body.get("error")
            message = (inner if isinstance(inner, dict) else body).get("message")
            return f"the judge failed with status {status}: {message}"
        error = error.__cause__ or error.__context__
    return None


# -- its score


def measured(
    library: str,
    metric: str,
    value: Any,
    reasoning: Any = "",
    *,
    scale: tuple[float, float] = (0, 1),
    is_cosine: bool = False,
    lower_is_better: bool = False,
    details: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The result for a value of a metric: a score from 0 (worst) to 1 (best). `details` says how it was converted.

    Raises MetricError if there is no value, or if it is outside of the scale. A negative cosine counts as 0.
    """
    if hasattr(value, "item"):
        value = value.item()  # a number of numpy
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        fail(f"{metric} of {library} returned no score, but {value!r}; judge_calls.jsonl has the replies of the judge")
    low, high = (-1, 1) if is_cosine else scale
    if not low - 1e-6 <= value <= high + 1e-6:
        fail(f"{metric} of {library} returned the score {value:g}, which is not from {low:g} to {high:g}")
    if is_cosine:
        score, formula = max(float(value), 0.0), "max(library_score, 0)"
    else:
        score = (value - low) / (high - low)
        formula = "library_score" if (low, high) == (0, 1) else f"(library_score - {low:g}) / {high - low:g}"
    if lower_is_better:
        score, formula = 1.0 - score, f"1 - {formula}"
    about: dict[str, Any] = {"library": _with_version(library), "metric": metric, "library_score": float(value)}
    if formula != "library_score":
        about["score"] = formula
    return {
        "score": min(max(score, 0.0), 1.0),
        "reasoning": str(reasoning or ""),
        "details": {**about, **(details or {})},
    }


def _with_version(library: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{library} {version(library)}"
    except PackageNotFoundError:
        return library
