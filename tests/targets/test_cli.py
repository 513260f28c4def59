from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentv.errors import ProviderError, ProviderTimeoutError
from agentv.messages import Message, TokenUsage, ToolCall
from agentv.redact import Redactor
from agentv.testing.model_server import Failure, FakeModelServer
from tests.patience import patiently
from tests.targets.support import ask, make

SHOW_ARGV = "import json, sys; print(json.dumps(sys.argv[1:]))"
NASTY = "$(touch pwned) `touch pwned`; touch pwned | \"x\" 'y' {EVAL_ID} ${HOME}\nsecond line \\ \u2028 é\n"


def cli(directory: Path, command: Any, **settings: Any) -> Any:
    return make(directory, "cli", command=command, **settings)


def printing(directory: Path, value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    return cli(directory, ["python", "-c", "import sys; sys.stdout.write(sys.argv[1])", text])


async def failure(provider: Any, **details: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await provider.invoke(ask(**details))
    assert not caught.value.retryable
    return caught.value


# -- the command line


async def test_arguments_arrive_byte_for_byte_and_nothing_else_happens(tmp_path):
    provider = cli(tmp_path, ["python", "-c", SHOW_ARGV, "{PROMPT}", "--id={EVAL_ID}", "{ATTEMPT}", "g{GUIDELINES}"])
    reply = await provider.invoke(ask(NASTY, eval_id="case {PROMPT}", attempt=3))
    assert json.loads(reply.text) == [NASTY, "--id=case {PROMPT}", "3", "g"]
    assert list(tmp_path.iterdir()) == []


async def test_a_string_is_split_first_and_filled_in_after(tmp_path):
    provider = cli(tmp_path, f"python -c '{SHOW_ARGV}' --q {{PROMPT}} \"two words\"")
    assert json.loads((await provider.invoke(ask("a b 'c"))).text) == ["--q", "a b 'c", "two words"]


async def test_with_a_shell_values_are_quoted(tmp_path):
    provider = cli(tmp_path, f"python -c '{SHOW_ARGV}' {{PROMPT}} | cat; true", shell=True)
    assert json.loads((await provider.invoke(ask(NASTY))).text) == [NASTY]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["command_template", "commandTemplate"])
async def test_a_command_template_is_run_by_a_shell(tmp_path, key):
    provider = cli(tmp_path, None, **{key: "printf '%s' {PROMPT} | tr a-z A-Z"})
    assert (await provider.invoke(ask("it's"))).text == "IT'S"


async def test_files_are_separate_arguments(tmp_path):
    files = (tmp_path / "one two.txt", tmp_path / "b.txt")
    provider = cli(tmp_path, ["python", "-c", SHOW_ARGV, "{FILES}"], files_format="@{basename}")
    assert json.loads((await provider.invoke(ask(files=files))).text) == ["@one two.txt", "@b.txt"]


async def test_a_command_without_a_prompt_placeholder_gets_it_on_stdin(tmp_path):
    assert (
        await cli(tmp_path, ["cat"]).invoke(ask(NASTY, system_prompt="Be brief."))
    ).text + "\n" == f"Be brief.\n\n{NASTY}"
    with_prompt = cli(tmp_path, ["sh", "-c", 'cat; echo "$1"', "sh", "{PROMPT}"])
    assert (await with_prompt.invoke(ask("only as argument"))).text == "only as argument"


async def test_a_prompt_file_is_private_exact_and_removed(tmp_path):
    code = (
        "import json, os, sys; path = sys.argv[1]\n"
        "print(json.dumps([path, open(path, newline='').read(), os.stat(path).st_mode & 0o777,"
        " os.stat(os.path.dirname(path)).st_mode & 0o777]))"
    )
    reply = await cli(tmp_path, ["python", "-c", code, "{PROMPT_FILE}"]).invoke(ask(NASTY + "\r\n"))
    path, text, file_mode, folder_mode = json.loads(reply.text)
    assert (text, file_mode, folder_mode) == (NASTY + "\r\n", 0o600, 0o700)
    assert not Path(path).parent.exists()


async def test_keep_temp_files_keeps_temporary_files(tmp_path):
    provider = cli(tmp_path, "echo {PROMPT_FILE}", keep_temp_files=True)
    path = Path((await provider.invoke(ask("kept"))).text)
    assert path.read_text() == "kept"
    path.unlink()
    path.parent.rmdir()


async def test_env_is_added_to_the_environment_of_the_target(tmp_path):
    provider = make(
        tmp_path,
        "cli",
        command=["sh", "-c", 'echo "$OURS/$MINE/$OTHER"'],
        env={"MINE": "mine", "OURS": "changed"},
        scope={"environment": {"PATH": os.environ["PATH"], "OURS": "ours"}},
    )
    assert (await provider.invoke(ask())).text == "changed/mine/"


async def test_it_runs_in_the_directory_of_the_configuration_and_cwd_starts_there(tmp_path):
    (tmp_path / "suite").mkdir()
    (tmp_path / "sub").mkdir()
    request = replace(ask(), directory=tmp_path / "suite")
    assert (await cli(tmp_path, "pwd").invoke(request)).text == str(tmp_path)
    assert (await cli(tmp_path, "pwd", cwd="sub").invoke(request)).text == str(tmp_path / "sub")
    by_shell = make(tmp_path, "cli", command_template="pwd", cwd="sub")
    assert (await by_shell.invoke(request)).text == str(tmp_path / "sub")


async def test_a_relative_program_starts_from_the_configuration_or_from_cwd(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("agent", "sub/helper"):
        (tmp_path / name).write_text('#!/bin/sh\necho "$0 in $PWD"\n')
        (tmp_path / name).chmod(0o755)
    beside = await cli(tmp_path, ["./agent"], cwd="sub").invoke(ask())
    assert beside.text == f"{tmp_path}/agent in {tmp_path}/sub"
    assert (await cli(tmp_path, ["./helper"], cwd="sub").invoke(ask())).text == f"./helper in {tmp_path}/sub"


async def test_a_template_of_agentv_in_a_targets_file_runs_in_the_suites_directory(tmp_path):
    suite = tmp_path / "suite"
    (suite / "sub").mkdir(parents=True)
    request = replace(ask(), directory=suite)
    for cwd, directory in ((None, suite), ("sub", suite / "sub")):
        provider = make(tmp_path, "cli", command_template="pwd", cwd=cwd, scope={"agentv_file": True})
        assert (await provider.invoke(request)).text == str(directory)
    assert (await make(tmp_path, "cli", command="pwd", scope={"agentv_file": True}).invoke(request)).text == str(
        tmp_path
    )


async def test_python_is_the_interpreter_that_runs_agentv(tmp_path):
    assert (await cli(tmp_path, "python -c 'import sys; print(sys.executable)'").invoke(ask())).text == sys.executable


# -- the answer


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        ("Paris\n", "Paris"),
        ("Paris\n\n", "Paris\n"),
        ("Paris\r\n", "Paris"),
        ("  kept  ", "  kept  "),
        ("", ""),
        ('{"answer": 1}\n', '{"answer": 1}'),
        ('{"score": NaN}', '{"score": NaN}'),
        ('{"text": 5}', '{"text": 5}'),
        ("[1, 2]", "[1, 2]"),
        ('{"text": "cut', '{"text": "cut'),
        ('{"text": "structured"}\n', "structured"),
        ('\n {"text": "line\\nbreak"}', "line\nbreak"),
        ('\ufeff{"text": "after a byte order mark"}', "after a byte order mark"),
    ],
)
async def test_plain_text_is_the_answer_and_an_object_with_text_is_structured(tmp_path, printed, text):
    assert (await printing(tmp_path, printed).invoke(ask())).text == text


