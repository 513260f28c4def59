"""`python -m benchmarks.comparison [NAME ...]`: install each tool temporarily and run the same scorer in it.

A scorer works if it scores 1 for an answer that names the capital and 0 for one that does not, and if the model
server receives a judge call both times. A probe, inserted into the copy that is run, reports whether the scorer
runs in the tool's process and whether the API key is in its environment. If a tool can limit judge calls, the limit is
set to 0, and no call may arrive.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.comparison.counting import not_shown, other_lines, scorer_lines
from benchmarks.comparison.server import ANSWER, ASSISTANT, JUDGE, serving
from benchmarks.comparison.tools import SNIPPETS, TOOLS, Tool
from benchmarks.measure import ROOT

RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "comparison.md"
KEY = "OPENAI_API_KEY"
QUESTION = "Does the answer name the capital?"
INSTALLING, RUNNING = 300, 120
"""Timeouts in seconds."""

PROBES = {
    ".py": "import os; open({path!r}, 'w').write(str(os.getpid()) + ' ' + str(bool(os.environ.get({key!r}))))",
    ".mjs": "(await import('node:fs')).writeFileSync('{path}', `${{process.pid}} ${{!!process.env.{key}}}`);",
    ".ts": "(await import('node:fs' as string)).writeFileSync('{path}', (globalThis as any).process.pid + ' ' + "
    "!!(globalThis as any).process.env.{key});",
    ".sh": '[ -n "${{{key}:-}}" ] && echo "$$ true" >{path} || echo "$$ false" >{path}',
}


class NotRunError(Exception):
    """The tool could not be installed, or its scorer did not work as expected."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.comparison", description="The same scorer, many tools.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="tools whose name contains this; all by default")
    parser.add_argument("--installed", type=Path, metavar="DIR", help="directory to keep and reuse installations")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="file for the JSON results")
    args = parser.parse_args(arguments)
    chosen = [tool for tool in TOOLS if not args.names or any(n.lower() in tool.name.lower() for n in args.names)]
    with tempfile.TemporaryDirectory(prefix="agentv-comparison-") as scratch:
        installed = (args.installed or Path(scratch) / "installed").resolve()
        rows = [_row(tool, installed, Path(scratch)) for tool in chosen]
    today = dt.datetime.now(dt.UTC).date().isoformat()
    about = {"date": today, "python": platform.python_version(), "node": _output(["node", "--version"])}
    written = json.dumps({**about, "rows": rows}, indent=2, ensure_ascii=False) + "\n"
    args.results.write_text(written, encoding="utf-8")
    print(_table(rows))
    page = PAGE.read_text(encoding="utf-8")
    stale = [tool.name for tool in TOOLS if not_shown(tool, page)]
    if stale:
        print(f"{PAGE.relative_to(ROOT)} shows an outdated scorer for: {', '.join(stale)}. Update the page.")
    return 1 if stale else 0


def _row(tool: Tool, installed: Path, scratch: Path) -> dict[str, Any]:
    print(f"{tool.name} ...", file=sys.stderr, flush=True)
    row: dict[str, Any] = {"tool": tool.name, "scorer_lines": scorer_lines(tool), "other_lines": other_lines(tool)}
    row |= {"languages": tool.languages, "files": [f"{tool.folder}/{name}" for name in (tool.scorer, *tool.files)]}
    try:
        place = _install(tool, installed)
        row["version"] = _version(tool, place)
        for answer, expected in ((ANSWER, 1.0), ("I do not know.", 0.0)):
            seen = _run(tool, place, Path(tempfile.mkdtemp(dir=scratch)), answer)
            _check(seen, answer, expected)
            row.setdefault("runs", []).append(seen)
        row |= {"ran": True, "call_limit": _limit(tool, place, Path(tempfile.mkdtemp(dir=scratch)))}
    except NotRunError as error:
        row |= {"ran": False, "error": str(error)}
    return row


def _check(seen: dict[str, Any], answer: str, expected: float) -> None:
    if seen["score"] != expected or seen["judge_calls"] < 1:
        raise NotRunError(f"{answer!r} was scored {seen['score']} with {seen['judge_calls']} judge calls")


def _install(tool: Tool, installed: Path) -> Path:
    """Install the tool unless it is already installed; returns the directory of its commands."""
    place = installed / (tool.version_of or "ours")
    commands = place / ("node_modules/.bin" if tool.node else "bin")
    if not tool.packages or (place / "complete").exists():
        return commands
    place.mkdir(parents=True, exist_ok=True)
    if tool.node:
        (place / "package.json").write_text("{}")
        _do(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *tool.packages], place, INSTALLING)
    else:
        _do([sys.executable, "-m", "venv", "--clear", str(place)], place, INSTALLING)
        _do([str(commands / "pip"), "install", "--quiet", *tool.packages], place, INSTALLING)
    (place / "complete").touch()
    return commands


def _version(tool: Tool, commands: Path) -> str:
    if not tool.packages:
        return _output([sys.executable, "-c", "import importlib.metadata as m; print(m.version('agentv'))"])
    if tool.node:
        described = commands.parent / tool.version_of / "package.json"
        return str(json.loads(described.read_text(encoding="utf-8"))["version"])
    code = f"import importlib.metadata as m; print(m.version({tool.version_of!r}))"
    return _output([str(commands / "python"), "-c", code])


