"""The servers that `proxy.py` compares: `python -m benchmarks.proxy_servers KIND DELAY_MS`.

Prints its port and token, then serves until its stdin is closed. `judge` is the proxy; the others answer every request
with a fixed body, which is less work than the proxy does.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

from aiohttp import StreamReader, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser

from agentv.judge.proxy import JudgeProxy
from agentv.judge.session import JudgeSession
from agentv.judge.targets import JudgeTargets
from agentv.targets.gate import TargetGate
from agentv.targets.provider import TargetScope
from agentv.targets.providers.mock import MockProvider, MockSettings

ANSWER = b'{"outputMessages":[{"role":"assistant","content":"yes"}],"rawText":"yes"}'
KINDS = ("judge", "aiohttp", "aiohttp parser", "node")
NODE = f"""
const server = require('http').createServer((request, response) => {{
  request.resume();
  request.on('end', () => {{
    response.setHeader('Content-Type', 'application/json');
    response.end('{ANSWER.decode()}');
  }});
}});
server.listen(0, '127.0.0.1', () => console.log(server.address().port + ' none'));
process.stdin.on('end', () => process.exit(0)).resume();
"""


def start(kind: str, delay_ms: float = 0.0) -> subprocess.Popen[str]:
    """The command of a server; the first line of its stdout is `port token`."""
    command = [sys.executable, "-m", "benchmarks.proxy_servers", kind, str(delay_ms)]
    if kind == "node":
        command = [shutil.which("node") or "node", "-e", NODE]
    root = Path(__file__).parent.parent
    return subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def _until_told() -> None:
    await asyncio.to_thread(sys.stdin.read)


async def _serve_judge(delay_ms: float) -> None:
    settings = MockSettings(provider="mock", response="yes", delay_ms=delay_ms, max_concurrency=64)
    gate = TargetGate(MockProvider(settings, TargetScope("judge", Path())), settings, name="judge")
    session = JudgeSession(JudgeTargets("judge", {"judge": gate}), evaluator="bench", max_calls=10**9)
    async with JudgeProxy(session) as proxy:
        print(proxy.url.rpartition(":")[2], proxy.token, flush=True)
        await _until_told()


async def _serve_aiohttp(delay_ms: float) -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        await request.read()
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
        return web.Response(body=ANSWER, content_type="application/json")

    server = web.Server(handle, access_log=None)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    print(listener.sockets[0].getsockname()[1], "none", flush=True)
    await _until_told()


async def _serve_aiohttp_parser(delay_ms: float) -> None:
    loop = asyncio.get_running_loop()

    class Echo(BaseProtocol):
        def __init__(self) -> None:
            super().__init__(loop)
            self._requests = HttpRequestParser(self, loop, 2**16)
            self._answers: set[asyncio.Task[None]] = set()

        def data_received(self, data: bytes) -> None:
            messages, _, _ = self._requests.feed_data(data)
            for _, body in messages:
                answer = loop.create_task(self._answer(body))
                self._answers.add(answer)
                answer.add_done_callback(self._answers.discard)

        async def _answer(self, body: StreamReader) -> None:
            await body.read()
            if delay_ms:
                await asyncio.sleep(delay_ms / 1000)
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ANSWER)
            if self.transport is not None:
                self.transport.write(head + ANSWER)

    listener = await loop.create_server(Echo, "127.0.0.1", 0)
    print(listener.sockets[0].getsockname()[1], "none", flush=True)
    await _until_told()


def main() -> None:
    kind, delay_ms = sys.argv[1], float(sys.argv[2])
    serve = {"aiohttp": _serve_aiohttp, "aiohttp parser": _serve_aiohttp_parser}
    asyncio.run(_serve_judge(delay_ms) if kind == "judge" else serve[kind](delay_ms))


if __name__ == "__main__":
    main()
