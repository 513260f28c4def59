"""Judges whose replies come from the record of a run (`--replay`). Nothing is sent.

A request is looked up among the calls that the same evaluator made for the same row, then in the whole record. The
second call with the same request gets the second recorded reply, and so on. A request that is not in the record fails
the call, with a message that shows the nearest recorded request.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

from agentv.errors import NotRecordedError, ProviderError, ProviderTimeoutError
from agentv.evidence import JudgeCallRecord, ReplaySource, request_sha256
from agentv.jsonio import dump_line
from agentv.judge.recorded_replies import hash_of, reply_of
from agentv.judge.session import failed_prefix
from agentv.messages import Message
from agentv.redact import NO_SECRETS, Redactor
from agentv.results import RowKey
from agentv.targets.config import TargetsConfig, TargetSpec
from agentv.targets.provider import Provider, Reply, Request, TargetSettings
from agentv.targets.registry import provider_class
from agentv.text import first_difference

MOST_COMPARED = 200
"""Recorded requests among which the nearest one is found."""
COMPARED = 4_000
"""Characters of a request that are compared."""
RECORD_AGAIN = "Record the run again, or undo the change."


@dataclass(slots=True)
class JudgeReplay:
    """The judge calls of a recorded run, for all evaluators of a new run."""

    source: ReplaySource
    redactor: Redactor
    _anywhere: dict[str, list[tuple[RowKey, int]]] | None = None
    """The places of all calls by request: the row, and the position among its calls."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def targets(self, config: TargetsConfig | None, key: RowKey, evaluator: str) -> dict[str, Provider]:
        """A provider for each configured target, whether it is available or not, for one evaluator of one row."""
        text = self.redactor.text
        masked = RowKey(text(key.suite), text(key.eval_id), text(key.target), key.attempt)
        calls = _CallsOfRow(self, masked, text(evaluator))
        specs = config.targets.values() if config is not None else ()
        return {spec.name: ReplayedJudge(spec, calls) for spec in specs}

    def anywhere(self, request: str) -> list[JudgeCallRecord]:
        """All recorded calls with this request."""
        with self._lock:
            if self._anywhere is None:
                self._anywhere = {}
                positions: Counter[RowKey] = Counter()
                for call in self.source.all_judge_calls():
                    place = (call.row_key, positions[call.row_key])
                    positions[call.row_key] += 1
                    self._anywhere.setdefault(_sha256(call), []).append(place)
            places = self._anywhere.get(request, [])
        return [self.source.judge_calls(key)[position] for key, position in places]


class ReplayedJudge(Provider):
    """A judge target in a replayed run, for one evaluator of one row."""

    cacheable = False

    def __init__(self, spec: TargetSpec, calls: _CallsOfRow) -> None:
        kind = provider_class(spec.provider)
        self._name, self._calls = spec.name, calls
        # Requests must be the same as in the recorded run, so the provider claims the same abilities.
        settings = spec.reading.settings
        own = settings if isinstance(settings, TargetSettings) else None
        self.honours = frozenset() if kind is None else kind.honoured(own)
        self.runs_commands = spec.provider == "cli"
        self.embeds = kind is not None and kind.embeds
        self.follows_prompts = kind is None or kind.follows_prompts
        self.fixes = frozenset() if own is None else own.fixed_options

    async def invoke(self, request: Request) -> Reply:
        sha256 = await hash_of(self._name, request, self._calls.replay.redactor)
        ordinal = self._calls.count(sha256)
        return await asyncio.to_thread(self._calls.reply, self._name, request, sha256, ordinal)