def _run(tool: Tool, commands: Path, directory: Path, answer: str) -> dict[str, Any]:
    """Run the tool on one case; returns the score, the judge calls that arrived, and the findings of the probe."""
    _prepare(tool, commands, directory)
    with serving(answer) as server:
        pid, printed = _start(tool, commands, directory, server.url)
        calls = sum(QUESTION in prompt for prompt in server.judge_prompts)
    try:
        score = tool.score(directory, printed)
        scorer_pid, key = (directory / "probe").read_text(encoding="utf-8").split()
    except ValueError as error:
        raise NotRunError(f"{calls} judge calls, no score: {error}") from error
    except (OSError, LookupError) as error:
        raise NotRunError(f"{calls} judge calls, no score: {error!r}. It printed: {printed[-600:]}") from error
    outcome = {"score": score, "judge_calls": calls, "in_process": int(scorer_pid) == pid}
    return {**outcome, "key_in_environment": key.lower() == "true"}


def _prepare(tool: Tool, commands: Path, directory: Path) -> None:
    shutil.copytree(SNIPPETS / tool.folder, directory, dirs_exist_ok=True)
    scorer = directory / tool.scorer
    lines = scorer.read_text(encoding="utf-8").splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip().startswith(tool.probe_before))
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    lines.insert(at, indent + PROBES[scorer.suffix].format(path=str(directory / "probe"), key=KEY))
    scorer.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if tool.node:
        (directory / "node_modules").symlink_to(commands.parent)
    if scorer.suffix == ".ts":
        _compile(scorer)


def _compile(scorer: Path) -> None:
    sdk = ROOT / "sdk" / "typescript"
    if not (sdk / "dist").exists():
        raise NotRunError(f"the SDK is not built: run `npm install && npm run build` in {sdk.relative_to(ROOT)}")
    (scorer.parent / "node_modules" / "@agentv").mkdir(parents=True)
    (scorer.parent / "node_modules" / "@agentv" / "eval").symlink_to(sdk)
    (scorer.parent / "package.json").write_text('{"type": "module"}')
    options = ["--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck"]
    _do([str(sdk / "node_modules" / ".bin" / "tsc"), *options, scorer.name], scorer.parent, RUNNING)


def _start(tool: Tool, commands: Path, directory: Path, url: str) -> tuple[int, str]:
    command = [part.format(bin=commands) for part in tool.command]
    output = directory / "printed"
    with (
        output.open("wb") as file,
        subprocess.Popen(
            command, cwd=directory, env=_environment(url, directory), stdin=subprocess.DEVNULL, stdout=file, stderr=file
        ) as process,
    ):
        try:
            process.wait(RUNNING)
        except subprocess.TimeoutExpired:
            process.kill()
            raise NotRunError(f"timed out after {RUNNING} s") from None
    return process.pid, output.read_text(encoding="utf-8", errors="replace")


def _environment(url: str, directory: Path) -> dict[str, str]:
    """The environment, the same for every tool: the server's address, a key, and telemetry disabled."""
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "SSL_CERT_FILE") if name in os.environ}
    quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "DEEPEVAL_TELEMETRY_OPT_OUT": "YES"}
    quiet |= {"RAGAS_DO_NOT_TRACK": "true", "PROMPTFOO_CONFIG_DIR": str(directory / "home"), "NO_COLOR": "1"}
    models = {"OPENAI_BASE_URL": url, KEY: "sk-only-for-this-run", "ASSISTANT_MODEL": ASSISTANT, "JUDGE_MODEL": JUDGE}
    return {**inherited, **quiet, **models, "HOME": str(directory)}


def _limit(tool: Tool, commands: Path, directory: Path) -> str:
    """Run with a limit of 0 judge calls and describe what happens."""
    if tool.limit is None:
        return "not tried: no setting known"
    name, old, new = tool.limit
    _prepare(tool, commands, directory)
    text = (directory / name).read_text(encoding="utf-8")
    (directory / name).write_text(text.replace(old, new), encoding="utf-8")
    with serving() as server:
        _start(tool, commands, directory, server.url)
        calls = len(server.judge_prompts)
    try:
        outcome = f"score {tool.score(directory, '')}"
    except ValueError as error:
        outcome = f"failed: {str(error).splitlines()[0]}"
    return f"`{new}`: {calls} calls arrived, {outcome}"


def _do(command: list[str], directory: Path, seconds: float) -> None:
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotRunError(str(error)) from error
    if done.returncode != 0:
        raise NotRunError(
            f"{command[0]} exited with code {done.returncode}: {(done.stderr + done.stdout).strip()[-600:]}"
        )


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "not there"


def _table(rows: list[dict[str, Any]]) -> str:
    heads = ("tool", "version", "ran", "scorer", "rest", "in process", "key in environment", "call limit")
    lines = ["| " + " | ".join(heads) + " |", "| " + " | ".join("---" for _ in heads) + " |"]
    for row in rows:
        limit = "none known" if row.get("call_limit", "").startswith("not tried") else "yes"
        seen = row["runs"][0] if row["ran"] else {}
        tested = [_yes(seen["in_process"]), _yes(seen["key_in_environment"]), limit] if seen else ["-"] * 3
        cells = [row["tool"], row.get("version", "-"), _yes(row["ran"]), row["scorer_lines"], row["other_lines"]]
        lines.append("| " + " | ".join(str(cell) for cell in [*cells, *tested]) + " |")
    failures = [f"{row['tool']} did not run: {row['error']}" for row in rows if not row["ran"]]
    return "\n".join([*lines, "", *failures])


def _yes(value: bool) -> str:
    return "yes" if value else "no"
