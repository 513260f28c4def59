"""Starts real judge proxies for a client in another language, one per JSON line on stdin.

`{"max_calls": 50, "timeout": 20}` opens a proxy and prints its `url` and `token`; `{"close": url}` closes it and prints
its ledger. The judge of target `strict` answers `strict: ` and the question, that of `mild` likewise; a system prompt
or question that is a JSON object says what to do instead: `{"say": ...}`, `{"fail": ...}`, or `{"wait": true}`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

from agentv.errors import ProviderError
from agentv.judge.proxy import JudgeProxy
from agentv.judge.session import JudgeSession
from agentv.judge.targets import JudgeTargets
from agentv.targets.provider import Provider, Reply, Request


class ScriptedJudge(Provider):
    def __init__(self, name: str) -> None:
        self._name = name

    async def invoke(self, request: Request) -> Reply:
        task = _task(request.system_prompt or request.question)
        if task.get("wait"):
            await asyncio.Event().wait()
        if "fail" in task:
            raise ProviderError(task["fail"])
        system = f" [{request.system_prompt}]" if request.system_prompt else ""
        return Reply.of_text(task.get("say", f"{self._name}:{system} {request.question}"))


def _task(text: str) -> dict[str, Any]:
    task: dict[str, Any] = json.loads(text) if text.startswith("{") else {}
    return task


def make_proxy(max_calls: int, timeout: float) -> JudgeProxy:
    live = {name: ScriptedJudge(name) for name in ("strict", "mild")}
    targets = JudgeTargets("strict", live)
    return JudgeProxy(JudgeSession(targets, evaluator="precision", max_calls=max_calls, timeout=timeout))


async def main() -> None:
    stacks: dict[str, tuple[JudgeProxy, AsyncExitStack]] = {}
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        if "close" in order:
            proxy, stack = stacks.pop(order["close"])
            await stack.aclose()
            assert isinstance(proxy.session, JudgeSession)
            ledger = proxy.session.ledger
            told: dict[str, Any] = {
                "calls": ledger.call_count,
                "refused": ledger.refused_calls,
                "failed": ledger.failed_calls,
            }
        else:
            stack = AsyncExitStack()
            proxy = await stack.enter_async_context(make_proxy(**order))
            stacks[proxy.url] = proxy, stack
            told = {"url": proxy.url, "token": proxy.token}
        print(json.dumps(told), flush=True)
    for _, stack in stacks.values():
        await stack.aclose()


if __name__ == "__main__":
    asyncio.run(main())
