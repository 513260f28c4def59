"""The model server for all tools: OpenAI's chat completions (plain and streamed) and responses, on 127.0.0.1.

The model `judge-model` answers yes if the prompt contains an answer with Paris in it, and no otherwise. All other
models answer the question.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

JUDGE = "judge-model"
ASSISTANT = "assistant-model"
ANSWER = "The capital of France is Paris."


class ModelServer(ThreadingHTTPServer):
    """Records the prompts sent to the judge, and requests for unknown paths."""

    daemon_threads = True

    def __init__(self, answer: str = ANSWER) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.judge_prompts: list[str] = []
        self.other_paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def reply(self, body: dict[str, Any]) -> str:
        if body["model"] != JUDGE:
            return self.answer
        prompt = json.dumps(body.get("messages", body.get("input")), ensure_ascii=False)
        self.judge_prompts.append(prompt)
        return "yes" if "Paris" in prompt else "no"


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/responses") and not body.get("stream"):
            self._send(200, "application/json", _response(self.server.reply(body), body["model"]).encode())
        elif not self.path.endswith("/chat/completions"):
            self.server.other_paths.append(self.path)
            self._send(404, "application/json", b'{"error": {"message": "path not found"}}')
        elif body.get("stream"):
            events = [*_stream(self.server.reply(body), body["model"]), "[DONE]"]
            self._send(200, "text/event-stream", "".join(f"data: {event}\n\n" for event in events).encode())
        else:
            message = {"role": "assistant", "content": self.server.reply(body)}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._send(200, "application/json", _completion("chat.completion", body["model"], choice).encode())

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Log nothing: the table is the output."""


def _stream(text: str, model: str) -> Iterator[str]:
    kind = "chat.completion.chunk"
    yield _completion(kind, model, {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None})
    yield _completion(kind, model, {"index": 0, "delta": {}, "finish_reason": "stop"})


def _completion(kind: str, model: str, choice: dict[str, Any]) -> str:
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
    same = {"id": "chatcmpl-1", "object": kind, "created": 1, "model": model}
    return json.dumps({**same, "choices": [choice], "usage": usage})


def _response(text: str, model: str) -> str:
    content = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [content]}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 10, "output_tokens": 1, "total_tokens": 11, **details}
    same = {"id": "resp_1", "object": "response", "created_at": 1, "model": model, "status": "completed"}
    choices = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return json.dumps({**same, **choices, "output": [message], "usage": usage})


@contextmanager
def serving(answer: str = ANSWER) -> Iterator[ModelServer]:
    """Run a server inside a `with` block."""
    with ModelServer(answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