async def test_structured_output_carries_messages_and_figures(tmp_path):
    output = {
        "output_messages": [
            {
                "role": "assistant",
                "tool_calls": [{"tool": "search", "input": {"userId": 1}, "output": [1], "id": "c", "timestamp": "t"}],
                "metadata": {"k": 1},
            },
            {"role": "tool", "name": "search", "content": "found", "timestamp": "t2"},
            {"role": "assistant", "content": "done"},
        ],
        "token_usage": {"input": 10, "output": 5, "cached": 2},
        "cost_usd": 0.5,
        "duration_ms": 12,
        "text": None,
    }
    reply = await printing(tmp_path, output).invoke(ask())
    assert reply.text == "done"
    assert reply.output_messages[0] == Message(
        "assistant", tool_calls=(ToolCall("search", {"userId": 1}, [1], "c", "t"),), metadata={"k": 1}
    )
    assert reply.output_messages[1] == Message("tool", "found", "search", timestamp="t2")
    assert (reply.token_usage, reply.cost_usd, reply.duration_ms) == (TokenUsage(10, 5, 2), 0.5, 12.0)


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        ('{"output_messages": 5}', "`output_messages` must be a list"),
        ('{"output_messages": []}', "neither `text` nor `output_messages`"),
        ('{"output_messages": ["x"]}', r"`output_messages\[0\]` must be an object"),
        ('{"output_messages": [{"content": "x"}]}', r"`output_messages\[0\].role`"),
        ('{"output_messages": [{"role": "a", "content": 5}]}', r"content` must be a string"),
        ('{"output_messages": [{"role": "a", "tool_calls": {}}]}', r"tool_calls` must be a list"),
        ('{"output_messages": [{"role": "a", "tool_calls": [{"name": "x"}]}]}', r'tool_calls\[0\]` must be `{"tool": '),
        ('{"output_messages": [{"role": "a", "content": [1e999]}]}', "too large"),
        ('{"text": "x", "cost_usd": -1}', "`cost_usd` must be a finite number of 0 or more"),
        ('{"text": "x", "cost_usd": NaN}', "NaN is not a JSON number"),
        ('{"text": "x", "duration_ms": 1e999}', "too large"),
        ('{"text": "x", "duration_ms": "3"}', "`duration_ms` must be a number"),
        ('{"text": "x", "cost_usd": true}', "`cost_usd` must be a number, got true"),
        ('{"text": "x", "token_usage": {"input": -1}}', "`token_usage.input` must not be negative"),
        ('{"text": "x", "token_usage": {"input": 1.5}}', "whole number"),
        ('{"text": "x", "token_usage": 3}', "`token_usage` must be an object"),
        ('{"text": "\\ud800"}', "lone surrogate"),
        ('{"text": "a", "text": "b"}', "twice"),
    ],
)
async def test_malformed_structured_output_is_an_error_with_the_cause(tmp_path, printed, message):
    with pytest.raises(ProviderError, match=message):
        await printing(tmp_path, printed).invoke(ask())


