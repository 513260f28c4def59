from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import PrivateAttr

from agentv.errors import EvaluatorError, ProviderError, TargetUnavailableError
from agentv.evaluators.base import EvaluationContext, Evaluator
from agentv.evaluators.registry import BUILT_IN
from agentv.evaluators.scoring import combine, judge, judge_all
from agentv.results import CaseError, EvaluatorResult, Score, Verdict
from tests.evaluators.support import Fixed, an_answer, an_evaluator, without_waiting

CONTEXT = an_answer("answer")
SCORES = st.floats(0, 1)
WEIGHTS = st.floats(0, 1e6)


class Meeting(Evaluator):
    """Waits at a barrier until enough other evaluators wait."""

    type: Literal["meeting"] = "meeting"
    _barrier: asyncio.Barrier = PrivateAttr()
    _cancelled: list[str] = PrivateAttr(default_factory=list)

    @classmethod
    def at(cls, barrier: asyncio.Barrier, name: str) -> Meeting:
        meeting = cls(name=name)
        meeting._barrier = barrier
        return meeting

    async def evaluate(self, context: EvaluationContext) -> Score:
        try:
            await self._barrier.wait()
        except asyncio.CancelledError:
            self._cancelled.append(self.name)
            raise
        return Score(1.0, (self.name,))


class Careless(Evaluator):
    """Returns a value that is not a `Score`."""

    type: Literal["careless"] = "careless"

    async def evaluate(self, context: EvaluationContext) -> Score:
        return 0.5  # type: ignore[return-value]


def result(name: str = "e", score: float = 1.0, weight: float = 1.0, **rest: Any) -> EvaluatorResult:
    verdict = rest.pop("verdict", Verdict.PASS if score >= 0.8 else Verdict.FAIL)
    return EvaluatorResult(name, "fixed", score, weight, verdict, **rest)


# -- one evaluator


def test_result_keeps_score_hits_misses_and_reasoning():
    evaluator = Fixed(
        name="e",
        says=0.7,
        weight=2.5,
        required=True,
        threshold=0.9,
        hits=("h",),
        misses=("m",),
        reasoning="because",
    )
    found = without_waiting(judge(evaluator, CONTEXT))
    assert (found.name, found.type, found.score, found.weight, found.required) == (
        "e",
        "fixed",
        0.7,
        2.5,
        True,
    )
    assert (found.hits, found.misses, found.reasoning, found.error) == (("h",), ("m",), "because", None)
    assert found.verdict is Verdict.BORDERLINE
    assert found.duration_ms >= 0
    assert found.duration_ms == round(found.duration_ms, 3)


@pytest.mark.parametrize(
    ("says", "threshold", "verdict"),
    [
        (0.8, 0.8, Verdict.PASS),
        (0.79, 0.8, Verdict.BORDERLINE),
        (0.6, 0.8, Verdict.BORDERLINE),
        (0.59, 0.8, Verdict.FAIL),
        (0.5, 0.5, Verdict.PASS),
        (0.0, 0.0, Verdict.PASS),
    ],
)
def test_evaluator_threshold_decides_the_verdict(says, threshold, verdict):
    assert without_waiting(judge(Fixed(name="e", says=says, threshold=threshold), CONTEXT)).verdict is verdict


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (EvaluatorError("cannot judge", next_step="Do this."), "cannot judge.\nDo this."),
        (ProviderError("the judge said 500", status=500), "the judge said 500"),
        (TargetUnavailableError("strict", "no key"), "target 'strict' is not available: no key"),
    ],
)
@pytest.mark.parametrize("negate", [False, True])
def test_evaluator_error_becomes_the_result_of_the_evaluator(failure, message, negate):
    found = without_waiting(judge(Fixed(name="e", failure=failure, negate=negate, hits=("h",), threshold=0.0), CONTEXT))
    assert (found.score, found.verdict, found.hits, found.misses) == (0.0, Verdict.FAIL, (), ())
    assert found.error == message


def test_crash_is_reported_as_a_bug_in_the_evaluator():
    found = without_waiting(judge(Fixed(name="mine", failure=KeyError("colour"), negate=True), CONTEXT))
    assert found.score == 0.0
    assert found.error is not None
    assert found.error.startswith("evaluator 'mine' crashed: KeyError: 'colour'")
    assert "This is a bug in the evaluator (type 'fixed')" in found.error