@dataclass(slots=True)
class _CallsOfRow:
    """The calls that one evaluator made for one row, and how many of them have been replayed. Used by threads."""

    replay: JudgeReplay
    key: RowKey
    evaluator: str
    _own: list[JudgeCallRecord] | None = None
    _made: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, wanted: str) -> int:
        """How often a call with this request was made before this one."""
        self._made[wanted] += 1
        return self._made[wanted] - 1

    def reply(self, target: str, request: Request, wanted: str, ordinal: int) -> Reply:
        """The recorded reply to a request. Raises the recorded error, or NotRecordedError."""
        with self._lock:
            if self._own is None:
                calls = self.replay.source.judge_calls(self.key)
                own = [call for call in calls if call.evaluator == self.evaluator]
                self._own = sorted(own, key=lambda call: call.index)
        matching = [call for call in self._own if _sha256(call) == wanted]
        if ordinal >= len(matching):
            places = {(call.row_key, call.evaluator, call.index) for call in matching}
            others = self.replay.anywhere(wanted)
            matching += [call for call in others if (call.row_key, call.evaluator, call.index) not in places]
        if ordinal < len(matching):
            return _outcome(matching[ordinal])
        asked = self.replay.redactor.value(_asked(target, request.messages, request.options.to_dict()))
        raise self._missing(asked, len(matching))

    def _missing(self, asked: Mapping[str, Any], recorded: int) -> NotRecordedError:
        run = f"the record of run {self.replay.source.run_id}"
        if recorded:
            times = "once" if recorded == 1 else f"{recorded} times"
            problem = f"{run} contains this request {times}, and this is call {recorded + 1} with it"
            return NotRecordedError(problem, next_step=RECORD_AGAIN)
        nearest = self._nearest(asked)
        if nearest is None:
            return NotRecordedError(
                f"this request is not in {run}, which contains no judge calls", next_step=RECORD_AGAIN
            )
        where = f"call {nearest.index} of evaluator '{nearest.evaluator}' for case '{nearest.eval_id}'"
        difference = _difference(_request_of(nearest), asked)
        return NotRecordedError(
            f"this request is not in {run}. The nearest recorded request is {where}: {difference}",
            next_step=RECORD_AGAIN,
        )

    def _nearest(self, asked: Mapping[str, Any]) -> JudgeCallRecord | None:
        """The most similar recorded request: of this evaluator and row if there are any, otherwise of the run."""
        calls: Iterable[JudgeCallRecord] = self._own or self.replay.source.judge_calls(self.key)
        candidates = list(islice(calls, MOST_COMPARED))
        if not candidates:
            candidates = list(islice(self.replay.source.all_judge_calls(), MOST_COMPARED))
        text = _text(asked)[:COMPARED]

        def likeness(call: JudgeCallRecord) -> float:
            return SequenceMatcher(None, _text(_request_of(call))[:COMPARED], text, autojunk=False).quick_ratio()

        return max(candidates, key=likeness, default=None)


def _outcome(call: JudgeCallRecord) -> Reply:
    """The recorded reply, which costs nothing now. Raises the recorded error."""
    if call.status == "ok":
        reply = reply_of(call)
        if reply is None:
            raise NotRecordedError(
                "the recorded call has no reply", next_step="Record the run again with --judge-io all."
            )
        return replace(reply, cost_usd=0.0, duration_ms=None)
    reason = (call.error or f"the recorded call was {call.status}").removeprefix(failed_prefix(call.target))
    raise ProviderTimeoutError(reason) if call.status == "timeout" else ProviderError(reason)


def _asked(target: str, messages: Iterable[Message], options: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "target": target,
        "messages": [message.to_dict() for message in messages],
        "options": dict(options or {}),
    }


def _sha256(call: JudgeCallRecord) -> str:
    """The hash of a recorded request. Older versions did not record it, nor the options of a request."""
    return call.request_sha256 or request_sha256(call.target, call.conversation, call.options, NO_SECRETS)


def _request_of(call: JudgeCallRecord) -> dict[str, Any]:
    return _asked(call.target, call.conversation, call.options)


def _text(request: Mapping[str, Any]) -> str:
    """The messages of a request, the last one first: it usually differs, and only the beginning is compared."""
    return "\n".join(str(message.get("content")) for message in reversed(request["messages"]))


def _difference(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if recorded["target"] != now["target"]:
        return f"it was sent to target '{recorded['target']}', now to '{now['target']}'"
    pairs = zip(recorded["messages"], now["messages"], strict=False)
    for old, new in pairs:
        if old != new and old.get("role") == new.get("role"):
            name = {"system": "system prompt", "user": "question"}.get(str(old.get("role")), "message")
            return f"its {name} {first_difference(_content(old), _content(new))}"
    if recorded["messages"] != now["messages"]:
        return f"it has {len(recorded['messages'])} messages, now {len(now['messages'])}"
    return "its options are not the same, or were not recorded"


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else dump_line(content)
