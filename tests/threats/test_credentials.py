"""A script with judge access cannot obtain the API key, and no output of a run contains it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agentv.processes.protection import capabilities
from agentv.testing.model_server import Failure
from tests.conftest import AGENTV, Project
from tests.spec.support import KEY, fake_model, judged, mock, model, models, run, scripted, write
from tests.threats.support import Watch, assert_clean, assert_no_key, listening_ports, wait_for

ACCESS: dict[str, Any] = {"use_judge_provider": True}
PRINT_ENVIRONMENT = """
    json.dump(dict(os.environ), open("seen.json", "w"))
    done(environment=dict(os.environ), reply=invoke()[0] if URL else None)
"""


def seen(project: Project) -> dict[str, str]:
    """The environment that the script saw, from a file, because rows are masked."""
    environment: dict[str, str] = json.loads((project.root / "seen.json").read_text())
    return environment


async def test_script_environment_contains_no_key(project: Project) -> None:
    variables = {"COPY": f"x{KEY}y", "LANG": "C.UTF-8"}
    async with fake_model() as server:
        write(project, PRINT_ENVIRONMENT, ACCESS, config=models(server))
        ran = await judged(project, env=variables)
        assert server.calls == 1
        write(project, PRINT_ENVIRONMENT.replace("if URL", "if False"), {}, config=models(server))
        in_the_open = await judged(project, env=variables)
    environment = ran.details["environment"]
    assert {"PATH", "HOME", "LANG", "AGENTV_JUDGE_PROXY_URL", "AGENTV_JUDGE_PROXY_TOKEN"} <= environment.keys()
    assert not {"MODEL_KEY", "COPY"} & environment.keys()
    assert_clean(ran)
    assert_clean(in_the_open)
    assert seen(project)["MODEL_KEY"] == KEY  # the same script sees it when it has no judge access


@pytest.mark.parametrize("options", [{}, {"use_judge_provider": False}], ids=["absent", "false"])
def test_script_without_judge_access_has_no_proxy_variables(project: Project, options: dict[str, Any]) -> None:
    write(project, PRINT_ENVIRONMENT, options)
    ran = run(project, env={"AGENTV_JUDGE_PROXY_URL": "http://127.0.0.1:9", "AGENTV_JUDGE_PROXY_TOKEN": "old"})
    assert not [name for name in seen(project) if "_PROXY_" in name and name.startswith("AGENTV_")]
    write(project, PRINT_ENVIRONMENT, options, config={"targets": {"assistant": mock()}})
    alone = run(project)
    assert (alone.result["score"], alone.result["verdict"]) == (ran.result["score"], ran.result["verdict"])
    write(project, PRINT_ENVIRONMENT, ACCESS)
    run(project)
    assert "AGENTV_JUDGE_PROXY_URL" in seen(project)


async def test_key_from_the_env_file_is_not_passed_to_scripts(project: Project) -> None:
    project.write(".env", f"FILE_KEY={KEY}\n")
    async with fake_model() as server:
        config = {"targets": {"assistant": mock(), "strict": model(server, api_key="${{ FILE_KEY }}")}}
        config["defaults"] = {"target": "assistant", "judge_target": "strict"}  # type: ignore[dict-item]
        write(project, PRINT_ENVIRONMENT, ACCESS, config=config)
        ran = await judged(project, env={"MODEL_KEY": ""})
        assert server.calls == 1  # so the runtime did read the key
    assert ran.details["reply"] == 200
    assert_no_key(json.dumps(seen(project)))
    assert_clean(ran)


async def test_key_and_token_never_appear_in_a_command_line(project: Project) -> None:
    target, judge = (f"{who}-{uuid.uuid4().hex}" for who in ("target", "judge"))
    wait = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.01)\n"
    script = "open('token', 'w').write(TOKEN)\ninvoke()\n" + wait.format("judge-seen") + "done()"
    async with fake_model() as server:
        config = models(server)
        config["targets"]["assistant"] = {
            "provider": "cli",
            "command": [sys.executable, "-c", wait.format("target-seen") + "print('Paris')", target, "{PROMPT}"],
            "env": {"OWN": "${{ MODEL_KEY }}"},
        }
        write(project, script, {**ACCESS, "script": ["python", "judge.py", judge]}, config=config)
        with Watch() as watch:
            running = asyncio.create_task(judged(project))
            for word, seen in ((target, "target-seen"), (judge, "judge-seen")):
                await asyncio.to_thread(wait_for, partial(watch.saw, word))
                (project.root / seen).touch()
            ran = await running
    assert ran.result["score"] == 1
    lines = "\n".join(watch.seen)
    assert "judge.py" in lines
    assert "The capital of France?" in lines
    assert (project.root / "token").read_text() not in lines
    assert_no_key(lines)


@pytest.mark.parametrize("status", [401, 400])
async def test_key_echoed_in_a_model_error_is_not_leaked(project: Project, status: int) -> None:
    forms = [KEY, quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode(), json.dumps(KEY)]
    body = json.dumps({"error": {"message": f"bad key: {' '.join(forms)}"}}).encode()
    script = """
        replies = [invoke(), ask("/invokeBatch", {"requests": [{"question": "?"}]})]
        json.dump(replies, open("replies.json", "w"))
        print(replies, file=sys.stderr)
        sys.exit(1)
    """
    async with fake_model(Failure(status, {"X-Echo": KEY, "WWW-Authenticate": KEY}, body)) as server:
        write(project, script, ACCESS, config=models(server))
        ran = await judged(project, "--verbose", "--record-judge-io", "--out", "rows.jsonl")
        assert server.calls == 2
    reply, batch = json.loads((project.root / "replies.json").read_text())
    assert (reply[0], reply[1]["code"]) == (502, "judge_failed")
    for text in (reply[1]["error"], batch[1]["responses"][0]["error"], ran.failure):
        assert "strict" in text
        assert str(status) in text
    assert_no_key(json.dumps([reply, batch]) + (project.root / "rows.jsonl").read_text())
    assert_clean(ran)


async def test_key_in_a_judge_answer_is_masked_for_scripts_and_files(project: Project) -> None:
    script = "json.dump(invoke(), open('reply.json', 'w'))\ndone(reply=json.load(open('reply.json')))"
    async with fake_model(f"your key is {KEY}, or {base64.b64encode(KEY.encode()).decode()}") as server:
        write(project, script, ACCESS, config=models(server))
        ran = await judged(project, "--record-judge-io")
    assert "[redacted]" in ran.details["reply"][1]["rawText"]
    assert_no_key((project.root / "reply.json").read_text())
    assert_clean(ran)


@pytest.mark.parametrize("ending", ["done(1.0, key=key)", "sys.exit(1)", "print(key * 100)"])
def test_key_printed_by_a_script_is_masked(project: Project, ending: str) -> None:
    """The script writes the key to every place it can; no output of the run contains it."""
    script = f"""
        import base64
        from urllib.parse import quote
        key = os.environ["MODEL_KEY"]
        for form in (key, quote(key, safe=""), base64.b64encode(key.encode()).decode(), json.dumps(key)):
            print(("log " + form + "|") * 3000, file=sys.stderr)
        # The part that is displayed begins in the middle of a key.
        print(key * 1000 + "z" * ((4000 - 20) % len(key)), file=sys.stderr, end="")
        print("noise", key, flush=True)
        invoke(key, systemPrompt=key, evalCaseId=key)
        {ending}
    """
    options = {**ACCESS, "env": ["MODEL_KEY"], "name": "checker"}
    config = scripted(hosted={**MISSING_KEY, "api_key": "${{ MODEL_KEY }}"})
    write(project, script, options, config=config)
    ran = run(project, "--verbose", "--record-judge-io", "--out", "rows.jsonl", "--json")
    assert len(ran.calls) == 1
    assert "[redacted]" in ran.files
    assert_no_key((project.root / "rows.jsonl").read_text())
    assert_clean(ran)


MISSING_KEY = {"provider": "openai_compatible", "model": "m", "base_url": "http://127.0.0.1:1"}


# -- other processes

SPY = """
    def content(pid, name):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                return "opened" if name == "mem" else file.read(1 << 20).decode("latin-1")
        except OSError as error:
            return error.strerror

    found, pid = [], os.getpid()
    while pid > 1:
        found.append({name: content(pid, name) for name in ("cmdline", "environ", "mem")})
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    json.dump(found, open("spied.json", "w"))
    done()
