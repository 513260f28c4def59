"""Cases with several turns: the target answers each turn with the conversation so far.

The user's messages are written in the suite (`turns`), or by a model that plays the user (`user`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentv.errors import ProviderError, TargetDownError
from agentv.messages import Message, TokenUsage, final_text
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


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a conversation came to: its turns, and all calls of the target as one reply."""

    turns: tuple[TurnRecord, ...]
    reply: Reply


async def converse(
    request: Request, inputs: Sequence[Sequence[Message]], user: SimulatedUser | None, ask: Ask, ask_user: Ask | None
) -> Conversation:
    """Hold the conversation of a case. `request` has its system messages; `inputs` are the messages of each turn.

    With `user`, a model writes further messages after those in `inputs`, until it stops or `max_turns` is reached.
    """
    turns: list[TurnRecord] = []
    most = len(inputs) if user is None else user.max_turns
    before = tuple(message for message in request.messages if message.role == "system")
    while len(turns) < most:
        spent: Reply | None = None
        number = len(turns) + 1
        if len(turns) < len(inputs):
            asked = tuple(inputs[len(turns)])
        elif user is not None and ask_user is not None:
            with _reporting(f"the user of turn {number}", turns):
                spent = await _played(user, request, turns, ask_user)
            if END in spent.text or not spent.text.strip():
                break
            asked = (Message("user", spent.text.strip()),)
        else:
            break
        history = tuple(message for turn in turns for message in (*turn.input_messages, *turn.output_messages))
        started = time.perf_counter()
        with _reporting(f"turn {number}", turns):
            reply = await ask(replace(request, messages=(*before, *history, *asked), naming_files=None, turn=number))
        elapsed = round((time.perf_counter() - started) * 1000, 3)
        turns.append(_record(asked, reply, elapsed, spent))
    if not turns:
        raise ProviderError(
            "the model that plays the user ended the conversation before it began",
            next_step="Check `persona` and `stop_when` of `user`, or set `input` as the first message.",
        )
    return Conversation(tuple(turns), _total(turns))


@contextmanager
def _reporting(where: str, turns: Sequence[TurnRecord]) -> Iterator[None]:
    """Adds the turn to the message of an error, and what was spent on the turns before it."""
    try:
        yield
    except TargetDownError:
        raise
    except ProviderError as error:
        before = _total(turns) if turns else Reply(())
        usages = [usage for usage in (before.token_usage, error.token_usage) if usage is not None]
        costs = [cost for cost in (before.cost_usd, error.cost_usd) if cost is not None]
        raise ProviderError(
            f"{where}: {error}",
            status=error.status,
            token_usage=sum(usages, TokenUsage()) if usages else None,
            cost_usd=sum(costs) if costs else None,
        ) from error


def _record(asked: tuple[Message, ...], reply: Reply, elapsed: float, spent: Reply | None) -> TurnRecord:
    return TurnRecord(
        input_messages=asked,
        answer=reply.text,
        output_messages=reply.output_messages,
        token_usage=reply.token_usage,
        cost_usd=reply.cost_usd,
        duration_ms=elapsed if reply.duration_ms is None else reply.duration_ms,
        finish_reason=reply.finish_reason,
        model=reply.model,
        user_token_usage=None if spent is None else spent.token_usage,
        user_cost_usd=None if spent is None else spent.cost_usd,
    )


async def _played(user: SimulatedUser, request: Request, turns: Sequence[TurnRecord], ask_user: Ask) -> Reply:
    """The next message of the user, written by a model. The roles are exchanged: the assistant is its partner."""
    system = _PLAY.format(persona=user.persona.strip())
    if user.stop_when is not None:
        system += "\n" + _STOP.format(end=END, stop_when=user.stop_when.strip())
    messages: list[Message] = [Message("system", system)]
    if not turns:
        messages.append(Message("user", _BEGIN))
    for turn in turns:
        said = "\n\n".join(message.text for message in turn.input_messages if message.role == "user")
        messages += [Message("assistant", said), Message("user", final_text(turn.output_messages))]
    if turns and messages[1].role == "assistant":  # most models want the user to begin
        messages.insert(1, Message("user", _BEGIN))
    return await ask_user(
        Request(messages=messages, eval_id=request.eval_id, attempt=request.attempt, evaluator="user")
    )


def _total(turns: Sequence[TurnRecord]) -> Reply:
    """All calls of the target together. Usage and cost are unknown if those of one call are."""
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
    )