async def test_large_output_is_parsed_in_a_worker_with_a_limit_on_values(tmp_path):
    async def answer_of(value: Any) -> str:
        (tmp_path / "answer.json").write_text(json.dumps(value))
        return str((await cli(tmp_path, ["cat", "answer.json"]).invoke(ask())).text)

    large = "x" * 300_000
    assert await answer_of({"text": large}) == large
    other = {"items": [{"text": large}]}
    assert await answer_of(other) == json.dumps(other)
    with pytest.raises(ProviderError, match="more than 200,000 values"):
        await answer_of({"text": "x", "metadata": [[]] * 250_000})


async def test_output_that_is_not_utf8_is_an_error(tmp_path):
    assert "not UTF-8" in str(await failure(cli(tmp_path, r"printf '\377'")))


async def test_the_output_file_is_the_answer_when_the_command_mentions_it(tmp_path):
    provider = cli(
        tmp_path,
        ["sh", "-c", 'echo noise; printf "%s" "{\\"text\\": \\"from file\\"}" > "$1"', "sh", "{OUTPUT_FILE}"],
    )
    assert (await provider.invoke(ask())).text == "from file"


async def test_an_output_file_that_was_not_written_is_an_error(tmp_path):
    message = str(await failure(cli(tmp_path, ["sh", "-c", "echo said >&2", "{OUTPUT_FILE}"])))
    assert "did not write {OUTPUT_FILE}" in message
    assert "said" in message


