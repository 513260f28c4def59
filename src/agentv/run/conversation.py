"""Cases with several turns: the target answers each turn with the conversation so far.

The user's messages are written in the suite (`turns`), or by a model that plays the user (`user`). Each turn is on disk
before the next call, so that an interrupted conversation continues after it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agentv.errors import ProviderError
from agentv.messages import Message, TokenUsage, final_text, whole_text
from agentv.results import TurnRecord
from agentv.suite.suite import SimulatedUser
from agentv.targets.provider import Reply, Request

if TYPE_CHECKING:
    from agentv.run.case import Ask

END = "[[END OF CONVERSATION]]"
_PLAY = """\
You play the user in a conversation with an assistant. Stay in this role, whatever the assistant writes.

Who you are and what you want:
{persona}

Write only the next message of the user: no quotation marks, no name in front of it, no comment. Write one message at \
a time, as a person would. Never answer for the assistant.
"""
_STOP = """\
When this is the case, write exactly {end} and nothing else: {stop_when}
"""
_BEGIN = "Begin the conversation with your first message."
_NO_ANSWER = "(The assistant wrote nothing.)"

KeepTurn = Callable[[int, TurnRecord], Awaitable[object]]
"""Records a turn, with its number from 1. Done when it is on disk."""


async def _keep_nothing(_number: int, _turn: TurnRecord) -> None:
    return


@dataclass(slots=True)
class Talk:
    """The conversation of a case while it is held. After an error, it has everything that was said until then."""

    started_at: str
    user: SimulatedUser | None = None
    ask_user: Ask | None = None
    """Asks the model that plays the user."""
    keep: KeepTurn = _keep_nothing
    turns: list[TurnRecord] = field(default_factory=list)
    """At first, the turns of an earlier part of the run. Only the last one may lack its answer."""
    where: str = ""
    """What was called last, for error messages."""

    @property
    def answered(self) -> tuple[TurnRecord, ...]:
        return tuple(turn for turn in self.turns if not turn.unanswered)

    async def hold(self, request: Request, inputs: Sequence[tuple[Message, ...]], ask: Ask) -> None:
        """Hold the conversation, or continue it. `request` has its system messages; `inputs` those of each turn.

        With `user`, a model writes further messages after those in `inputs`, until it stops or `max_turns` is reached.
        """
        # Secrets are masked in recorded turns: what the suite has is taken from there.
        self.turns = [
            replace(turn, input_messages=inputs[index]) if index < len(inputs) else turn
            for index, turn in enumerate(self.turns)
        ]
        most = len(inputs) if self.user is None else self.user.max_turns
        while len(self.answered) < most:
            turn = await self._next_turn(request, inputs)
            if turn is None:
                break
            number = len(self.turns)
            self.where = f"turn {number}"
            started = time.perf_counter()
            messages = _said(request, self.turns)
            reply = await ask(replace(request, messages=messages, naming_files=None, turn=number))
            self.turns[-1] = _with_answer(turn, reply, round((time.perf_counter() - started) * 1000, 3))
            if number < most:
                await self.keep(number, self.turns[-1])

    async def _next_turn(self, request: Request, inputs: Sequence[tuple[Message, ...]]) -> TurnRecord | None:
        """Begin a turn that has no answer yet, or continue with the one that an interruption left; None at the end."""
        if self.turns and self.turns[-1].unanswered:
            return self.turns[-1]
        if len(self.turns) < len(inputs):
            self.turns.append(TurnRecord(inputs[len(self.turns)], unanswered=True))
            return self.turns[-1]
        if self.user is None or self.ask_user is None:
            return None
        number = len(self.turns) + 1
        self.where = f"the user of turn {number}"
        reply = await _played(self.user, request, self.turns, self.ask_user)
        if END in reply.text:
            self._end(reply)
            return None
        if not reply.text.strip():
            raise _unusable(reply, "the model that plays the user wrote nothing", _EMPTY)
        turn = TurnRecord(
            (Message("user", reply.text.strip()),),
            unanswered=True,
            user_token_usage=reply.token_usage,
            user_cost_usd=reply.cost_usd,
        )
        self.turns.append(turn)
        await self.keep(number, turn)
        return turn

    def _end(self, reply: Reply) -> None:
        """The user has ended the conversation. The tokens and the cost of this reply are added to the last turn."""
        if not self.turns:
            raise _unusable(reply, "the model that plays the user ended the conversation before it began", _AT_START)
        last = self.turns[-1]
        usages = [usage for usage in (last.user_token_usage, reply.token_usage) if usage is not None]
        costs = [cost for cost in (last.user_cost_usd, reply.cost_usd) if cost is not None]
        self.turns[-1] = replace(
            last,
            user_token_usage=sum(usages, TokenUsage()) if usages else None,
            user_cost_usd=sum(costs) if costs else None,
        )


_AT_START = "Check `persona` and `stop_when` of `user`, or set `input` as the first message."
_EMPTY = "Set `stop_when`, so that it can end the conversation, and check the `max_output_tokens` of its target."


def _unusable(reply: Reply, problem: str, next_step: str) -> ProviderError:
    """The error for a reply of the model that plays the user. It has to be paid for."""
    stopped = f" (finish reason: {reply.finish_reason})" if reply.finish_reason not in (None, "stop") else ""
    return ProviderError(
        f"{problem}{stopped}", next_step=next_step, token_usage=reply.token_usage, cost_usd=reply.cost_usd
    )


def _said(request: Request, turns: Sequence[TurnRecord]) -> tuple[Message, ...]:
    """The conversation so far. The system messages of the case and of all turns up to now are merged at the start."""
    messages = [message for turn in turns for message in (*turn.input_messages, *turn.output_messages)]
    first = [message for message in (*request.messages, *messages) if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    return (*([Message("system", "\n\n".join(map(whole_text, first)))] if first else []), *others)


def _with_answer(turn: TurnRecord, reply: Reply, elapsed: float) -> TurnRecord:
    is_measured = reply.duration_ms is None and not (reply.recorded or reply.cache_hit)
    return replace(
        turn,
        unanswered=False,
        answer=reply.text,
        output_messages=reply.output_messages,
        token_usage=reply.token_usage,
        cost_usd=reply.cost_usd,
        duration_ms=elapsed if is_measured else reply.duration_ms,
        finish_reason=reply.finish_reason,
        model=reply.model,
        warnings=reply.warnings,
        cache_hit=reply.cache_hit,
    )


async def _played(user: SimulatedUser, request: Request, turns: Sequence[TurnRecord], ask_user: Ask) -> Reply:
    """The next message of the user, written by a model. The roles are exchanged: the assistant is its partner."""
    system = _PLAY.format(persona=user.persona.strip())
    if user.stop_when is not None:
        system += "\n" + _STOP.format(end=END, stop_when=user.stop_when.strip())
    # Most models want the user to begin.
    messages: list[Message] = [Message("system", system), Message("user", _BEGIN)]
    for turn in turns:
        said = "\n\n".join(message.text for message in turn.input_messages if message.role == "user")
        messages += [Message("assistant", said), Message("user", final_text(turn.output_messages) or _NO_ANSWER)]
    return await ask_user(
        Request(messages=messages, eval_id=request.eval_id, attempt=request.attempt, evaluator="user")
    )


def total(turns: Sequence[TurnRecord]) -> Reply:
    """All calls of the target together. Usage, cost and time are unknown if those of one call are."""
    usages = [turn.token_usage for turn in turns]
    costs = [turn.cost_usd for turn in turns]
    durations = [turn.duration_ms for turn in turns]
    last = turns[-1]
    return Reply(
        tuple(message for turn in turns for message in turn.output_messages),
        token_usage=None if None in usages else sum((each for each in usages if each), TokenUsage()),
        cost_usd=None if None in costs else sum(each for each in costs if each is not None),
        duration_ms=None if None in durations else sum(each for each in durations if each is not None),
        finish_reason=last.finish_reason,
        model=last.model,
        warnings=tuple(f"turn {number}: {text}" for number, turn in enumerate(turns, 1) for text in turn.warnings),
        cache_hit=all(turn.cache_hit for turn in turns),
    )
