"""Judge scripts as real processes: what reaches stdout, stderr and the exit code."""

from __future__ import annotations

import io
import json
import sys

import pytest

from agentv_eval import CodeJudgeInput, CodeJudgeResult, code_judge, define_code_judge
from tests.sdk_python.support import Answer, Seen, Server, http_answer, reply, run_judge

HEADER = "from agentv_eval import *\nimport os, subprocess, sys\n"


def judge(body: str, stdin: str | bytes = '{"candidate_answer": "Paris"}', **options):
    return run_judge(HEADER + body, stdin, **options)


def test_only_the_result_reaches_stdout():
    done = judge(
        """
kept = sys.stdout
def noisy(input):
    print("print")
    kept.write("kept reference\\n")
    sys.__stdout__.write("original\\n")
    os.write(1, b"descriptor\\n")
    subprocess.run([sys.executable, "-c", "print('child')"], check=True)
    print('{"score": 0}')
    return {"score": 1}
define_code_judge(noisy)
print("after the result")
"""
    )
    assert done.code == 0
    assert json.loads(done.stdout)["score"] == 1
    assert done.stdout.count("\n") == 1
    for line in ("print", "kept reference", "original", "descriptor", "child", "after the result"):
        assert line in done.stderr.splitlines()


def test_output_before_the_judge_runs_stays_on_stdout():
    done = judge('print("loading")\ndefine_code_judge(lambda input: 1)')
    noise, result = done.stdout.splitlines()
    assert (noise, json.loads(result)["score"]) == ("loading", 1)


def test_a_result_object_is_printed_with_all_fields():
    done = judge(
        "define_code_judge(lambda input: CodeJudgeResult(0.5, hits=['a'], misses=('b',), reasoning='r', "
        "details={'k': 1}))"
    )
    assert done.result == {
        "score": 0.5,
        "hits": ["a"],
        "misses": ["b"],
        "reasoning": "r",
        "details": {"k": 1},
    }


