"""The agents of docs/python-function.md work with the real libraries, which connect to no other host."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentv.testing import FakeModelServer
from tests.conftest import Project
from tests.docs.pages import ROOT, blocks

GUARD = """\
import sys


def refuse_other_hosts(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        address = arguments[0] if event == "socket.getaddrinfo" else arguments[1]
        host = address[0] if isinstance(address, tuple) else address
        if event == "socket.getaddrinfo" or isinstance(address, tuple):
            with open("hosts.txt", "a") as hosts:
                print(host, file=hosts)
            if host not in ("127.0.0.1", b"127.0.0.1"):
                raise OSError(f"the test refuses a connection to {host}")


sys.addaudithook(refuse_other_hosts)
"""
TRACED = {
    "OPENAI_API_KEY": "sk-not-a-key-0123456789",
    "LANGCHAIN_TRACING_V2": "true",
    "LANGSMITH_TRACING": "true",
    "LANGSMITH_API_KEY": "lsv2-not-a-key-0123456789",
}
"""With these variables, the libraries send traces if the examples do not disable them."""
REAL_MODEL = """
from agents import OpenAIChatCompletionsModel
from openai import AsyncOpenAI

agent.model = OpenAIChatCompletionsModel("fake", AsyncOpenAI(base_url="{url}", api_key="not-a-key"))
"""
FLUSH = """
from agents.tracing import get_trace_provider

documented = answer


async def answer(prompt: str) -> dict:
    reply = await documented(prompt)
    get_trace_provider().force_flush()  # otherwise, traces are sent in the background
    return reply
"""


def write_page(project: Project, additions: str = "") -> None:
    for block in blocks(ROOT / "docs" / "python-function.md"):
        if block.file is not None and block.file.startswith("agents/with_"):
            project.write(block.file, GUARD + block.text + (additions if "openai" in block.file else ""))
        elif block.file is not None:
            project.write(block.file, block.text)


def row_of(project: Project, target: str) -> dict[str, Any]:
    done = project.run("eval", "suite.yaml", "--config", "agents", "--target", target, env=TRACED)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = project.rows()
    assert row["candidate_answer"] == "Paris"
    return row


@pytest.mark.parametrize("target", ["pydantic-ai", "openai-agents", "langchain"])
def test_agent_of_a_library_is_a_target(project: Project, target: str) -> None:
    write_page(project, FLUSH)
    row = row_of(project, target)
    assert not list(project.root.rglob("hosts.txt"))
    if target == "openai-agents":
        assert row["token_usage"] == {"input": 12, "output": 1}
    if target == "pydantic-ai":
        assert row["trace_summary"]["tool_calls_by_name"] == {"search": 1}


async def test_agent_calls_a_real_model_server(project: Project) -> None:
    async with FakeModelServer("Paris") as server:
        write_page(project, REAL_MODEL.format(url=server.url) + FLUSH)
        row = await asyncio.to_thread(row_of, project, "openai-agents")
    (hosts,) = project.root.rglob("hosts.txt")
    assert set(hosts.read_text().split()) == {"127.0.0.1"}
    assert row["token_usage"] == {"input": 10, "output": 1}
    assert [message["role"] for message in server.requests[0].body["messages"]] == ["system", "user"]
