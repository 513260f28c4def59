"""The checks of the turns of a conversation. Suites list them under `turns`; this evaluator runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, SerializeAsAny

from agentv.errors import EvaluatorError
from agentv.evaluators.base import EvaluationContext, Evaluator, Need
from agentv.evaluators.scoring import combine, judge_all
from agentv.evidence import EvaluatorRecord
from agentv.messages import Message
from agentv.results import EvaluatorResult, Score, TurnRecord, Verdict, verdict_for
from agentv.suite.messages import question_of
from agentv.suite.suite import CaseTurn, EvalCase
from agentv.text import plural

if TYPE_CHECKING:
    from agentv.interpreters.interpreter import Interpreter

Aggregation = Literal["mean", "min", "last"]


class Turns(Evaluator):
    """Judges the answer of each turn with its own evaluators, and combines the scores of the turns."""

    type: Literal["turns"] = "turns"
    turns: list[list[SerializeAsAny[Evaluator]]] = Field(description="The evaluators of each turn.")
    aggregation: Aggregation = Field("mean", description="How the scores of the turns become one.")

    @property
    def _parts(self) -> list[Evaluator]:
        return [each for members in self.turns for each in members]

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset().union(*(part.needs for part in self._parts))

    def variables_used(self) -> frozenset[str]:
        return frozenset().union(*(part.variables_used() for part in self._parts))

    def targets_named(self) -> list[str]:
        return [name for part in self._parts for name in part.targets_named()]

    def embeddings_named(self) -> list[str]:
        return [name for part in self._parts for name in part.embeddings_named()]

    def judge_targets(self) -> list[str | None]:
        return [name for part in self._parts for name in part.judge_targets()]

    def interpreters(self, directory: Path) -> list[tuple[str, Interpreter]]:
        return [each for part in self._parts for each in part.interpreters(directory)]

    def depends_on(self, directory: Path) -> list[Path]:
        return [path for part in self._parts for path in part.depends_on(directory)]

    def recorded_options(self) -> dict[str, Any]:
        return {"aggregation": self.aggregation}

    def members(self) -> tuple[EvaluatorRecord, ...]:
        return tuple(
            EvaluatorRecord(f"turn {number}", "turn", members=tuple(each.record() for each in members))
            for number, members in enumerate(self.turns, 1)
        )

    async def evaluate(self, context: EvaluationContext) -> Score:
        turns = context.candidate.turns
        if len(turns) != len(self.turns):
            raise EvaluatorError(
                f"the case has {plural(len(self.turns), 'turn')}, and the answer has {len(turns)}",
                next_step="Call the target again: this answer was recorded without its turns.",
            )
        results: list[EvaluatorResult] = []
        for number, members in enumerate(self.turns):
            if members:
                results.append(await self._judge_turn(number, members, context))
        errors = [f"{result.name}: {result.error}" for result in results if result.error is not None]
        if errors:
            raise EvaluatorError("; ".join(errors), evaluator_results=tuple(results))
        scores = [result.score for result in results]
        score = {"mean": sum(scores) / len(scores), "min": min(scores), "last": scores[-1]}[self.aggregation]
        lowest = min(results, key=lambda result: result.score)
        reasoning = f"{self.aggregation} of {plural(len(scores), 'turn')}"
        if lowest.score < 1:
            reasoning += f"; {lowest.name}: {lowest.reasoning}"
        return Score(
            round(score, 12),
            tuple(f"{each.name}: {hit}" for each in results for hit in each.hits),
            tuple(f"{each.name}: {miss}" for each in results for miss in each.misses),
            reasoning,
            {"aggregation": self.aggregation},
            evaluator_results=tuple(results),
        )

    async def _judge_turn(
        self, number: int, members: Sequence[Evaluator], context: EvaluationContext
    ) -> EvaluatorResult:
        turn = context.candidate.turns[number]
        case = case_at(context.case, context.candidate.turns, number)
        candidate = replace(
            context.candidate,
            answer=turn.answer,
            output_messages=turn.output_messages,
            token_usage=turn.token_usage,
            cost_usd=turn.cost_usd,
            duration_ms=turn.duration_ms,
            turns=(),
        )
        # Judge calls are recorded by evaluator: those of different turns must not be taken for each other.
        named = [each.model_copy(update={"name": f"turn {number + 1}/{each.name}"}) for each in members]
        results = await judge_all(named, replace(context, case=case, candidate=candidate))
        score = combine(results, self.threshold)
        return EvaluatorResult(
            name=f"turn {number + 1}",
            type="turn",
            score=score.score,
            weight=1.0,
            verdict=Verdict.FAIL if score.error else verdict_for(score.score, self.threshold),
            error=score.error.message if score.error else None,
            hits=score.hits,
            misses=score.misses,
            reasoning=score.reasoning,
            evaluator_results=tuple(results),
        )


def case_at(case: EvalCase, turns: Sequence[TurnRecord], number: int) -> EvalCase:
    """The case as it was when a turn was answered: the conversation so far, and what was expected of this turn."""
    expected = case.turns[number] if number < len(case.turns) else CaseTurn(())
    return replace(
        case,
        input_messages=_asked(case, turns, number),
        question=question_of(turns[number].input_messages),
        reference_answer=expected.reference_answer,
        expected_outcome=expected.expected_outcome,
    )


def asked_until_the_end(case: EvalCase, turns: Sequence[TurnRecord]) -> EvalCase:
    """The case with the whole conversation as its input, except for the last answer."""
    messages = _asked(case, turns, len(turns) - 1)
    return replace(case, input_messages=messages, question=question_of(messages))


def _asked(case: EvalCase, turns: Sequence[TurnRecord], number: int) -> tuple[Message, ...]:
    said = [*case.before_turns, *(message for turn in turns[: number + 1] for message in turn.input_messages)]
    messages = [message for message in said if message.role == "system"]
    for turn in turns[:number]:
        messages += [*(each for each in turn.input_messages if each.role != "system"), *turn.output_messages]
    return (*messages, *(each for each in turns[number].input_messages if each.role != "system"))
