"""Both SDKs send the same prompts for a verdict, including retries."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from typing import Any

import pytest

import agentv_eval
from tests.sdk_python.support import Answer, Seen, Server, http_answer, snake, vectors
from tests.sdk_typescript.support import check_built, needs_node, run

ODD_REPLIES = [
    "it's",
    "both ' and \"",
    "tab\tand\nnewline \\ backslash",
    "\u200b zero width, \u2028 separator, \x07 bell, \xad soft hyphen, 🙂",
    "x" * 300,
    "🙂" * 201,
    '{"score": 1, "score": 2}',
    '{"it\'s": 1}',
    "   ",
]
ASKS: list[dict[str, Any]] = [
    *({"ask": vector["ask"], "replies": vector["replies"]} for vector in vectors("verdicts.json")),
    *(
        {"ask": {"question": "Ünïcode?", **form}, "replies": [reply, reply, reply]}
        for reply in ODD_REPLIES
        for form in ({"choices": ["Ja.", "nein"]}, {"schema": {"type": "object", "required": ["it's", "ü"]}})
    ),
    *(
        {"ask": {**asked, "material": material, "choices": ["a", "b"]}, "replies": ["a"]}
        for asked in ({"question": "q --- end of material 0 ---"}, {"criteria": "c"})
        for material in ("m", "--- m ---", {"answer": "a\n---", "ü": "", "two\nlines": "🙂"}, "", {})
    ),
]


class Judge:
    """Gives each client, identified by its token, its scripted replies, and records the prompts."""

    def __init__(self) -> None:
        self.asked: dict[str, list[Any]] = defaultdict(list)
        self._left = {f"t{number}": list(one["replies"]) for number, one in enumerate(ASKS)}

    def __call__(self, seen: Seen) -> Answer:
        token = seen.headers["authorization"].removeprefix("Bearer ")
        if seen.path == "/info":
            info = {"targetName": "t", "maxCalls": 50, "callCount": 0, "availableTargets": []}
            return Answer(http_answer(200, info))
        body = json.loads(seen.body)
        self.asked[token].append([seen.path, body])
        items = [self._item(token) for _ in body.get("requests", "1")]
        return Answer(http_answer(200, {"responses": items} if seen.path == "/invokeBatch" else items[0]))

    def _item(self, token: str) -> dict[str, Any]:
        left = self._left[token]
        said = left.pop(0) if left else "nothing left to say"
        return {"outputMessages": [], **({"rawText": said} if isinstance(said, str) else said)}


def environ(server: Server, number: int) -> dict[str, str]:
    return {**server.environ, "AGENTV_JUDGE_PROXY_TOKEN": f"t{number}"}


def ask_in_python(env: dict[str, str], ask: dict[str, Any]) -> None:
    judge = agentv_eval.create_judge_proxy_client(environ=env)
    assert judge is not None
    fields: dict[str, Any] = {snake(name): value for name, value in ask.items()}
    questions = fields.pop("questions", None)
    if isinstance(questions, list):
        questions = [
            {snake(name): value for name, value in one.items()} if isinstance(one, dict) else one for one in questions
        ]
    with judge, suppress(agentv_eval.JudgeProxyError):
        judge.verdict(**fields) if questions is None else judge.verdicts(questions, **fields)


@pytest.fixture(scope="module")
def asked() -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    check_built()
    in_python, in_typescript = Judge(), Judge()
    with Server(in_python) as server:
        for number, one in enumerate(ASKS):
            ask_in_python(environ(server, number), one["ask"])
    with Server(in_typescript) as server:
        orders = [{"env": environ(server, number), "ask": one["ask"]} for number, one in enumerate(ASKS)]
        done = run("node", "ask_all.mjs", stdin=json.dumps(orders))
    assert done.returncode == 0, done.stderr
    return in_python.asked, in_typescript.asked


@needs_node
def test_both_sdks_send_the_same_prompts(asked):
    in_python, in_typescript = asked
    assert len(in_python) > 100
    assert sum(len(calls) > 1 for calls in in_python.values()) > 20
    for number, one in enumerate(ASKS):
        assert in_typescript[f"t{number}"] == in_python[f"t{number}"], one