@pytest.mark.parametrize("trick", ['ln -s /etc/passwd "$1"', 'mkfifo "$1"', 'mkdir "$1"'])
async def test_output_files_that_are_not_regular_files_are_rejected(tmp_path, trick):
    message = str(await failure(cli(tmp_path, ["sh", "-c", trick, "sh", "{OUTPUT_FILE}"], timeout_seconds=20)))
    assert "cannot read {OUTPUT_FILE}" in message


# -- failure


async def test_a_failed_command_shows_its_code_and_the_end_of_stderr(tmp_path):
    error = await failure(cli(tmp_path, ["sh", "-c", "seq 5000 >&2; echo out; exit 3"]))
    assert "target 't': the command exited with code 3: " in error.message
    shown = error.message.partition("stderr:\n")[2]
    assert len(shown) == 2000
    assert shown.endswith("4999\n5000")


async def test_a_failed_command_without_stderr_shows_stdout(tmp_path):
    assert "exited with code 1; the end of its stdout:\noops" in str(
        await failure(cli(tmp_path, ["sh", "-c", "echo oops; exit 1"]))
    )


async def test_a_killed_command_names_the_signal(tmp_path):
    assert "was killed by SIGKILL" in str(await failure(cli(tmp_path, ["sh", "-c", "kill -9 $$"])))


async def test_a_command_past_its_deadline_is_killed_and_its_output_is_reported(tmp_path):
    async def ended(seconds: float) -> ProviderError:
        command = ["sh", "-c", "echo stuck here >&2; exec sleep 60"]
        error = await failure(cli(tmp_path, command, timeout_seconds=seconds))
        assert isinstance(error, ProviderTimeoutError)
        assert f"did not finish within {seconds:g} s" in error.message
        return error

    assert "stuck here" in (await patiently(ended, lambda error: "stuck here" in error.message)).message


async def test_a_flood_is_an_error(tmp_path):
    assert "more than 16 MiB" in str(await failure(cli(tmp_path, ["sh", "-c", "exec cat /dev/zero"])))


async def test_a_command_that_cannot_start_is_an_error_with_the_cause(tmp_path):
    error = await failure(cli(tmp_path, ["no-such-tool"]))
    assert "target 't': could not start `no-such-tool`: program not found on PATH" in str(error)
    assert "its working directory" in str(await failure(cli(tmp_path, ["true"], cwd="gone")))


async def test_a_prompt_no_program_can_take_is_an_error(tmp_path):
    assert "file or stdin" in str(await failure(cli(tmp_path, ["echo", "{PROMPT}"]), question="a\0b"))
    assert "lone surrogate" in str(await failure(cli(tmp_path, ["cat"]), question="a\ud800b"))


async def test_secrets_are_masked_before_the_output_is_truncated(tmp_path):
    secret = "sk-" + "0123456789abcdef" * 4
    code = "import sys; sys.stderr.write(sys.argv[1] + 'x' * 1980); sys.exit(1)"
    provider = make(tmp_path, "cli", command=["python", "-c", code, secret], scope={"redactor": Redactor([secret])})
    message = str(await failure(provider))
    assert secret[-8:] not in message
    assert "x" * 1980 in message