def test_result_that_is_not_a_score_is_a_crash():
    found = without_waiting(judge(Careless(name="e"), CONTEXT))
    assert found.error is not None
    assert "TypeError: evaluate() must return a Score, got float" in found.error


def test_score_out_of_range_is_a_crash():
    found = without_waiting(judge(Fixed(name="e", says=1.5), CONTEXT))
    assert (found.score, found.verdict) == (0.0, Verdict.FAIL)
    assert found.error is not None


@pytest.mark.parametrize("failure", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(3)])
def test_cancellation_and_interrupts_are_never_swallowed(failure):
    with pytest.raises(type(failure)):
        without_waiting(judge(Fixed(name="e", failure=failure), CONTEXT))


def test_negate_inverts_score_hits_and_misses_before_the_verdict():
    found = without_waiting(judge(Fixed(name="e", says=0.2, hits=("h",), misses=("m1", "m2"), negate=True), CONTEXT))
    assert (found.score, found.verdict) == (0.8, Verdict.PASS)
    assert (found.hits, found.misses) == (("m1", "m2"), ("h",))


def test_negated_score_reaches_the_threshold_despite_float_rounding():
    assert 1 - 0.9 < 0.1
    found = without_waiting(judge(Fixed(name="e", says=0.9, negate=True, threshold=0.1), CONTEXT))
    assert found.verdict is Verdict.PASS


def test_judge_calls_are_recorded_when_the_evaluator_fails():
    failure = EvaluatorError("over the limit")
    failure.judge_proxy = {"call_count": 3}
    assert without_waiting(judge(Fixed(name="e", failure=failure), CONTEXT)).judge_proxy == {"call_count": 3}


# -- several evaluators


async def test_waiting_evaluators_run_concurrently_and_results_keep_their_order():
    barrier = asyncio.Barrier(3)
    evaluators = [
        Meeting.at(barrier, "a"),
        Fixed(name="b"),
        Meeting.at(barrier, "c"),
        Fixed(name="d", failure=ValueError("x")),
        Meeting.at(barrier, "e"),
    ]
    async with asyncio.timeout(30):
        results = await judge_all(evaluators, CONTEXT)
    assert [found.name for found in results] == ["a", "b", "c", "d", "e"]
    assert [found.score for found in results] == [1.0, 1.0, 1.0, 0.0, 1.0]


async def test_failing_evaluator_does_not_stop_the_others():
    barrier = asyncio.Barrier(2)
    failing = Fixed(name="b", failure=EvaluatorError("no"))
    results = await judge_all([Meeting.at(barrier, "a"), failing, Meeting.at(barrier, "c")], CONTEXT)
    assert [found.error for found in results] == [None, "no", None]


async def test_cancelling_cancels_every_evaluator():
    barrier = asyncio.Barrier(3)
    evaluators = [Meeting.at(barrier, "a"), Meeting.at(barrier, "b")]
    task = asyncio.create_task(judge_all(evaluators, CONTEXT))
    async with asyncio.timeout(30):
        while barrier.n_waiting < 2:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [evaluator._cancelled for evaluator in evaluators] == [["a"], ["b"]]


def test_evaluators_that_never_wait_need_no_task():
    evaluators = [
        Fixed(name="a"),
        an_evaluator("contains", value="x"),
        an_evaluator("is_json"),
        Careless(name="d"),
    ]
    assert [found.name for found in without_waiting(judge_all(evaluators, CONTEXT))] == [
        "a",
        "contains",
        "is_json",
        "d",
    ]
    assert without_waiting(judge_all([], CONTEXT)) == ()


# -- the case


def test_case_score_is_the_weighted_mean():
    case = combine([result("a", 1.0, 3.0), result("b", 0.5, 1.0), result("c", 0.0, 0.0)], 0.8)
    assert case.score == pytest.approx(0.875)
    assert (case.verdict, case.error) == (Verdict.PASS, None)
    assert combine([result("a", 1.0, 3.0), result("b", 0.5, 1.0)], 0.9).verdict is Verdict.BORDERLINE


def test_case_score_is_zero_without_evaluators_or_weights():
    assert combine([result("a", 1.0, 0.0)], 0.8).score == 0.0
    assert combine([], 0.8).score == 0.0


def test_failed_required_evaluator_fails_the_case_with_score_zero():
    passed = [result("a", 1.0), result("b", 0.8, required=True)]
    failed = [result("a", 1.0), result("b", 0.7, required=True, verdict=Verdict.BORDERLINE)]
    assert combine(passed, 0.8).score == 0.9
    assert (combine(failed, 0.8).score, combine(failed, 0.8).verdict) == (0.0, Verdict.FAIL)
    assert combine(failed, 0.0).verdict is Verdict.FAIL


