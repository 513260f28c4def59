"""`with_judge_proxy`: a real judge proxy with a scripted judge."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from agentv.errors import ProviderError, ProviderTimeoutError, UsageError
from agentv.testing import with_judge_proxy
from agentv_eval import (
    JudgeFailedError,
    JudgeLimitError,
    JudgeNotAvailableError,
    JudgeProxyClient,
    UnknownTargetError,
    create_async_judge_proxy_client,
    create_judge_proxy_client,
)

URL, TOKEN = "AGENTV_JUDGE_PROXY_URL", "AGENTV_JUDGE_PROXY_TOKEN"


def client() -> JudgeProxyClient:
    found = create_judge_proxy_client(timeout=20)
    assert found is not None
    return found


def test_string_reply_is_used_for_every_recorded_call():
    with with_judge_proxy("yes") as judge, client() as asking:
        assert asking.invoke(question="first", system_prompt="be strict").raw_text == "yes"
        assert [reply.raw_text for reply in asking.invoke_batch([{"question": "2"}, {"question": "3"}])] == ["yes"] * 2
    assert [call.question for call in judge.calls] == ["first", "2", "3"]
    assert (judge.calls[0].system_prompt, judge.calls[0].target) == ("be strict", "judge")
    assert (judge.ledger.call_count, judge.ledger.batch_used) == (3, True)


def test_list_of_replies_is_used_in_order_and_then_fails():
    with with_judge_proxy(["yes", "no"]), client() as asking:
        assert [reply.raw_text for reply in asking.invoke_batch([{"question": "1"}, {"question": "2"}])] == [
            "yes",
            "no",
        ]
        with pytest.raises(JudgeFailedError, match="no reply left after 2 calls"):
            asking.invoke(question="3")


def test_function_reply_depends_on_the_call():
    with with_judge_proxy(lambda call: "yes" if "Paris" in call.question else {"text": "no"}), client() as asking:
        assert asking.invoke(question="Paris?").raw_text == "yes"
        assert asking.invoke(question="Rome?").raw_text == "no"


def test_coroutine_function_is_a_reply():
    async def answer(call: object) -> str:
        return "later"

    with with_judge_proxy(answer), client() as asking:
        assert asking.invoke(question="q").raw_text == "later"


def test_exception_reply_is_a_failed_call():
    replies: list[str | Exception] = [ProviderError("overloaded"), ProviderTimeoutError("too slow"), "yes"]
    with with_judge_proxy(replies) as judge, client() as asking:
        with pytest.raises(JudgeFailedError, match="overloaded") as failed:
            asking.invoke(question="1")
        with pytest.raises(JudgeFailedError) as late:
            asking.invoke(question="2")
        assert asking.invoke(question="3").raw_text == "yes"
    assert (failed.value.code, late.value.code) == ("judge_failed", "judge_timeout")
    assert (judge.ledger.call_count, judge.ledger.failed_calls) == (3, 2)


def test_max_calls_is_enforced():
    with with_judge_proxy("yes", max_calls=1) as judge, client() as asking:
        asking.invoke(question="1")
        with pytest.raises(JudgeLimitError):
            asking.invoke(question="2")
    assert judge.ledger.breached
    assert len(judge.calls) == 1


def test_each_target_has_its_own_replies():
    with with_judge_proxy("yes", targets={"strict": "no"}) as judge, client() as asking:
        assert asking.get_info().available_targets == ["judge", "strict"]
        assert asking.invoke(question="q").raw_text == "yes"
        assert asking.invoke(question="q", target="strict").raw_text == "no"
        with pytest.raises(UnknownTargetError):
            asking.invoke(question="q", target="other")
    assert [call.target for call in judge.calls] == ["judge", "strict"]


def test_first_target_is_the_default_without_a_reply():
    with with_judge_proxy(targets={"strict": "no", "lenient": "yes"}), client() as asking:
        assert asking.get_info().target_name == "strict"
        assert asking.invoke(question="q").raw_text == "no"


def test_environment_variables_are_set_and_restored(monkeypatch):
    monkeypatch.setenv(URL, "http://127.0.0.1:1")
    monkeypatch.delenv(TOKEN, raising=False)
    with with_judge_proxy("yes") as judge:
        assert (os.environ[URL], os.environ[TOKEN]) == (judge.url, judge.token)
        asking = client()
    assert os.environ[URL] == "http://127.0.0.1:1"
    assert TOKEN not in os.environ
    with asking, pytest.raises(JudgeNotAvailableError, match="cannot connect"):
        asking.invoke(question="q")


def test_environment_is_restored_if_the_test_fails(monkeypatch):
    monkeypatch.delenv(URL, raising=False)
    with pytest.raises(ZeroDivisionError), with_judge_proxy("yes"):
        1 / 0  # noqa: B018
    assert URL not in os.environ


def test_concurrent_judges_do_not_mix():
    with with_judge_proxy("one") as one:
        with with_judge_proxy("two") as two, client() as asking:
            assert asking.invoke(question="q").raw_text == "two"
        with client() as asking:
            assert asking.invoke(question="q").raw_text == "one"
    assert one.token != two.token
    assert (len(one.calls), len(two.calls)) == (1, 1)


async def test_it_works_inside_a_running_loop():
    with with_judge_proxy("yes"):
        asking = create_async_judge_proxy_client()
        assert asking is not None
        async with asking:
            assert await asking.verdict(question="q", choices=["yes", "no"]) == "yes"


@pytest.mark.parametrize("reply", [None, 7])
def test_judge_without_replies_is_a_usage_error(reply):
    with pytest.raises(UsageError), with_judge_proxy(reply):
        pass


def test_invalid_reply_type_is_reported_to_the_caller():
    with (
        with_judge_proxy(lambda call: 7),
        client() as asking,
        pytest.raises(JudgeFailedError, match="must return a str, Reply or mapping, got int"),
    ):
        asking.invoke(question="q")


def test_importing_the_package_and_plugin_is_fast():
    code = """
import sys, pytest
before = set(sys.modules)
import agentv.testing, agentv.testing.plugin
print(*(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert loaded <= {"agentv", "agentv.testing", "agentv.testing.plugin"}, loaded
