"""A judge proxy with scripted replies and a call counter, based on the server of `support`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.sdk_python.support import Answer, Seen, Server, http_answer

Reply = str | dict[str, str]


class JudgingServer(Server):
    """Returns `replies` in the order of the calls. A mapping with `error` and `code` is a failure of the judge."""

    def __init__(self, replies: Iterable[Reply], max_calls: int = 50) -> None:
        super().__init__(self._judge)
        self._replies = list(replies)
        self._max_calls = max_calls
        self.calls: list[dict[str, Any]] = []
        self.batches: list[int] = []

    @property
    def questions(self) -> list[str]:
        return [call["question"] for call in self.calls]

    def _judge(self, seen: Seen) -> Answer:
        if seen.path == "/info":
            info = {"targetName": "strict", "maxCalls": self._max_calls, "callCount": len(self.calls)}
            return Answer(http_answer(200, {**info, "availableTargets": ["strict"]}))
        body = json.loads(seen.body)
        batch = seen.path == "/invokeBatch"
        asked = body["requests"] if batch else [body]
        if len(self.calls) + len(asked) > self._max_calls:
            return Answer(http_answer(429, {"error": "the limit", "code": "max_calls_exceeded"}))
        self.calls += asked
        self.batches.append(len(asked))
        answers = [self._object(self._replies.pop(0)) for _ in asked]
        if batch:
            return Answer(http_answer(200, {"responses": answers}))
        (answer,) = answers
        status = 504 if answer.get("code") == "judge_timeout" else 502 if "error" in answer else 200
        return Answer(http_answer(status, answer))

    @staticmethod
    def _object(reply: Reply) -> dict[str, Any]:
        return {"outputMessages": [], "rawText": reply} if isinstance(reply, str) else {"outputMessages": [], **reply}
