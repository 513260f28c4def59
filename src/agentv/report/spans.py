"""A recorded row as OpenTelemetry spans, following the semantic conventions for generative AI.

Each row is one trace: the case, the call of its target with the tool calls, the evaluators, and the judge calls of each
evaluator. All ids are hashes of the run and the row, so sending a run twice does not duplicate anything. Times come
from the record. Evaluators have no recorded start: they start with their first judge call, otherwise after the answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agentv import __version__
from agentv.evidence import CaseRecord, JudgeCallRecord
from agentv.http.otlp import pairs_in
from agentv.messages import Message, TokenUsage, part_text
from agentv.results import CaseResult, EvaluatorResult, Verdict

INTERNAL, CLIENT = 1, 3
"""Kinds of spans in OTLP."""
FAILED = 2
"""The status code of a span that ended with an error."""
EVENT = "gen_ai.evaluation.result"
SCOPE = "agentv"
PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
}
"""`gen_ai.provider.name` of providers that have another name in the semantic conventions."""
AGENTS = frozenset({"cli"})
"""Providers that run an agent, not a model."""

Span = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TargetModel:
    """The provider and the model of a target, as configured."""

    provider: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class RunSpans:
    """Converts the rows of one run to spans."""

    run_id: str
    resource: Mapping[str, Any]
    """Attributes of all spans of the run."""
    targets: Mapping[str, TargetModel] = field(default_factory=dict)
    content: bool = False
    """Whether prompts, answers, tool arguments, explanations and error messages are included."""
    started_at: str = ""

    @classmethod
    def of(cls, manifest: Mapping[str, Any], environment: Mapping[str, str], *, content: bool = False) -> RunSpans:
        """The spans of the run with this `run.json`, or of a results file (empty manifest)."""
        run_id = str(manifest.get("run_id") or "")
        resource: dict[str, Any] = {"service.name": "agentv", "service.version": __version__}
        resource |= dict(pairs_in(environment.get("OTEL_RESOURCE_ATTRIBUTES", "")))
        if service := environment.get("OTEL_SERVICE_NAME"):
            resource["service.name"] = service
        resource |= {"agentv.run.id": run_id, "agentv.run.name": manifest.get("name")}
        resource |= {"agentv.run.experiment": manifest.get("experiment")}
        for label in ("scripted", "replayed"):
            if manifest.get(label):
                resource[f"agentv.run.{label}"] = True
        started = str(manifest.get("started_at") or "")
        return cls(run_id, resource, _targets(manifest.get("configuration")), content, started)

    def request(self, spans: Iterable[Span]) -> dict[str, Any]:
        """The spans as one OTLP message: the body of a request, or a line of a file."""
        scope = {"scope": {"name": SCOPE, "version": __version__}, "spans": list(spans)}
        return {"resourceSpans": [{"resource": {"attributes": _attributes(self.resource)}, "scopeSpans": [scope]}]}

    def of_row(self, row: CaseResult, case: CaseRecord | None, calls: Sequence[JudgeCallRecord] = ()) -> list[Span]:
        """The trace of one row. The span of the case comes first."""
        return _Trace(self, row, case).spans(calls)


class _Trace:
    """The spans of one row."""

    def __init__(self, run: RunSpans, row: CaseResult, case: CaseRecord | None) -> None:
        self._run, self._row, self._case = run, row, case
        key = [row.run_id or run.run_id, row.suite, row.eval_id, row.variant, row.attempt]
        self._key = hashlib.sha256(json.dumps(key).encode())
        self._trace = self._hash("trace")[:32]
        self._start = _nanoseconds(row.started_at) or _nanoseconds(run.started_at) or 0
        self._answered = self._start + _span_of_time(row.duration_ms)

    def spans(self, calls: Sequence[JudgeCallRecord]) -> list[Span]:
        root, target = self._root(), self._target()
        tools = list(self._tools(target))
        judging = list(self._evaluators(self._row.evaluator_results, "case", (), calls))
        spans = [root, target, *tools, *judging]
        root["endTimeUnixNano"] = str(max(int(span["endTimeUnixNano"]) for span in spans))
        return spans

    def _root(self) -> Span:
        row, case = self._row, self._case
        attributes = {
            "agentv.run.id": row.run_id or self._run.run_id,
            "agentv.suite": row.suite,
            "agentv.case.id": row.eval_id,
            "agentv.case.sha256": row.case_sha256,
            "agentv.case.tags": list(case.tags) if case is not None and case.tags else None,
            "agentv.target": row.target,
            "agentv.attempt": row.attempt,
            "agentv.score": None if row.error else row.score,
            "agentv.verdict": None if row.error else row.verdict.value,
            "agentv.threshold": row.threshold,
            "test.suite.name": row.suite,
            "test.case.name": row.eval_id,
            "test.case.result.status": "pass" if row.error is None and row.verdict is Verdict.PASS else "fail",
            "gen_ai.conversation.id": row.conversation_id,
        }
        span = self._span("case", f"case {row.eval_id}", (self._start, self._answered), attributes, parent=None)
        if row.error is not None:
            self._fail(span, row.error.stage, row.error.message)
        events = [event for result in row.evaluator_results for event in self._events(result, ())]
        if events:
            span["events"] = events
        return span

    def _events(self, result: EvaluatorResult, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        path = (*path, result.name)
        yield {
            "timeUnixNano": str(self._answered),
            "name": EVENT,
            "attributes": _attributes(self._evaluation(result, path)),
        }
        for member in result.evaluator_results:
            yield from self._events(member, path)

    def _evaluation(self, result: EvaluatorResult, path: tuple[str, ...]) -> dict[str, Any]:
        """The attributes of one evaluation. An evaluator that errored has no score."""
        explanation = result.reasoning or "\n".join(map(str, result.misses))
        return {
            "gen_ai.evaluation.name": "/".join(path),
            "gen_ai.evaluation.score.value": None if result.error is not None else float(result.score),
            "gen_ai.evaluation.score.label": None if result.error is not None else result.verdict.value,
            "gen_ai.evaluation.explanation": explanation if self._run.content and explanation else None,
            "error.type": None if result.error is None else "evaluator",
        }

    def _target(self) -> Span:
        row, configured = self._row, self._run.targets.get(self._row.target, TargetModel())
        attributes = {
            **_call_attributes(row.target, configured, row.model, row.finish_reason, row.token_usage),
            "agentv.target": row.target,
            "agentv.cost_usd": row.cost_usd,
            "gen_ai.conversation.id": row.conversation_id,
        }
        if self._run.content:
            asked = self._case.input_messages if self._case is not None else ()
            answer = row.output_messages or ((Message("assistant", row.candidate_answer),) if not row.error else ())
            attributes |= _content(asked, answer, row.finish_reason)
        name = _call_name(row.target, configured, row.model)
        span = self._span("target", name, (self._start, self._answered), attributes, kind=CLIENT)
        if row.error is not None and row.error.stage == "target":
            self._fail(span, "target", row.error.message)
        return span

    def _tools(self, target: Span) -> Iterator[Span]:
        index = 0
        for message in self._row.output_messages:
            for call in message.tool_calls:
                index += 1
                at = _nanoseconds(call.timestamp or message.timestamp or "") or int(target["startTimeUnixNano"])
                attributes: dict[str, Any] = {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": call.tool,
                    "gen_ai.tool.type": "function",
                    "gen_ai.tool.call.id": call.id,
                }
                if self._run.content:
                    attributes["gen_ai.tool.call.arguments"] = _json(call.input)
                    attributes["gen_ai.tool.call.result"] = _json(call.output)
                yield self._span(f"tool {index}", f"execute_tool {call.tool}", (at, at), attributes, parent="target")

    def _evaluators(
        self,
        results: Iterable[EvaluatorResult],
        parent: str,
        path: tuple[str, ...],
        calls: Sequence[JudgeCallRecord],
    ) -> Iterator[Span]:
        for result in results:
            inner = (*path, result.name)
            part = f"evaluator {json.dumps(inner)}"
            own = [call for call in calls if call.evaluator in (result.name, "/".join(inner))]
            start = min([start for call in own if (start := _nanoseconds(call.started_at))], default=self._answered)
            end = start + _span_of_time(result.duration_ms)
            attributes = {
                **self._evaluation(result, inner),
                "agentv.evaluator.type": result.type,
                "agentv.evaluator.weight": float(result.weight),
                "agentv.evaluator.required": result.required,
            }
            span = self._span(part, f"evaluate {'/'.join(inner)}", (start, end), attributes, parent=parent)
            if result.error is not None:
                self._fail(span, "evaluator", result.error)
            judged = [self._judge_call(call, number, part) for number, call in enumerate(own, 1)]
            members = list(self._evaluators(result.evaluator_results, part, inner, calls))
            span["endTimeUnixNano"] = str(max(int(one["endTimeUnixNano"]) for one in (span, *judged, *members)))
            yield from (span, *judged, *members)

    def _judge_call(self, call: JudgeCallRecord, number: int, parent: str) -> Span:
        configured = self._run.targets.get(call.target, TargetModel())
        attributes = {
            **_call_attributes(call.target, configured, call.model, call.finish_reason, call.token_usage),
            "agentv.judge.target": call.target,
            "agentv.judge.index": call.index,
            "agentv.judge.execution": call.execution,
            "agentv.judge.retries": call.retries,
            "agentv.judge.cache_hit": call.cache_hit,
            "agentv.judge.waited_ms": call.waited_ms,
            "agentv.cost_usd": call.cost_usd,
        }
        if self._run.content:
            asked = call.messages
            if not asked and call.question is not None:
                system = (Message("system", call.system_prompt),) if call.system_prompt is not None else ()
                asked = (*system, Message("user", call.question))
            attributes |= _content(asked, _reply_messages(call.reply), call.finish_reason)
        start = _nanoseconds(call.started_at) or self._answered
        end = start + _span_of_time(call.duration_ms)
        name = _call_name(call.target, configured, call.model)
        part = f"{parent} call {call.execution or 1} {number}"
        span = self._span(part, name, (start, end), attributes, parent=parent, kind=CLIENT)
        if call.status != "ok":
            self._fail(span, call.code or call.status, call.error or "")
        return span

    def _fail(self, span: Span, kind: str, message: str) -> None:
        if not any(one["key"] == "error.type" for one in span["attributes"]):
            span["attributes"] += _attributes({"error.type": kind})
        span["status"] = {"code": FAILED, "message": message} if self._run.content and message else {"code": FAILED}

    def _span(
        self,
        part: str,
        name: str,
        times: tuple[int, int],
        attributes: Mapping[str, Any],
        *,
        parent: str | None = "case",
        kind: int = INTERNAL,
    ) -> Span:
        """A span. `part` names it, and `parent` its parent, within the trace."""
        span: Span = {"traceId": self._trace, "spanId": self._hash(part)[:16]}
        if parent is not None:
            span["parentSpanId"] = self._hash(parent)[:16]
        start, end = times
        bounds = {"startTimeUnixNano": str(start), "endTimeUnixNano": str(max(start, end))}
        return {**span, "name": name, "kind": kind, **bounds, "attributes": _attributes(attributes)}

    def _hash(self, part: str) -> str:
        """The hash of a part of the trace, which the ids are taken from."""
        hashed = self._key.copy()
        hashed.update(part.encode("utf-8", "surrogatepass"))
        return hashed.hexdigest()


# -- calls of models and agents


def _call_name(target: str, configured: TargetModel, model: str | None) -> str:
    if configured.provider in AGENTS:
        return f"invoke_agent {target}"
    return f"chat {configured.model or model or target}"


def _call_attributes(
    target: str, configured: TargetModel, model: str | None, finish_reason: str | None, usage: TokenUsage | None
) -> dict[str, Any]:
    provider = configured.provider
    is_agent = provider in AGENTS
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "invoke_agent" if is_agent else "chat",
        "gen_ai.provider.name": PROVIDERS.get(provider, provider) if provider else "unknown",
        "gen_ai.agent.name": target if is_agent else None,
        "gen_ai.request.model": configured.model,
        "gen_ai.response.model": model,
        "gen_ai.response.finish_reasons": [finish_reason] if finish_reason else None,
    }
    if usage is not None:
        # In the conventions, cached tokens are part of the input tokens; here they are counted separately.
        attributes["gen_ai.usage.input_tokens"] = usage.input + (usage.cached or 0)
        attributes["gen_ai.usage.output_tokens"] = usage.output
        attributes["gen_ai.usage.cache_read.input_tokens"] = usage.cached
    return attributes


def _targets(configuration: Any) -> dict[str, TargetModel]:
    """The targets in the configuration part of `run.json`. References to variables are not values."""
    targets: dict[str, TargetModel] = {}
    for config in configuration.values() if isinstance(configuration, Mapping) else ():
        entries = config.get("targets") if isinstance(config, Mapping) else None
        for name, entry in entries.items() if isinstance(entries, Mapping) else ():
            if isinstance(entry, Mapping):
                targets.setdefault(name, TargetModel(_plain(entry.get("provider")), _plain(entry.get("model"))))
    return targets


def _plain(value: Any) -> str | None:
    return value if isinstance(value, str) and "${{" not in value else None


# -- content


def _content(asked: Sequence[Message], answer: Sequence[Message], finish_reason: str | None) -> dict[str, Any]:
    """The messages as JSON text, in the form of the semantic conventions."""
    system = [part for message in asked if message.role == "system" for part in _parts(message)]
    turns = [{"role": message.role, "parts": _parts(message)} for message in asked if message.role != "system"]
    replies = [
        {"role": message.role, "parts": _parts(message), "finish_reason": finish_reason or "stop"} for message in answer
    ]
    return {
        "gen_ai.system_instructions": _json(system) if system else None,
        "gen_ai.input.messages": _json(turns) if turns else None,
        "gen_ai.output.messages": _json(replies) if replies else None,
    }


def _parts(message: Message) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    content = message.content
    for part in content if isinstance(content, list) else [content] if content is not None else []:
        text = part_text(part)
        parts.append({"type": "text", "content": text or _json(part)})
    for call in message.tool_calls:
        parts.append({"type": "tool_call", "id": call.id, "name": call.tool, "arguments": call.input})
        if call.output is not None:
            parts.append({"type": "tool_call_response", "id": call.id, "result": call.output})
    return parts


def _reply_messages(reply: Mapping[str, Any] | None) -> tuple[Message, ...]:
    """The messages of a recorded judge reply, which has the form of the judge proxy."""
    messages = reply.get("outputMessages") if reply is not None else None
    return tuple(
        Message(str(message.get("role", "assistant")), message.get("content"))
        for message in (messages if isinstance(messages, list) else ())
        if isinstance(message, Mapping)
    )


def _json(value: Any) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- values of OTLP


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}  # a string, as in the JSON form of protobuf
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}


def _nanoseconds(timestamp: str) -> int | None:
    """A timestamp of the record in nanoseconds since 1970; None if there is none."""
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    return max(0, round(seconds * 1e6) * 1000)


def _span_of_time(milliseconds: float | None) -> int:
    return max(0, round((milliseconds or 0.0) * 1e6))
