"""The judge cache: its keys, its costs, shared calls, and that the cache file never fails a run."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import ProviderError
from agentv.evidence import JudgeCallRecord
from agentv.judge.cache import CachedJudge, JudgeCache, cached, fingerprint_of
from agentv.judge.cache_store import FILE, ReplyStore
from agentv.messages import OPTIONS, GenerationOptions, Message, TokenLogprob, TokenUsage, Tool, ToolCall
from agentv.redact import Redactor
from agentv.targets.config import TargetSpec, load_config
from agentv.targets.environment import Environment
from agentv.targets.gate import TargetGate
from agentv.targets.provider import Reply, Request, TargetScope, TargetSettings
from agentv.targets.registry import provider_class
from agentv.wire.judge import JudgeCall
from tests.judge.support import Judge, make_session

SECRET = "sk-a-secret-value-0123"
PAID = Reply(
    (Message("assistant", "yes", tool_calls=(ToolCall("look", {"a": [1, None]}, id="1"),)),),
    token_usage=TokenUsage(10, 2),
    cost_usd=0.25,
    finish_reason="stop",
    logprobs=(TokenLogprob("yes", -0.25, (("no", -1.5),)),),
    dropped_options=("temperature",),
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / ".agentv").mkdir()
    return tmp_path / ".agentv" / "cache"


def gate(judge: Any, **settings: Any) -> TargetGate:
    return TargetGate(judge, TargetSettings(provider="test", max_retries=0, **settings), name="strict")


@asynccontextmanager
async def open_cache(
    directory: Path, notes: list[str] | None = None, redactor: Redactor | None = None
) -> AsyncIterator[JudgeCache]:
    store = ReplyStore(
        directory,
        redactor=redactor or Redactor([]),
        on_note=notes.append if notes is not None else _no_note,
    )
    async with JudgeCache(store) as cache:
        yield cache


def _no_note(text: str) -> None:
    raise AssertionError(f"unexpected note: {text}")


async def calls_for(first: Request, second: Request, directory: Path, *, answers_by_prompt: bool = True) -> int:
    """The number of calls that the judge gets for two requests, one after the other."""
    judge = Judge()
    judge.answers_by_prompt = answers_by_prompt
    async with open_cache(directory) as cache:
        front = CachedJudge(gate(judge), "f", cache)
        await front.invoke(first)
        await front.invoke(second)
    return judge.calls


# -- hits


async def test_cached_reply_needs_no_call_and_costs_nothing(directory: Path) -> None:
    judge = Judge(lambda _: PAID)
    async with open_cache(directory) as cache:
        front = CachedJudge(gate(judge), "f", cache)
        first = await front.invoke(Request("q", "s"))
        second = await front.invoke(Request("q", "s"))
    assert judge.calls == 1
    assert first == PAID
    assert second.output_messages == PAID.output_messages
    assert (second.finish_reason, second.logprobs) == ("stop", PAID.logprobs)
    assert second.dropped_options == ("temperature",)
    assert second.cache_hit
    assert second.cost_usd == 0.0
    assert second.token_usage is None


async def test_reply_is_cached_across_runs(directory: Path) -> None:
    judge = Judge(lambda _: PAID)
    for _ in range(2):
        async with open_cache(directory) as cache:
            reply = await CachedJudge(gate(judge), "f", cache).invoke(Request("q"))
    assert judge.calls == 1
    assert reply.output_messages == PAID.output_messages


async def test_many_replies_are_cached_by_question(directory: Path) -> None:
    def echo(request: Request) -> Reply:
        return Reply.of_text(request.question)

    for _ in range(2):
        async with open_cache(directory) as cache:
            front = CachedJudge(gate(Judge(echo), max_concurrency=50), "f", cache)
            replies = await asyncio.gather(*(front.invoke(Request(f"q{n}")) for n in range(300)))
            assert [reply.text for reply in replies] == [f"q{n}" for n in range(300)]
    assert all(reply.cache_hit for reply in replies)


async def test_cache_hit_counts_as_a_call(directory: Path) -> None:
    records: list[JudgeCallRecord] = []
    async with open_cache(directory) as cache:
        front = CachedJudge(gate(Judge(lambda _: PAID)), "f", cache)
        session = make_session(front, max_calls=2, on_call=records.append)
        for _ in range(2):
            await session.invoke(JudgeCall("q"))
    ledger = session.ledger.to_dict()
    assert (ledger["call_count"], ledger["cache_hits"], ledger["cost_usd"]) == (2, 1, 0.25)
    assert ledger["token_usage"] == {"input": 10, "output": 2}
    assert [record.cache_hit for record in records] == [False, True]
    assert session.ledger.remaining == 0


# -- cache keys


TOOL, OTHER_TOOL = Tool("look"), Tool("look", "Look it up.")
OPTIONS_SET = GenerationOptions(
    temperature=0.5,
    top_p=0.9,
    max_output_tokens=10,
    seed=1,
    stop=("END",),
    response_schema={"type": "object"},
    tools=(TOOL,),
    tool_choice="auto",
    logprobs=2,
)
OTHER_VALUES: dict[str, list[Any]] = {
    "temperature": [0.0, None],
    "top_p": [0.8, None],
    "max_output_tokens": [11, None],
    "seed": [0, None],
    "stop": [("STOP",), ("END", "STOP"), ()],
    "response_schema": [{"type": "object", "required": ["score"]}, {}, None],
    "tools": [(OTHER_TOOL,), (TOOL, OTHER_TOOL)],
    "tool_choice": ["none", "required", TOOL, None],
    "logprobs": [0, None],
}
CHANGED_OPTIONS = [
    *(replace(OPTIONS_SET, **{name: value}) for name, values in OTHER_VALUES.items() for value in values),
    replace(OPTIONS_SET, tools=(), tool_choice=None),
    GenerationOptions(),
]
TALK = (Message("system", "s"), Message("user", "q"), Message("assistant", "a"), Message("user", "q"))
BASE = Request("q", "s", options=OPTIONS_SET, attempt=1)


def test_options_below_cover_every_generation_option() -> None:
    assert set(OTHER_VALUES) == set(OPTIONS)


@pytest.mark.parametrize("options", CHANGED_OPTIONS, ids=lambda options: json.dumps(options.to_dict())[:60])
async def test_calls_that_differ_in_one_option_are_cached_separately(
    directory: Path, options: GenerationOptions
) -> None:
    assert await calls_for(BASE, replace(BASE, options=options), directory) == 2


@pytest.mark.parametrize(
    "changed",
    [
        Request("other", "s", options=OPTIONS_SET),
        Request("q", "other", options=OPTIONS_SET),
        Request("q", options=OPTIONS_SET),
        Request("q", "s", options=OPTIONS_SET, attempt=2),
        Request("q", "s", options=OPTIONS_SET, guidelines="be kind"),
        Request("q", "s", options=OPTIONS_SET, choice=1),
        Request(messages=TALK, options=OPTIONS_SET),
        Request(messages=[Message("system", "s"), Message("user", "q", name="ada")], options=OPTIONS_SET),
        Request(messages=[Message("system", "s"), Message("assistant", "q")], options=OPTIONS_SET),
    ],
)
async def test_changed_request_is_not_served_from_the_cache(directory: Path, changed: Request) -> None:
    assert await calls_for(BASE, changed, directory) == 2


async def test_question_and_equivalent_messages_share_a_cache_entry(directory: Path) -> None:
    spelled_out = Request(messages=[Message("system", "s"), Message("user", "q")], options=OPTIONS_SET)
    assert await calls_for(BASE, spelled_out, directory) == 1


async def test_cache_key_of_a_model_ignores_the_case_and_its_directory(directory: Path) -> None:
    other = replace(BASE, eval_id="another", directory=Path("/elsewhere"))
    assert await calls_for(BASE, other, directory) == 1


@pytest.mark.parametrize("changes", [{"eval_id": "another"}, {"directory": Path("/elsewhere")}])
async def test_cache_key_of_a_command_includes_the_case(directory: Path, changes: Mapping[str, Any]) -> None:
    assert await calls_for(BASE, replace(BASE, **changes), directory, answers_by_prompt=False) == 2


async def test_system_prompt_and_question_are_separate_in_the_cache_key(directory: Path) -> None:
    assert await calls_for(Request("bc", "a"), Request("c", "ab"), directory) == 2


def spec_of(tmp_path: Path, settings: str, env: Mapping[str, str] | None = None) -> tuple[TargetSpec, Environment]:
    path = tmp_path / "agentv.config.yaml"
    path.write_text(f"targets:\n  strict: {{{settings}}}\n")
    environment = Environment(dict(env or {}))
    return load_config(path, environment).targets["strict"], environment


MODEL = "provider: openai, model: m, base_url: 'http://127.0.0.1:1/v1', api_key: first-key-12345"


def fingerprint(tmp_path: Path, settings: str, env: Mapping[str, str] | None = None) -> str:
    return fingerprint_of(*spec_of(tmp_path, settings, env))


@pytest.mark.parametrize(
    "settings",
    [
        MODEL.replace("model: m", "model: n"),
        MODEL.replace("127.0.0.1:1", "127.0.0.1:2"),
        MODEL.replace("openai", "openai_compatible"),
        f"{MODEL}, temperature: 0.5",
        f"{MODEL}, max_output_tokens: 10",
        f"{MODEL}, headers: {{X-Mode: fast}}",
    ],
)
def test_fingerprint_changes_with_settings_that_can_change_an_answer(tmp_path: Path, settings: str) -> None:
    assert fingerprint(tmp_path, settings) != fingerprint(tmp_path, MODEL)


@pytest.mark.parametrize(
    "settings",
    [
        MODEL.replace("first-key", "other-key"),
        f"{MODEL}, max_concurrency: 3",
        f"{MODEL}, timeout_seconds: 3, max_retries: 0",
        f"{MODEL}, judge_target: none",
    ],
)
def test_fingerprint_ignores_keys_and_limits(tmp_path: Path, settings: str) -> None:
    assert fingerprint(tmp_path, settings) == fingerprint(tmp_path, MODEL)


def test_fingerprint_includes_an_address_from_the_environment(tmp_path: Path) -> None:
    plain = "provider: openai, model: m, api_key: first-key-12345"
    here = fingerprint(tmp_path, plain, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"})
    assert here != fingerprint(tmp_path, plain, {"OPENAI_BASE_URL": "http://127.0.0.1:2/v1"})
    assert here != fingerprint(tmp_path, plain)


def test_fingerprint_includes_mock_rules_and_command_arguments(tmp_path: Path) -> None:
    assert fingerprint(tmp_path, "provider: mock, response: a") != fingerprint(tmp_path, "provider: mock, response: b")
    assert fingerprint(tmp_path, "provider: cli, command: [a]") != fingerprint(tmp_path, "provider: cli, command: [b]")


def test_fingerprint_ignores_header_values(tmp_path: Path) -> None:
    one, other = (fingerprint(tmp_path, f"{MODEL}, headers: {{X-Key: {value}}}") for value in ("a" * 20, "b" * 20))
    assert one == other


async def test_replayed_answers_are_not_cached(tmp_path: Path, directory: Path) -> None:
    (tmp_path / "answers.jsonl").write_text('{"eval_id": "a", "candidate_answer": "x"}\n')
    spec, environment = spec_of(tmp_path, "provider: replay, file: answers.jsonl")
    async with open_cache(directory) as cache:
        kind = provider_class("replay")
        assert kind is not None
        behind = gate(kind(spec.reading.settings, TargetScope("strict", tmp_path)))
        assert cached(behind, spec, environment, cache) is behind


NEW_PROVIDER = """
import asyncio, sys
from pathlib import Path
from agentv.targets import registry
from agentv.targets.provider import Provider, Reply, Request, TargetScope, TargetSettings

