"""The model server for all tools, which answers after DELAY seconds: `python -m benchmarks.peers.server DELAY`.

It supports chat completions (plain and streamed) and responses. The name of the model determines the answer: a judge
model returns a verdict in the format that its tool expects, every other model answers the question. `GET /calls`
returns the requests received since the previous `GET /calls`: how many calls a tool made, and any unknown paths.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from typing import Any

from aiohttp import web

from benchmarks.workload import ANSWER

ASSISTANT = "assistant-model"
JUDGE = "judge-"
"""Prefix of the names of judge models."""
JSON_JUDGE, GRADE_JUDGE, TEN_JUDGE, TOOL_JUDGE = "judge-json", "judge-grade", "judge-of-ten", "judge-tool"

MOST = "most in flight"
"""Key in the reply of `GET /calls`: the maximum number of calls in flight."""

_REASON = "Paris is the capital."
_VERDICT = {"score": 1.0, "pass": True, "reason": _REASON, "reasoning": _REASON}
REPLIES = {
    JSON_JUDGE: json.dumps({**_VERDICT, "hits": ["names Paris"], "misses": [], "assertions": []}),
    GRADE_JUDGE: "Paris is the capital.\n\nGRADE: C",
    TEN_JUDGE: json.dumps({"score": 10, "reason": _REASON}),
    TOOL_JUDGE: "",
}
_USAGE = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}


def reply_of(model: str) -> str:
    """The fixed answer of a model."""
    return REPLIES.get(model, ANSWER)


def completion(model: str) -> dict[str, Any]:
    """A chat completion, with a tool call if the judge's verdict is one."""
    message: dict[str, Any] = {"role": "assistant", "content": reply_of(model)}
    ended = "stop"
    if model == TOOL_JUDGE:
        verdict = json.dumps({"reason": _REASON, "pass": True, "score": 1.0})
        call = {"id": "call_1", "type": "function", "function": {"name": "final_result", "arguments": verdict}}
        message, ended = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": ended, "logprobs": None}
    return {**_head("chat.completion", model), "choices": [choice], "usage": _USAGE}


def stream(model: str) -> str:
    """The chat completion as server-sent events."""
    said = {"index": 0, "delta": {"role": "assistant", "content": reply_of(model)}, "finish_reason": None}
    over = {"index": 0, "delta": {}, "finish_reason": "stop"}
    head = _head("chat.completion.chunk", model)
    chunks = [json.dumps({**head, "choices": [choice], "usage": _USAGE}) for choice in (said, over)]
    return "".join(f"data: {chunk}\n\n" for chunk in [*chunks, "[DONE]"])


def response(model: str) -> dict[str, Any]:
    """The answer in the format of the responses API."""
    content = {"type": "output_text", "text": reply_of(model), "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [content]}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20, **details}
    same = {"id": "resp_1", "object": "response", "created_at": 1, "model": model, "status": "completed"}
    choices = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**same, **choices, "output": [message], "usage": usage}


def _head(kind: str, model: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": model}


class Server:
    """Answers after the delay and counts requests."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.calls: Counter[str] = Counter()
        self.in_flight = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/calls":
            seen, self.calls = self.calls, Counter()
            return _send(json.dumps(seen))
        data = await request.read()
        if request.method != "POST" or not request.path.endswith(("/chat/completions", "/responses")):
            self.calls[f"{request.method} {request.raw_path}"] += 1
            return _send('{"error": {"message": "path not found"}}', status=404)
        body = json.loads(data)
        model = str(body.get("model"))
        self.calls["judge" if model.startswith(JUDGE) else "assistant"] += 1
        self.in_flight += 1
        self.calls[MOST] = max(self.calls[MOST], self.in_flight)
        try:
            await asyncio.sleep(self.delay)
        finally:
            self.in_flight -= 1
        if request.path.endswith("/responses"):
            return _send(json.dumps(response(model)))
        if body.get("stream"):
            return _send(stream(model), kind="text/event-stream")
        return _send(json.dumps(completion(model)))


def _send(text: str, *, kind: str = "application/json", status: int = 200) -> web.Response:
    return web.Response(status=status, body=text.encode(), content_type=kind)


async def serve(delay: float) -> None:
    """Serve on a free port until SIGTERM; prints the address."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    server = web.Server(Server(delay).handle, access_log=None)
    listener = await loop.create_server(server, "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", flush=True)
    await stopped.wait()
    listener.close()
    await server.shutdown(0.1)


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