"""
WITHOUT_PRIVILEGE = """
import ctypes, os, sys
for capability in range(64):  # root loses all capabilities with the next exec
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="requires /proc")
def test_script_cannot_read_the_environment_of_parent_processes(project: Project) -> None:
    """Covers the runtime, the processes between it and the script, and a shell above the runtime that has the key."""

    def spied(options: dict[str, Any]) -> list[dict[str, str]]:
        write(project, SPY, options, config=scripted(hosted={**MISSING_KEY, "api_key": "${{ MODEL_KEY }}"}))
        command = " ".join([*AGENTV, "eval", "suite.yaml", "--json"])
        subprocess.run(
            [sys.executable, "-c", WITHOUT_PRIVILEGE, "sh", "-c", f"{command}; true"],
            cwd=project.root,
            env=project.environment({"MODEL_KEY": KEY}),
            capture_output=True,
            check=True,
        )
        reports: list[dict[str, str]] = json.loads((project.root / "spied.json").read_text())
        return reports

    in_the_open = spied({})
    assert [KEY in process["environ"] for process in in_the_open if "suite.yaml" in process["cmdline"]] == [True, True]
    itself, *above = spied(ACCESS)
    assert "AGENTV_JUDGE_PROXY_TOKEN" in itself["environ"]
    runtime, shell = (process for process in above if "suite.yaml" in process["cmdline"])
    for process in above[: above.index(shell)] if capabilities().landlock is None else above:
        assert_no_key(process["environ"])
        assert process["mem"] != "opened"
    assert above.index(runtime) >= 1


