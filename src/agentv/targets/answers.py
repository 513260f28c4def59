"""Recorded answers: JSON Lines with `eval_id` and `candidate_answer` or `output_messages`.

Rows of `results.jsonl` have this format. A line may also set `target`, `attempt` and `suite`, and then applies only to
those; without them it applies to all.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from agentv.codec import DecodeError, decode
from agentv.errors import InvalidFilesError, Problem, ProviderError, UsageError
from agentv.messages import Message, TokenUsage, final_text
from agentv.regular_files import FileUnusableError, open_regular
from agentv.results import TurnRecord
from agentv.suite.json_lines import iterate_lines
from agentv.targets.agentv_replies import of_fixture, with_our_names
from agentv.targets.structured import ShapeError, named_model, parse_amount, parse_messages, parse_usage

LONGEST_LINE = 64 * 1024 * 1024


class AnswerKey(NamedTuple):
    """The case that a line answers. None matches every suite, target, attempt or prompt."""

    suite: str | None
    eval_id: str
    target: str | None
    attempt: int | None
    prompt: str | None = None

    @classmethod
    def of_case(cls, eval_id: str) -> AnswerKey:
        """The key of an answer that applies in every suite and to every target and attempt."""
        return cls(suite=None, eval_id=eval_id, target=None, attempt=None)

    def __str__(self) -> str:
        parts = [f"suite '{self.suite}'"] if self.suite is not None else []
        parts += [f"target '{self.target}'"] if self.target is not None else []
        parts += [f"prompt '{self.prompt}'"] if self.prompt is not None else []
        parts += [f"attempt {self.attempt}"] if self.attempt is not None else []
        return f"'{self.eval_id}'" + (f" ({', '.join(parts)})" if parts else "")


@dataclass(frozen=True, slots=True)
class Answer:
    """One recorded answer, or the recorded failure of a call (`failure`)."""

    key: AnswerKey
    line: int
    text: str = ""
    output_messages: tuple[Message, ...] = ()
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    finish_reason: str | None = None
    model: str | None = None
    """The model that answered, if the line names it."""
    failure: str | None = None
    turns: tuple[TurnRecord, ...] = ()
    """The turns of a conversation, if the line has them."""

    def fits(self, wanted_key: AnswerKey) -> bool:
        pairs = zip(self.key, wanted_key, strict=True)
        return all(mine is None or wanted is None or mine == wanted for mine, wanted in pairs)


class Answers:
    """The answers in one file, or answers from elsewhere when `path` is None."""

    def __init__(
        self, path: Path | None, answers: Mapping[str, list[Answer]], failures: Mapping[str, list[Answer]]
    ) -> None:
        self.path = path
        self._answers = answers
        self._failures = failures

    @property
    def ids(self) -> frozenset[str]:
        """The eval ids that have an answer."""
        return frozenset(self._answers)

    @property
    def targets(self) -> frozenset[str]:
        """The targets named in the file."""
        return frozenset(a.key.target for lines in self._answers.values() for a in lines if a.key.target is not None)

    def paired_with(self, suites: Mapping[str, Collection[str]]) -> tuple[Answers, dict[str, str]]:
        """The answers with the suite names of these suites (name -> case ids), and which name was read as which other.

        Lines of a suite with another name are paired by case id if that is unambiguous: no line names the suite of the
        case, the lines with its id name one suite only, and no other suite has a case with this id.
        """
        owners: dict[str, list[str]] = {}
        for suite, ids in suites.items():
            for eval_id in ids:
                owners.setdefault(eval_id, []).append(suite)
        renamed: dict[str, str] = {}

        def paired(lines: Mapping[str, list[Answer]]) -> dict[str, list[Answer]]:
            return {eval_id: [pair(answer) for answer in found] for eval_id, found in lines.items()}

        def pair(answer: Answer) -> Answer:
            eval_id, named = answer.key.eval_id, answer.key.suite
            wanted = owners.get(eval_id, ())
            if named is None or len(wanted) != 1 or named in wanted or self.suites_of(eval_id) != {named}:
                return answer
            renamed[named] = wanted[0]
            return replace(answer, key=answer.key._replace(suite=wanted[0]))

        return Answers(self.path, paired(self._answers), paired(self._failures)), renamed

    @property
    def has_attempts(self) -> bool:
        """Whether a case was attempted more than once."""
        return any((answer.key.attempt or 1) > 1 for answer in self._all())

    def for_any_attempt(self) -> Answers:
        """The same answers, each for all attempts at its case."""

        def unnumbered(lines: Mapping[str, list[Answer]]) -> dict[str, list[Answer]]:
            return {
                eval_id: [replace(answer, key=answer.key._replace(attempt=None)) for answer in found]
                for eval_id, found in lines.items()
            }

        return Answers(self.path, unnumbered(self._answers), unnumbered(self._failures))

    def _all(self) -> Iterator[Answer]:
        return chain.from_iterable((*self._answers.values(), *self._failures.values()))

    def suites_of(self, eval_id: str) -> set[str | None]:
        """The suites that the lines about a case id name; None for a line that applies to every suite."""
        return {a.key.suite for a in (*self._answers.get(eval_id, ()), *self._failures.get(eval_id, ()))}

    def why_missing(self, eval_id: str, suite: str) -> str:
        """Why there is no answer for a case."""
        others = sorted(name for name in self.suites_of(eval_id) - {suite} if name is not None)
        if not others:
            return f"{self.path} contains no answer for it"
        names = ", ".join(f"'{name}'" for name in others)
        return f"the answers for this id in {self.path} are of suite {names}, not '{suite}'; pairing by id is ambiguous"

    def slots(self, eval_id: str, suite: str, prompt: str | None = None) -> list[tuple[str | None, int | None]]:
        """Target and attempt of every line about a case; None where a line does not set them."""
        lines = [*self._answers.get(eval_id, ()), *self._failures.get(eval_id, ())]
        wanted = AnswerKey(suite, eval_id, None, None, prompt)
        return [(a.key.target, a.key.attempt) for a in lines if a.fits(wanted)]

    def find(
        self,
        eval_id: str,
        target: str | None = None,
        attempt: int | None = None,
        *,
        suite: str | None = None,
        prompt: str | None = None,
    ) -> Answer | None:
        """The most specific matching answer: a line that sets the target or the attempt wins over one that does not.

        None for `target`, `attempt`, `suite` or `prompt` matches any. Raises `ProviderError` if several lines match
        equally well.
        """
        wanted = AnswerKey(suite, eval_id, target, attempt, prompt)
        fitting = [a for a in self._answers.get(eval_id, ()) if a.fits(wanted)]
        if len(fitting) < 2:
            return fitting[0] if fitting else None
        ranked = sorted(fitting, key=_precision, reverse=True)
        best = [answer for answer in ranked if _precision(answer) == _precision(ranked[0])]
        if len(best) > 1:
            raise ProviderError(
                f"{self.path} contains several answers for '{eval_id}': "
                f"{best[0].key} in line {best[0].line}, {best[1].key} in line {best[1].line}",
                next_step="Select a target (`from_target` of a replay target), or keep only one of the lines.",
            )
        return best[0]

    def failure(
        self,
        eval_id: str,
        target: str | None = None,
        attempt: int | None = None,
        *,
        suite: str | None = None,
        prompt: str | None = None,
    ) -> Answer | None:
        """The recorded failure of this call, if there is one."""
        wanted = AnswerKey(suite, eval_id, target, attempt, prompt)
        return next((a for a in self._failures.get(eval_id, ()) if a.fits(wanted)), None)


def _precision(answer: Answer) -> tuple[bool, ...]:
    key = answer.key
    return tuple(part is not None for part in (key.target, key.prompt, key.attempt, key.suite))


def load_answers(path: Path, *, may_be_pipe: bool = False) -> Answers:
    """Read a file of answers. Raises `InvalidFilesError` with every invalid line, `UsageError` if it cannot be read.

    `may_be_pipe` is for a file that the user has named on the command line, such as `<(...)`.
    """
    answers: dict[str, list[Answer]] = {}
    failures: dict[str, list[Answer]] = {}
    seen: dict[AnswerKey, int] = {}
    problems: list[Problem] = []
    for line, value, problem in _lines(path, may_be_pipe):
        try:
            answer = _answer(value, line, problem)
        except ShapeError as error:
            problems.append(Problem(path, line, 1, str(error)))
            continue
        if answer.failure is not None:
            failures.setdefault(answer.key.eval_id, []).append(answer)
        elif answer.key in seen:
            problems.append(
                Problem(
                    path,
                    line,
                    1,
                    f"{answer.key} is answered twice: here and in line {seen[answer.key]}; keep one of them",
                )
            )
        else:
            seen[answer.key] = line
            answers.setdefault(answer.key.eval_id, []).append(answer)
    if problems:
        raise InvalidFilesError(problems)
    return Answers(path, answers, failures)


def _lines(path: Path, may_be_pipe: bool) -> Iterator[tuple[int, Any, str | None]]:
    try:
        is_pipe = stat.S_ISFIFO(path.stat().st_mode) and may_be_pipe
        with path.open("rb") if is_pipe else open_regular(path) as file:
            yield from iterate_lines(file, LONGEST_LINE)
    except FileUnusableError as error:
        raise UsageError(
            f"cannot read the recorded answers in {path}: the file {error}",
            next_step="Name a JSON Lines file with `eval_id` and `candidate_answer`, or a results.jsonl.",
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot read the recorded answers in {path}: {error.strerror or error}",
            next_step="Name a JSON Lines file with `eval_id` and `candidate_answer`, or a results.jsonl.",
        ) from error


def _answer(value: Any, line: int, problem: str | None) -> Answer:
    if problem is not None:
        raise ShapeError(problem)
    if not isinstance(value, dict):
        raise ShapeError("expected one JSON object per line, with `eval_id` and `candidate_answer`")
    value = with_our_names(of_fixture(value))
    key = _key(value)
    failure = _failure(value.get("error"))
    if failure is not None:
        return Answer(key, line, failure=failure)
    messages = parse_messages(value["output_messages"]) if value.get("output_messages") is not None else ()
    text = value.get("candidate_answer")
    if not isinstance(text, str | None):
        raise ShapeError("`candidate_answer` must be a string")
    if text is None and not messages:
        raise ShapeError(f"'{key.eval_id}' has neither `candidate_answer` nor `output_messages`")
    text = final_text(messages) if text is None else text
    if not messages or final_text(messages) != text:
        messages = (*messages, Message("assistant", text))
    finish = value.get("finish_reason")
    return Answer(
        key,
        line,
        text,
        messages,
        token_usage=parse_usage(value.get("token_usage")),
        cost_usd=parse_amount(value.get("cost_usd"), "cost_usd"),
        duration_ms=parse_amount(value.get("duration_ms"), "duration_ms"),
        finish_reason=finish if isinstance(finish, str) else None,
        model=named_model(value.get("model")),
        turns=_turns(value.get("turns")),
    )


def _turns(value: Any) -> tuple[TurnRecord, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ShapeError("`turns` must be a list, as in a row of a conversation")
    try:
        return tuple(decode(TurnRecord, turn) for turn in value)
    except DecodeError as error:
        raise ShapeError(f"`turns` must be as in a row of a conversation: {error}") from None


def _key(value: Mapping[str, Any]) -> AnswerKey:
    eval_id, target, attempt, suite = (value.get(name) for name in ("eval_id", "target", "attempt", "suite"))
    if not isinstance(eval_id, str) or not eval_id:
        raise ShapeError("`eval_id` is missing: it must name the eval case this line answers")
    if not isinstance(target, str | None):
        raise ShapeError("`target` must be the name of a target")
    if not isinstance(suite, str | None):
        raise ShapeError("`suite` must be the name of a suite")
    prompt = value.get("prompt")
    if not isinstance(prompt, str | None):
        raise ShapeError("`prompt` must be the id of a prompt")
    if attempt is not None and (isinstance(attempt, bool) or not isinstance(attempt, int) or attempt < 1):
        raise ShapeError("`attempt` must be a whole number from 1")
    return AnswerKey(suite, eval_id, target, attempt, prompt)


def _failure(error: Any) -> str | None:
    """Why the recorded call failed. A row with an evaluator error still contains an answer."""
    if isinstance(error, Mapping):
        return None if error.get("stage") == "evaluator" else str(error.get("message") or "unknown error")
    return error if isinstance(error, str) and error else None