def test_failed_required_evaluator_of_weight_zero_fails_the_case():
    assert combine([result("a", 1.0), result("b", 0.0, 0.0, required=True)], 0.8).score == 0.0


def test_required_evaluator_error_fails_the_case_for_any_threshold():
    broken = without_waiting(
        judge(Fixed(name="b", failure=EvaluatorError("no"), required=True, threshold=0.0), CONTEXT)
    )
    case = combine([result("a"), broken], 0.0)
    assert (case.score, case.verdict) == (0.0, Verdict.FAIL)
    assert case.error == CaseError("evaluator", "b: no")


def test_case_with_errors_does_not_pass_and_lists_every_error():
    results = [
        result("a", 1.0, 100.0),
        result("b", 0.0, error="no"),
        result("c", 0.0, error="nor me"),
    ]
    case = combine(results, 0.8)
    assert case.score == pytest.approx(100 / 102)
    assert case.verdict is Verdict.FAIL
    assert case.error == CaseError("evaluator", "b: no; c: nor me")
    assert combine([result("a", 1.0, 2.0), results[1]], 0.8).verdict is Verdict.BORDERLINE


def test_case_combines_hits_misses_and_reasoning_in_order():
    case = combine(
        [
            result("a", hits=("h1", "h2"), reasoning="fine"),
            result("b", misses=("m1",)),
            result("c", hits=("h3",), misses=("m2",), reasoning="so so"),
        ],
        0.8,
    )
    assert (case.hits, case.misses) == (("h1", "h2", "h3"), ("m1", "m2"))
    assert case.reasoning == "a: fine | c: so so"


# -- properties

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "contains": [{"value": "a"}, {"value": ["a", "b", "c"]}],
    "icontains": [{"value": ["A", "ß"], "match": "any"}],
    "equals": [{"value": ["", "a"]}],
    "starts_with": [{"value": ["a", "ab"]}],
    "ends_with": [{"value": "a"}],
    "regex": [{"pattern": "a+b"}],
    "is_json": [{}],
    "json_schema": [{"schema": {"type": "object", "required": ["a"]}}],
    "similarity": [{"metric": metric} for metric in ("levenshtein", "token_set", "jaccard", "rouge_l")],
}


@given(st.text() | st.text(alphabet='abß {}":1'), st.text(), st.booleans())
def test_score_is_between_zero_and_one(answer, reference, negate):
    for type_name, variants in OPTIONS.items():
        for options in variants:
            found = without_waiting(
                judge(an_evaluator(type_name, negate=negate, **options), an_answer(answer, reference))
            )
            assert found.error is None
            assert 0.0 <= found.score <= 1.0


def test_every_deterministic_evaluator_is_covered():
    deterministic = {name for name, where in BUILT_IN.items() if where.split(":")[0].rpartition(".")[2] in MODULES}
    assert deterministic == set(OPTIONS)


MODULES = {"text", "regex", "is_json", "json_schema", "similarity"}


@given(SCORES)
def test_negating_twice_restores_the_score(score):
    once = without_waiting(judge(Fixed(name="e", says=score, negate=True), CONTEXT))
    twice = without_waiting(judge(Fixed(name="e", says=once.score, negate=True), CONTEXT))
    assert 0.0 <= once.score <= 1.0
    assert twice.score == pytest.approx(score, abs=1e-11)


@given(st.lists(st.tuples(SCORES, WEIGHTS), min_size=1, max_size=6), SCORES)
def test_evaluator_of_weight_zero_does_not_change_the_case_score(pairs, score):
    results = [result(str(i), score, weight) for i, (score, weight) in enumerate(pairs)]
    assert combine([*results, result("idle", score, 0.0)], 0.8).score == combine(results, 0.8).score


@given(st.lists(st.tuples(SCORES, WEIGHTS, st.booleans()), min_size=1, max_size=6), st.randoms())
def test_score_and_verdict_are_independent_of_evaluator_order(triples, random):
    results = [result(str(i), score, weight, required=needed) for i, (score, weight, needed) in enumerate(triples)]
    shuffled = random.sample(results, len(results))
    one, other = combine(results, 0.8), combine(shuffled, 0.8)
    assert (one.score, one.verdict) == (other.score, other.verdict)
    assert 0.0 <= one.score <= 1.0