registry.BUILT_IN["new"] = "__main__:New"

class New(Provider):
    Settings = TargetSettings
    calls = 0

    def __init__(self, settings, scope):
        pass

    async def invoke(self, request):
        New.calls += 1
        return Reply.of_text(f"about {request.eval_id}")

async def main():
    from agentv.judge.cache import JudgeCache, cached
    from agentv.judge.cache_store import ReplyStore
    from agentv.redact import Redactor
    from agentv.targets.config import load_config
    from agentv.targets.environment import Environment
    from agentv.targets.gate import TargetGate

    here = Path(sys.argv[1])
    environment = Environment({}, {})
    spec = load_config(here / "agentv.config.yaml", environment).targets["judge"]
    gate = TargetGate(New(spec.reading.settings, TargetScope("judge", here)), spec.reading.settings, name="judge")
    async with JudgeCache(ReplyStore(here / "cache")) as cache:
        front = cached(gate, spec, environment, cache)
        for eval_id in ("first", "second", "first"):
            print((await front.invoke(Request("the same question", eval_id=eval_id))).text)
    print(New.calls)

asyncio.run(main())
"""


def test_replies_of_a_provider_that_declares_nothing_are_cached_per_case(tmp_path: Path) -> None:
    (tmp_path / "agentv.config.yaml").write_text("targets: {judge: {provider: new}}\n")
    ran = subprocess.run(
        [sys.executable, "-c", NEW_PROVIDER, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ran.stdout.splitlines() == ["about first", "about second", "about first", "2"], ran.stderr


@pytest.mark.parametrize(
    ("provider", "by_prompt"), [("openai", True), ("mock", True), ("cli", False), ("replay", False)]
)
def test_providers_declare_whether_answers_depend_on_the_prompt_alone(provider: str, by_prompt: bool) -> None:
    kind = provider_class(provider)
    assert kind is not None
    assert kind.answers_by_prompt is by_prompt


# -- replies that are not cached


async def test_failed_call_is_not_cached(directory: Path) -> None:
    def fail(_: Request) -> Reply:
        raise ProviderError("down")

    judge = Judge(fail)
    async with open_cache(directory) as cache:
        front = CachedJudge(gate(judge), "f", cache)
        for _ in range(2):
            with pytest.raises(ProviderError):
                await front.invoke(Request("q"))
    assert judge.calls == 2


async def test_reply_with_a_secret_is_not_cached(directory: Path) -> None:
    judge = Judge(f"the key is {SECRET}")
    async with open_cache(directory, redactor=Redactor([SECRET])) as cache:
        front = CachedJudge(gate(judge), "f", cache)
        assert SECRET in (await front.invoke(Request("q"))).text
        assert not (await front.invoke(Request("q"))).cache_hit
    assert judge.calls == 2
    assert not any(SECRET.encode() in path.read_bytes() for path in directory.iterdir())


async def test_cache_file_contains_neither_questions_nor_settings(directory: Path) -> None:
    async with open_cache(directory) as cache:
        await CachedJudge(gate(Judge()), "the fingerprint", cache).invoke(Request("the question", "the system prompt"))
    text = b"".join(path.read_bytes() for path in directory.iterdir())
    assert b"yes" in text
    for private in (b"the question", b"the system prompt", b"the fingerprint"):
        assert private not in text


@pytest.mark.parametrize("content", [float("nan"), {"a": (1, 2)}, {1: "a"}, object()])
async def test_reply_that_cannot_be_restored_exactly_is_not_cached(directory: Path, content: Any) -> None:
    judge = Judge(lambda _: Reply((Message("assistant", content),)))
    async with open_cache(directory) as cache:
        front = CachedJudge(gate(judge), "f", cache)
        for _ in range(2):
            assert not (await front.invoke(Request("q"))).cache_hit
    assert judge.calls == 2


# -- identical calls at the same time


async def test_concurrent_identical_calls_share_one_call(directory: Path) -> None:
    judge = Judge(lambda _: PAID, held=True)
    async with open_cache(directory) as cache:
        front, other = (CachedJudge(gate(judge), "f", cache) for _ in range(2))
        asking = [asyncio.create_task(one.invoke(Request("q"))) for one in (front, other, front)]
        await judge.has_calls(1)
        judge.let_go()
        replies = await asyncio.gather(*asking)
    assert judge.calls == 1
    assert [reply.cache_hit for reply in replies] == [False, True, True]
    assert sum(reply.cost_usd or 0.0 for reply in replies) == 0.25


async def test_waiting_callers_call_the_judge_when_the_shared_call_fails(directory: Path) -> None:
    outcomes = iter([None, PAID, PAID])

    def answer(_: Request) -> Reply:
        outcome = next(outcomes)
        if outcome is None:
            raise ProviderError("busy")
        return outcome

    judge = Judge(answer, held=True)
    async with open_cache(directory) as cache:
        front = CachedJudge(gate(judge), "f", cache)
        asking = [asyncio.create_task(front.invoke(Request("q"))) for _ in range(3)]
        await judge.has_calls(1)
        judge.let_go()
        first, *others = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(first, ProviderError)
    assert others == [PAID, PAID]
    assert judge.calls == 3


async def test_waiting_caller_gets_and_pays_for_the_reply_when_the_first_is_cancelled(directory: Path) -> None:
    judge = Judge(lambda _: PAID, held=True)
    async with open_cache(directory) as cache:
        front = CachedJudge(gate(judge), "f", cache)
        first = asyncio.create_task(front.invoke(Request("q")))
        await judge.has_calls(1)
        second, third = (asyncio.create_task(front.invoke(Request("q"))) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        judge.let_go()
        assert await second == PAID
        assert (await third).cache_hit
    assert (judge.calls, judge.cancelled) == (1, 0)


async def test_shared_call_is_cancelled_when_no_caller_waits(directory: Path) -> None:
    judge = Judge(held=True)
    async with open_cache(directory) as cache:
        front = CachedJudge(gate(judge), "f", cache)
        asking = [asyncio.create_task(front.invoke(Request("q"))) for _ in range(2)]
        await judge.has_calls(1)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        # A new caller does not join the cancelled call.
        newcomer = asyncio.create_task(front.invoke(Request("q")))
        await judge.has_calls(2)
        judge.let_go()
        assert (await newcomer).text == "yes"
    assert judge.cancelled == 1


async def test_waiting_caller_has_its_own_deadline(directory: Path) -> None:
    judge = Judge(held=True)
    async with open_cache(directory) as cache:
        front = CachedJudge(gate(judge), "f", cache)
        patient = asyncio.create_task(make_session(front, timeout=60).invoke(JudgeCall("q")))
        await judge.has_calls(1)
        with pytest.raises(Exception, match=r"did not answer within 0\.05 s"):
            await make_session(front, timeout=0.05).invoke(JudgeCall("q"))
        judge.let_go()
        assert (await patient).text == "yes"
    assert judge.calls == 1


async def test_exit_cancels_calls_in_flight(directory: Path) -> None:
    judge = Judge(held=True)
    async with open_cache(directory) as cache:
        asking = asyncio.create_task(CachedJudge(gate(judge), "f", cache).invoke(Request("q")))
        await judge.has_calls(1)
    assert judge.cancelled == 1
    with pytest.raises(asyncio.CancelledError):
        await asking


# -- the file


async def test_cache_file_is_private_and_ignored_by_git(directory: Path) -> None:
    async with open_cache(directory) as cache:
        await CachedJudge(gate(Judge()), "f", cache).invoke(Request("q"))
        files = [path for path in directory.iterdir() if path.name.startswith(FILE)]
        assert files
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert (directory / ".gitignore").read_text() == "*\n"


async def use_anyway(directory: Path, notes: list[str]) -> None:
    judge = Judge()
    async with open_cache(directory, notes) as cache:
        front = CachedJudge(gate(judge), "f", cache)
        assert (await front.invoke(Request("q"))).text == "yes"
        assert (await front.invoke(Request("another"))).text == "yes"


async def test_invalid_cache_file_is_set_aside_and_replaced(directory: Path) -> None:
    directory.mkdir()
    (directory / FILE).write_bytes(b"this is not a database " * 1000)
    notes: list[str] = []
    await use_anyway(directory, notes)
    (note,) = notes
    assert "was renamed to" in note
    (aside,) = directory.glob(f"{FILE}.broken-*")
    assert aside.name in note
    assert aside.read_bytes().startswith(b"this is not a database")
    await use_anyway(directory, [])
    with closing(sqlite3.connect(directory / FILE)) as database:
        assert len(database.execute("SELECT * FROM replies").fetchall()) == 2


async def test_cache_file_of_another_version_is_set_aside(directory: Path) -> None:
    directory.mkdir()
    with sqlite3.connect(directory / FILE) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    notes: list[str] = []
    await use_anyway(directory, notes)
    assert len(notes) == 1
    assert len(list(directory.glob(f"{FILE}.broken-*"))) == 1


async def test_damaged_cache_file_is_reported_once_and_set_aside(directory: Path) -> None:
    async with open_cache(directory) as cache:
        front = CachedJudge(gate(Judge("x" * 3000)), "f", cache)
        for n in range(40):
            await front.invoke(Request(f"q{n}"))
    data = bytearray((directory / FILE).read_bytes())
    page = 4096
    data[page:] = b"\xff" * (len(data) - page)
    (directory / FILE).write_bytes(data)
    notes: list[str] = []
    judge = Judge()
    async with open_cache(directory, notes) as cache:
        front = CachedJudge(gate(judge), "f", cache)
        for n in range(10):
            assert (await front.invoke(Request(f"q{n}"))).text == "yes"
    assert judge.calls == 10
    assert len(notes) == 1
    assert len(list(directory.glob(f"{FILE}.broken-*"))) == 1


async def test_missing_cache_directory_is_reported_once(directory: Path) -> None:
    directory.write_text("a file where the directory should be")
    notes: list[str] = []
    await use_anyway(directory, notes)
    (note,) = notes
    assert str(directory) in note
    assert "is disabled" in note


async def test_symbolic_link_is_not_followed(directory: Path, tmp_path: Path) -> None:
    directory.mkdir()
    (directory / FILE).symlink_to(tmp_path / "elsewhere")
    notes: list[str] = []
    await use_anyway(directory, notes)
    assert "symbolic link" in notes[0]
    assert not (tmp_path / "elsewhere").exists()


async def test_locked_cache_file_does_not_fail_calls(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentv.judge.cache_store.SECONDS_TO_WRITE", 0.05)
    notes: list[str] = []
    async with open_cache(directory, notes) as cache:
        other = sqlite3.connect(directory / FILE, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        front = CachedJudge(gate(Judge()), "f", cache)
        assert (await front.invoke(Request("q"))).text == "yes"
    other.execute("ROLLBACK")
    other.close()
    (note,) = notes
    assert "locked" in note
    assert not list(directory.glob(f"{FILE}.broken-*"))


async def test_concurrent_runs_share_one_cache_file(directory: Path) -> None:
    judge = Judge(lambda request: Reply.of_text(request.question))
    async with open_cache(directory) as one, open_cache(directory) as other:
        first, second = CachedJudge(gate(judge), "f", one), CachedJudge(gate(judge), "f", other)
        for n in range(50):
            await asyncio.gather(first.invoke(Request(f"a{n}")), second.invoke(Request(f"b{n}")))
    async with open_cache(directory) as again:
        front = CachedJudge(gate(judge), "f", again)
        replies = [await front.invoke(Request(f"{name}{n}")) for n in range(50) for name in "ab"]
    assert all(reply.cache_hit for reply in replies)
    assert judge.calls == 100


@pytest.mark.parametrize(
    "entry",
    [
        "[" * 100_000,
        "[1]",
        '{"output_messages": [{"role": "assistant", "content": 5}], "finish_reason": null}',
        '{"output_messages": [{"role": "assistant", "content": "yes"}], "finish_reason": 3}',
        '{"output_messages": "yes", "finish_reason": null}',
        b"\xff",
    ],
    ids=["deep", "list", "content", "reason", "messages", "bytes"],
)
async def test_invalid_cache_entry_is_ignored(directory: Path, entry: str | bytes) -> None:
    async with open_cache(directory) as cache:
        await CachedJudge(gate(Judge()), "f", cache).invoke(Request("q"))
    with closing(sqlite3.connect(directory / FILE)) as file:
        file.execute("UPDATE replies SET reply = ?", (entry,))
        file.commit()
    async with open_cache(directory) as cache:
        reply = await CachedJudge(gate(Judge("again")), "f", cache).invoke(Request("q"))
    assert (reply.text, reply.cache_hit) == ("again", False)


async def test_forgotten_reply_is_replaced_by_the_next_one(directory: Path) -> None:
    for answer, forgotten in (("useless", True), ("useful", False)):
        async with open_cache(directory) as cache:
            front = CachedJudge(gate(Judge(answer)), "f", cache)
            assert (await front.invoke(Request("q"))).text == answer
        async with open_cache(directory) as cache:
            front = CachedJudge(gate(Judge("new")), "f", cache)
            if forgotten:
                front.forget(Request("q"))
    async with open_cache(directory) as cache:
        reply = await CachedJudge(gate(Judge("new")), "f", cache).invoke(Request("q"))
    assert (reply.text, reply.cache_hit) == ("useful", True)


async def test_new_cache_file_of_another_run_is_not_set_aside(directory: Path) -> None:
    async with open_cache(directory) as cache:
        front = CachedJudge(gate(Judge("x" * 3000)), "f", cache)
        for n in range(40):
            await front.invoke(Request(f"q{n}"))
    notes: list[str] = []
    async with open_cache(directory, notes) as cache:
        with (directory / FILE).open("r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * ((directory / FILE).stat().st_size - 4096))
        for n in range(10):
            await CachedJudge(gate(Judge()), "f", cache).invoke(Request(f"q{n}"))
        (note,) = notes
        assert "is disabled from now on" in note
        (directory / FILE).rename(directory / "moved")
        (directory / FILE).write_bytes(b"written by another run")
    assert (directory / FILE).read_bytes() == b"written by another run"