async def test_cancelling_a_call_kills_the_command_and_removes_its_files(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    pid_file = tmp_path / "pid"
    provider = cli(tmp_path, ["sh", "-c", f"echo $$ > {pid_file}; exec sleep 60", "{PROMPT_FILE}"])
    call = asyncio.create_task(provider.invoke(ask()))
    while not pid_file.exists() or not pid_file.read_text().endswith("\n"):
        await asyncio.sleep(0.01)
    assert len(list((tmp_path / "tmp").iterdir())) == 1
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not Path(f"/proc/{int(pid_file.read_text())}").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


# -- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "either `command` or `command_template`"),
        ({"command": "a", "command_template": "a"}, "either `command` or `command_template`"),
        ({"command": "a {WHAT}"}, "unknown placeholder {WHAT}"),
        ({"command": "a | b"}, "`shell: true`"),
        ({"command": ["a"], "files_format": "{nope}"}, "unknown placeholder {nope}"),
        ({"command": ["a"], "healthcheck": {"type": "http", "url": "ftp://x"}}, "healthcheck"),
        ({"command": ["a"], "healthcheck": {"type": "command"}}, "either `command` or `command_template`"),
        ({"command": ["a"], "verbose": True, "cli_verbose": True}, "set twice"),
        ({"command": ["a"], "comand": ["b"]}, "Extra inputs"),
    ],
)
def test_invalid_settings_are_rejected(tmp_path, settings, message):
    with pytest.raises(ValidationError, match=message.replace("{", r"\{").replace("|", r"\|")):
        make(tmp_path, "cli", **settings)


def test_spellings_of_agentv_are_understood(tmp_path):
    make(
        tmp_path,
        "cli",
        commandTemplate="x {PROMPT}",
        attachmentsFormat="{path}",
        keep_output_files=True,
        cli_verbose=False,
        provider_batching=True,
        timeoutSeconds=3.0,
    )


# -- healthcheck


async def test_a_healthcheck_command_runs_once_for_many_calls(tmp_path):
    check = {"type": "command", "command_template": "echo ran >> log"}
    provider = cli(tmp_path, ["echo", "ok"], healthcheck=check)
    replies = await asyncio.gather(*(provider.invoke(ask()) for _ in range(5)))
    assert [reply.text for reply in replies] == ["ok"] * 5
    assert (tmp_path / "log").read_text() == "ran\n"


async def test_a_failed_healthcheck_fails_every_call_and_is_not_repeated(tmp_path):
    check = {"type": "command", "command": ["sh", "-c", "echo x >> log; echo no server >&2; exit 2"]}
    provider = cli(tmp_path, ["touch", "called"], healthcheck=check)
    for _ in range(2):
        message = str(await failure(provider))
        assert "its healthcheck failed: the command exited with code 2" in message
        assert "no server" in message
    assert (tmp_path / "log").read_text() == "x\n"
    assert not (tmp_path / "called").exists()


async def test_a_cancelled_first_call_does_not_spoil_the_healthcheck(tmp_path):
    (tmp_path / "gate").touch()
    check = {
        "type": "command",
        "command": ["sh", "-c", "echo x > started; while [ -e gate ]; do sleep 0.01; done"],
    }
    provider = cli(tmp_path, ["echo", "ok"], healthcheck=check)
    first = asyncio.create_task(provider.invoke(ask()))
    while not (tmp_path / "started").exists():
        await asyncio.sleep(0.01)
    first.cancel()
    (tmp_path / "gate").unlink()
    assert (await provider.invoke(ask())).text == "ok"


async def test_a_healthcheck_over_http_wants_2xx(tmp_path):
    async with FakeModelServer(Failure(200)) as server:  # GET is not what it serves: 404
        provider = cli(tmp_path, ["echo", "ok"], healthcheck={"type": "http", "url": server.url + "?key=hidden"})
        message = str(await failure(provider))
        assert "returned HTTP 404" in message
        assert "hidden" not in message
    message = str(await failure(cli(tmp_path, ["echo", "ok"], healthcheck={"type": "http", "url": server.url})))
    assert "the request to " in message


async def test_closing_ends_a_healthcheck_that_still_runs(tmp_path):
    pid_file = tmp_path / "pid"
    check = {"type": "command", "command": ["sh", "-c", f"echo $$ > {pid_file}; exec sleep 60"]}
    provider = cli(tmp_path, ["echo", "ok"], healthcheck=check)
    call = asyncio.create_task(provider.invoke(ask()))
    while not pid_file.exists() or not pid_file.read_text().endswith("\n"):
        await asyncio.sleep(0.01)
    call.cancel()
    await provider.aclose()
    assert not Path(f"/proc/{int(pid_file.read_text())}").exists()