@pytest.mark.skipif(sys.platform != "linux", reason="requires /proc")
@pytest.mark.parametrize("options", [{}, ACCESS], ids=["without access", "with access"])
def test_runtime_is_unreadable_for_other_processes_during_judge_access(
    project: Project, options: dict[str, Any]
) -> None:
    script = """
        import time
        open("ready", "w")
        while not os.path.exists("go"):
            time.sleep(0.01)
        done()
    """
    write(project, script, options)
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_PRIVILEGE, *AGENTV, "eval", "suite.yaml"],
        cwd=project.root,
        env=project.environment({"MODEL_KEY": KEY}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_for((project.root / "ready").exists)
        look = [sys.executable, "-c", WITHOUT_PRIVILEGE, "cat", f"/proc/{process.pid}/environ"]
        seen = subprocess.run(look, capture_output=True, text=True, check=False)
        (project.root / "go").touch()
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert (KEY in seen.stdout) == (not options)
    assert ("Permission denied" in seen.stderr) == bool(options)


OTHER_USER = """
import http.client, json, os, sys
root, ports = sys.argv[1], [int(port) for port in sys.argv[2].split(",")]
"x".encode("idna"), b"x".decode("latin-1")  # load codecs while their files are still readable
os.umask(0o077); os.setgroups([]); os.setgid(65534); os.setuid(65534)
read, refused = {}, []
for base in (root, "/proc"):
    for folder, folders, files in os.walk(base):
        if folder.startswith("/proc"):
            folders[:] = [name for name in folders if name.isdigit()] if folder == "/proc" else []
            files = ["environ", "cmdline"] if folder != "/proc" else []
        for name in files:
            path = os.path.join(folder, name)
            try:
                if os.path.getsize(path) < 5_000_000:
                    read[path] = open(path, "rb").read().decode("latin-1")
            except OSError:
                refused.append(path)
answers = []
for port in ports:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/info")
    answers.append(connection.getresponse().status)
print(json.dumps({"read": read, "refused": refused, "answers": answers}))
"""


@pytest.fixture
def open_project() -> Iterator[Project]:
    """A project that every user of the machine can access, unlike pytest's temporary directories."""
    with tempfile.TemporaryDirectory(prefix="agentv-open-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / ".git").mkdir()
        yield Project(root)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can act as a second user")
async def test_other_user_cannot_read_key_or_token(open_project: Project) -> None:
    script = """
        import time
        os.umask(0o077)
        open("token", "w").write(TOKEN)
        invoke()
        open("ready", "w")
        while not os.path.exists("go"):
            time.sleep(0.01)
        done()
    """
    async with fake_model() as server:
        write(open_project, script, ACCESS, config=models(server))
        before = os.umask(0)
        try:
            (open_project.root / "tmp").mkdir()
            variables = {"MODEL_KEY": KEY, "TMPDIR": str(open_project.root / "tmp")}
            arguments = ("eval", "suite.yaml", "--run-dir", "run-0", "--out", "rows.jsonl", "--record-judge-io")
            process = open_project.start(*arguments, env=variables)
        finally:
            os.umask(before)
        try:
            await asyncio.to_thread(wait_for, (open_project.root / "ready").exists)
            ports = ",".join(map(str, listening_ports(process.pid)))
            look = [sys.executable, "-c", OTHER_USER, str(open_project.root), ports]
            done = await asyncio.to_thread(subprocess.run, look, capture_output=True, text=True, check=True)
            (open_project.root / "go").touch()
            await asyncio.to_thread(process.communicate, timeout=30)
        finally:
            process.kill()
            process.communicate()
    report = json.loads(done.stdout)
    everything = json.dumps(report["read"])
    assert str(open_project.root / "judge.py") in report["read"]
    assert report["answers"] == [401]
    assert str(open_project.root / "run-0" / "run.json") in [
        *report["refused"],
        str(open_project.root / "run-0/run.json"),
    ]
    assert not [
        path for path in report["read"] if "/run-0/" in path or ".agentv" in path.removeprefix("/tmp/agentv-open")
    ]
    assert (open_project.root / "token").read_text() not in everything
    assert_no_key(everything)
    for path in [*(open_project.root / "run-0").rglob("*"), open_project.root / "rows.jsonl"]:
        assert path.stat().st_mode & 0o077 == 0, path
    assert open_project.rows(open_project.root / "run-0")[0]["score"] == 1
