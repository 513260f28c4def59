"""A server on 127.0.0.1 that records the requests of vendors' libraries and answers like their APIs."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentv.http.app import App, HangUp, Response, Route
from agentv.http.messages import Headers, Request
from agentv.http.server import Connection, Server

USAGE = {"input": 100, "cached": 60, "output": 7}
"""Token usage of every reply: 160 prompt tokens, 60 of them cached."""


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    """A fault to inject into a call."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    reset: bool = False
    hang: bool = False


def anthropic_reply(text: str | None, tool: tuple[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": part} for part in (text or "").split("|") if part]
    if tool:
        content.append({"type": "tool_use", "id": "call-1", "name": tool[0], "input": tool[1]})
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": content,
        "stop_reason": "tool_use" if tool else "end_turn",
        "usage": {"input_tokens": 100, "cache_read_input_tokens": 60, "output_tokens": 7},
    }


def gemini_reply(text: str | None, tool: tuple[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": part} for part in (text or "").split("|") if part]
    if tool:
        parts.append({"functionCall": {"id": "call-1", "name": tool[0], "args": tool[1]}})
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": 160,
            "cachedContentTokenCount": 60,
            "candidatesTokenCount": 7,
            "totalTokenCount": 167,
        },
        "modelVersion": "gemini-2.5-flash",
        "responseId": "r1",
    }


def bedrock_reply(text: str | None, tool: tuple[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"text": part} for part in (text or "").split("|") if part]
    if tool:
        content.append({"toolUse": {"toolUseId": "call-1", "name": tool[0], "input": tool[1]}})
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use" if tool else "end_turn",
        "usage": {"inputTokens": 100, "cacheReadInputTokens": 60, "outputTokens": 7, "totalTokens": 167},
        "metrics": {"latencyMs": 5},
    }


def responses_reply(text: str | None, tool: tuple[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if text:
        parts = [{"type": "output_text", "text": part, "annotations": []} for part in text.split("|")]
        output.append({"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": parts})
    if tool:
        arguments = json.dumps(tool[1])
        output.append(
            {"type": "function_call", "id": "f1", "call_id": "call-1", "name": tool[0], "arguments": arguments}
        )
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-4o-2024-08-06",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 160,
            "input_tokens_details": {"cached_tokens": 60},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 167,
        },
    }


class VendorServer(Server):
    """Answers each POST with the next scripted answer; the last one repeats."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(_VendorApp(self))
        self._answers = deque(answers)
        self.calls: list[Call] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.connections = 0
        self.gate: asyncio.Event | None = None

    def opened(self, connection: Connection) -> None:
        self.connections += 1
        super().opened(connection)

    async def handle(self, request: Request) -> Response:
        body = json.loads(request.body or b"null")
        self.calls.append(Call(request.method.decode(), request.target.decode(), Headers(request.headers), body))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.gate is not None:
                await self.gate.wait()
            return await self._answer()
        finally:
            self.in_flight -= 1

    async def _answer(self) -> Response:
        answer = self._answers[0] if len(self._answers) == 1 else self._answers.popleft()
        if not isinstance(answer, Answer):
            answer = Answer(body=answer)
        if answer.hang:
            await asyncio.Event().wait()
        if answer.reset:
            raise HangUp
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        headers = {"Content-Type": "application/json", **answer.headers}
        return Response(answer.status, body, headers.pop("Content-Type"), tuple(headers.items()))


class _VendorApp(App):
    max_body = 64 * 2**20

    def __init__(self, server: VendorServer) -> None:
        super().__init__()
        self._server = server

    async def _any(self, request: Request) -> Response:
        return await self._server.handle(request)

    routes = (Route("POST", "*", _any),)