def test_the_result_is_utf8_whatever_the_locale():
    done = judge(
        "define_code_judge(lambda input: {'score': 1, 'reasoning': input.question})",
        '{"question": "ça 🙂"}',
        environ={"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert done.result["reasoning"] == "ça 🙂"


def test_an_unpaired_surrogate_does_not_lose_the_score():
    done = judge(
        "define_code_judge(lambda input: {'score': 1, 'reasoning': input.question})",
        r'{"question": "\ud83d"}',
    )
    assert (done.code, done.result["score"]) == (0, 1)


def test_a_large_result_is_printed_completely():
    done = judge("define_code_judge(lambda input: {'score': 1, 'details': {'text': 'x' * 5_000_000}})")
    assert len(done.result["details"]["text"]) == 5_000_000


def test_an_exception_is_a_failure_with_a_traceback_and_a_clear_last_line():
    done = judge(
        """
def broken(input):
    print("log")
    raise ValueError("no chunks\\nin config")
define_code_judge(broken)
"""
    )
    assert (done.code, done.stdout) == (1, "")
    assert "Traceback" in done.stderr
    assert "judge.py" not in done.stderr
    assert done.last_line == "agentv_eval: the judge failed: ValueError: no chunks in config"


def test_an_exception_in_a_coroutine_is_a_failure():
    done = judge("async def broken(input):\n    raise KeyError('x')\ndefine_code_judge(broken)")
    assert (done.code, done.stdout) == (1, "")
    assert done.last_line == "agentv_eval: the judge failed: KeyError: 'x'"


@pytest.mark.parametrize(
    ("call", "code"), [("sys.exit()", 1), ("sys.exit(0)", 1), ("sys.exit(3)", 3), ("sys.exit('no')", 1)]
)
def test_a_handler_that_calls_sys_exit_is_a_failure(call, code):
    done = judge(f"define_code_judge(lambda input: {call})")
    assert (done.code, done.stdout) == (code, "")
    assert "instead of returning a result" in done.last_line


def test_an_unknown_attribute_lists_the_known_names():
    done = judge("define_code_judge(lambda input: len(input.candidate_anser))")
    assert (done.code, done.stdout) == (1, "")
    assert "did you mean 'candidate_answer'" in done.last_line
    assert "reference_answer, candidate_answer, output_messages" in done.last_line


def test_stdin_that_is_not_utf8_is_a_failure():
    done = judge("define_code_judge(lambda input: 1)", b'{"question": "\xff"}')
    assert (done.code, done.stdout) == (1, "")
    assert "UTF-8" in done.last_line


def test_the_decorator_runs_a_script_but_not_an_imported_module(tmp_path):
    path = tmp_path / "my_judge.py"
    path.write_text(f"{HEADER}@code_judge\ndef mine(input):\n    return {{'score': 0.25}}\n")
    assert run_judge(path).result["score"] == 0.25
    imported = run_judge("import my_judge; print(my_judge.mine(None))", environ={"PYTHONPATH": str(tmp_path)})
    assert imported.stdout == "{'score': 0.25}\n"


def test_the_decorator_returns_the_function_itself():
    def mine(payload):
        return 1

    assert code_judge(mine) is mine


def test_a_helper_below_the_decorator_is_explained():
    done = judge("@code_judge\ndef mine(input):\n    return helper()\ndef helper():\n    return 1")
    assert (done.code, done.stdout) == (1, "")
    assert "must be defined above it" in done.last_line


WITHOUT_JUDGE = {
    "one parameter": "def handler(input): return 1",
    "a second parameter that is an option": "def handler(input, strictness=2): return strictness / 2",
    "a coroutine": "async def handler(input): return 1",
    "a function that returns a coroutine": """
async def later(): return 1
def handler(input): return later()
""",
    "an object that can be called": """
class Judge:
    def __call__(self, input): return 1
handler = Judge()
""",
    "an object whose call is a coroutine": """
class Judge:
    async def __call__(self, input): return 1
handler = Judge()
""",
    "a method": """
class Judge:
    def judge(self, input): return 1
handler = Judge().judge
""",
    "a partial": """
import functools
def judge(input, *, n): return n
handler = functools.partial(judge, n=1)
""",
}


@pytest.mark.parametrize("name", WITHOUT_JUDGE)
def test_any_callable_can_be_a_handler(name):
    assert judge(WITHOUT_JUDGE[name] + "\ndefine_code_judge(handler)").result["score"] == 1


ASK = """
def score(judge): return float(judge.invoke(question="q").raw_text)
async def later(judge): return float((await judge.invoke(question="q")).raw_text)
"""
WITH_JUDGE = {
    "by position": "def handler(input, judge): return score(judge)",
    "under another name": "def handler(input, ask): return score(ask)",
    "with a default": "def handler(input, judge=None): return score(judge)",
    "by keyword": "def handler(input, *, judge): return score(judge)",
    "awaitable": "async def handler(input, judge): return await later(judge)",
    "awaitable by keyword": "async def handler(input, *, judge): return await later(judge)",
    "in a method": """
class Judge:
    def judge(self, input, judge): return score(judge)
handler = Judge().judge
""",
    "through a wrapper": """
import functools
def inner(input, judge): return score(judge)
@functools.wraps(inner)
def handler(*args, **kwargs): return inner(*args, **kwargs)
""",
    "made by the handler": "def handler(input): return score(create_judge_proxy_client())",
}


@pytest.mark.parametrize("name", WITH_JUDGE)
def test_a_handler_receives_the_judge(name):
    with Server(lambda seen: reply("0.5")) as server:
        done = judge(f"{ASK}{WITH_JUDGE[name]}\ndefine_code_judge(handler)", environ=server.environ)
    assert done.result["score"] == 0.5
    assert len(server.seen) == 1


@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_a_handler_receives_none_when_access_is_off(keyword):
    done = judge(f"{keyword} handler(input, judge):\n    return 1 if judge is None else 0\ndefine_code_judge(handler)")
    assert done.result["score"] == 1


def test_an_uncaught_refusal_is_a_failure_with_the_message_of_the_proxy():
    def refuse(seen: Seen) -> Answer:
        return Answer(
            http_answer(429, {"error": "max_calls is 0: raise judge.max_calls", "code": "max_calls_exceeded"})
        )

    with Server(refuse) as server:
        done = judge(
            "def handler(input, judge):\n    return judge.invoke(question='q')\ndefine_code_judge(handler)",
            environ=server.environ,
        )
    assert (done.code, done.stdout) == (1, "")
    assert done.last_line == "agentv_eval: the judge failed: JudgeLimitError: max_calls is 0: raise judge.max_calls"


def test_a_url_without_a_token_is_a_failure_that_names_the_variable():
    done = judge("define_code_judge(lambda input, judge: 1)", environ={"AGENTV_JUDGE_PROXY_URL": "http://127.0.0.1:9"})
    assert (done.code, done.stdout) == (1, "")
    assert "AGENTV_JUDGE_PROXY_TOKEN" in done.last_line


def test_closed_stderr_does_not_lose_the_result():
    done = judge("os.close(2)\ndef f(input):\n    print('lost')\n    return 1\ndefine_code_judge(f)")
    assert done.result["score"] == 1


def test_replaced_streams_are_used_and_restored(monkeypatch):
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"question": "q"}'))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)

    def noisy(payload):
        print("log")
        return {"score": 1, "reasoning": payload.question}

    define_code_judge(noisy)
    assert sys.stdout is out
    assert json.loads(out.getvalue())["reasoning"] == "q"
    assert err.getvalue() == "log\n"


def test_values_have_repr_and_equality_by_fields():
    assert CodeJudgeResult(1, hits=["a"]) == CodeJudgeResult(1, ["a"])
    assert CodeJudgeResult(1) != CodeJudgeResult(0)
    assert "score=1" in repr(CodeJudgeResult(1))
    assert repr(CodeJudgeInput({"question": "q"})) == "CodeJudgeInput({'question': 'q'})"
