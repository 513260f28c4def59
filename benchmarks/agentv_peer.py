"""`python -m benchmarks.agentv_peer`: AgentV (npm) and this project on the same suites, score by score.

The suites are in `agentv_checks.py`. Their answers are files, the judge is a table on 127.0.0.1, and AgentV runs with
a preload that refuses every other connection. AgentV is installed temporarily, or `--keep` names a directory with it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentv.testing.model_server import Failure, FakeModelServer
from benchmarks.agentv_checks import GROUPS, HEADS, Check
from benchmarks.measure import ROOT, agentv, environment

VERSION = "4.42.4"
PAGE = ROOT / "docs" / "migrating-from-agentv.md"
BEGIN, END = "<!-- agentv peer: begin -->", "<!-- agentv peer: end -->"
SECONDS = 600
CHECKS = [check for group in GROUPS.values() for check in group]
IDS = {check.about: f"c{number}" for number, check in enumerate(CHECKS, 1)}
EQUAL = 5e-4
"""Scores that differ by less are equal: AgentV rounds some to three places."""

BLOCK = """\
const net = require('net'), fs = require('fs'), connect = net.Socket.prototype.connect;
const local = host => !host || host === 'localhost' || host === '::1' || /^127\\./.test(host);
net.Socket.prototype.connect = function (...all) {
  const first = Array.isArray(all[0]) ? all[0][0] : all[0];
  const named = typeof first === 'object' && first;
  const host = named ? (first.path ? null : first.host) : typeof all[1] === 'string' ? all[1] : null;
  if (local(host)) return connect.apply(this, all);
  fs.appendFileSync(process.env.BLOCKED, host + '\\n');
  process.nextTick(() => this.destroy(new Error('blocked: ' + host)));
  return this;
};
"""
"""Refuses and notes connections to other hosts."""
_MARK = re.compile(r"\b([a-z]+(?:-\d+)?) \((yes|no|omitted|\d+|0\.\d+)\)")


class Outcome(NamedTuple):
    """The score of a case and those of its entries; the score is None if there is none."""

    score: float | None
    entries: tuple[float, ...] = ()
    error: str = ""


# -- the judge


def reply(text: str) -> str:
    """The decisions that are written in the criteria: `a (yes)`, `b (7)`, `score (0.6)`."""
    checks: list[dict[str, Any]] = []
    for name, verdict in dict(_MARK.findall(text)).items():
        if name == "score":
            found = {"score": float(verdict), "reasoning": "r", "hits": [], "misses": [], "assertions": []}
            return json.dumps(found)
        if verdict != "omitted":
            decided = {"score": int(verdict)} if verdict.isdigit() else {"satisfied": verdict == "yes"}
            checks.append({"id": name, "reasoning": "r", **decided})
    return json.dumps({"checks": checks, "overall_reasoning": "r"})


def events(text: str) -> bytes:
    """A reply as server-sent events."""
    head = {"id": "r", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    parts = (
        {"delta": {"role": "assistant", "content": text}, "finish_reason": None},
        {"delta": {}, "finish_reason": "stop"},
    )
    chunks = [json.dumps({**head, "choices": [{"index": 0, **part}]}) for part in parts]
    return "".join(f"data: {chunk}\n\n" for chunk in (*chunks, "[DONE]")).encode()


async def serve() -> None:
    def answer(body: Any) -> str | Failure:
        contents = [message["content"] for message in body["messages"]]
        parts = [part for each in contents for part in ([each] if isinstance(each, str) else each)]
        text = reply("\n".join(part if isinstance(part, str) else part["text"] for part in parts))
        if not body.get("stream"):
            return text
        return Failure(200, {"Content-Type": "text/event-stream"}, events(text))  # another kind of reply, not a failure

    async with FakeModelServer(answer, keep_requests=False) as server:
        print(server.url, flush=True)
        await asyncio.get_running_loop().create_future()


@contextlib.contextmanager
def judge() -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.agentv_peer", "--serve"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


# -- the project


def suites(checks: Sequence[Check]) -> dict[str, dict[str, Any]]:
    """The suites in the spelling that the checks have."""
    found: dict[str, dict[str, Any]] = {}
    for check in checks:
        suite = found.setdefault(check.suite, {**HEADS[check.suite], "tests": []})
        case: dict[str, Any] = {"id": IDS[check.about], "criteria": "x", "input": "Where?"}
        case |= {"assertions": list(check.assertions)} if check.assertions else {}
        suite["tests"].append(case | dict(check.case))
    return found


def in_version_5(suite: Mapping[str, Any]) -> dict[str, Any]:
    """A suite of version 4 in the spelling of version 5."""
    head = {key: value for key, value in suite.items() if key not in ("tests", "assertions", "input")}
    first = suite.get("input", [])
    head |= {"providers": ["default"], "default_test": {"assert": list(map(_respelled, suite.get("assertions", [])))}}
    head["prompts"] = (
        ["{{ input }}"] if not first else [json.dumps([*first, {"role": "user", "content": "{{ input }}"}])]
    )
    cases = []
    for case in suite["tests"]:
        new = {"id": case["id"], "assert": list(map(_respelled, case.get("assertions", [])))}
        new["vars"] = {**case.get("vars", {}), "input": case["input"]}
        new["vars"] |= {key: case[key] for key in ("expected_output",) if key in case}
        new |= case.get("execution", {})
        cases.append(new)
    return {**head, "tests": cases}


def _respelled(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    new = {"metric" if key == "name" else key: value for key, value in entry.items() if key != "negate"}
    new["type"] = {"code-grader": "script", "rubrics": "llm-rubric"}.get(entry["type"], entry["type"])
    if entry["type"] == "rubrics":
        new["value"] = new.pop("criteria")
    if entry["type"] == "llm-grader":
        new |= {"type": "llm-rubric", "rubric_prompt": new.pop("prompt")}
    return {**new, "type": f"not-{new['type']}"} if entry.get("negate") else new


def write_project(place: Path, written: Mapping[str, Mapping[str, Any]], url: str) -> None:
    """The suites, the answers, and a target that prints them."""
    (place / ".agentv").mkdir(parents=True)
    (place / "evals").mkdir()
    (place / "answers").mkdir()
    for check in CHECKS:
        calls = [{"role": "assistant", "content": "", "tool_calls": [call]} for call in check.calls]
        messages = [*calls, {"role": "assistant", "content": check.answer}]
        answer = {"output_messages": messages, **check.reported}
        (place / "answers" / f"{IDS[check.about]}.json").write_text(json.dumps(answer), encoding="utf-8")
    copied = f"cp {place}/answers/{{EVAL_ID}}.json {{OUTPUT_FILE}}"
    key = {"api_key": "${{ PEER_KEY }}", "model": "${{ PEER_MODEL }}", "base_url": url}
    targets = [
        {"name": "default", "provider": "cli", "command": copied, "grader_target": "judge"},
        {"name": "judge", "provider": "openai", **key},
    ]
    (place / ".agentv" / "targets.yaml").write_text(json.dumps({"targets": targets}), encoding="utf-8")
    for name, suite in written.items():
        (place / "evals" / f"{name}.eval.yaml").write_text(json.dumps(suite, indent=1), encoding="utf-8")


def variables(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "NO_COLOR": "1",
        "DO_NOT_TRACK": "1",
        "AGENTV_NO_UPDATE_CHECK": "1",
        "PEER_KEY": "not-a-key",
        "PEER_MODEL": "scripted",
    }


# -- running


def install(place: Path) -> Path:
    """The command of AgentV; installed in `place` if it is not there yet. No script of a package is run."""
    command = place / "node_modules" / "agentv" / "dist" / "cli.js"
    if not command.exists():
        place.mkdir(parents=True, exist_ok=True)
        (place / "package.json").write_text("{}", encoding="utf-8")
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(["npm", "install", *options, f"agentv@{VERSION}"], cwd=place, check=True, timeout=SECONDS)
    return command


def theirs(command: Path, place: Path, suite: str, scratch: Path) -> dict[str, Outcome]:
    block, blocked, out = scratch / "block.cjs", scratch / "blocked.txt", scratch / f"out-{suite}"
    block.write_text(BLOCK, encoding="utf-8")
    more = {"NODE_OPTIONS": f"--require {block}", "BLOCKED": str(blocked)}
    words = ["node", str(command), "eval", f"evals/{suite}.eval.yaml", "--output", str(out), "--workers", "2"]
    done = subprocess.run(
        words, cwd=place, env=variables(scratch) | more, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    index = out / "index.jsonl"
    if not index.exists():
        raise SystemExit(f"AgentV wrote no results: {(done.stderr + done.stdout)[-2000:]}")
    if blocked.exists():
        print(f"AgentV tried to connect to: {blocked.read_text(encoding='utf-8').split()}", file=sys.stderr)
    found: dict[str, Outcome] = {}
    for line in index.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        scores = tuple(entry["score"] for entry in row.get("scores") or ())
        found[row["test_id"]] = Outcome(row["score"], scores, str(row.get("error") or ""))
    return found


def ours(place: Path, suite: str, scratch: Path) -> dict[str, Outcome]:
    out = scratch / f"rows-{place.name}-{suite}.jsonl"
    words = agentv("eval", f"evals/{suite}.eval.yaml", "--out", str(out), "--quiet")
    done = subprocess.run(
        words, cwd=place, env=variables(scratch), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"agentv did not run: {(done.stderr + done.stdout)[-3000:]}")
    found: dict[str, Outcome] = {}
    for line in out.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        scores = tuple(entry["score"] for entry in row["evaluator_results"])
        error = row["error"]["message"] if row.get("error") else ""
        found[row["eval_id"]] = Outcome(None if error else row["score"], scores, error)
    return found


# -- the table


def same(one: Outcome | None, two: Outcome | None) -> bool:
    """Whether both have the same score, from entries with the same scores; or both have none.

    AgentV has no entries for its default judge.
    """
    if one is None or two is None or one.score is None or two.score is None:
        return shown(one) == shown(two)
    pairs = [(one.score, two.score)]
    if one.entries and two.entries:
        if len(one.entries) != len(two.entries):
            return False
        pairs += zip(one.entries, two.entries, strict=True)
    return all(abs(first - second) < EQUAL for first, second in pairs)


def shown(outcome: Outcome | None) -> str:
    if outcome is None:
        return "left out"
    return "error" if outcome.score is None else f"{outcome.score:.4g}"


def table(them: Mapping[str, Outcome], us: Mapping[str, Outcome], fifth: Mapping[str, Outcome]) -> str:
    lines = [f"| | cases | equal to AgentV {VERSION} | in the spelling of version 5 |", "| --- | --- | --- | --- |"]
    for group, checks in GROUPS.items():
        ids = [IDS[check.about] for check in checks]
        also = [IDS[check.about] for check in checks if not check.only_v4]
        equal = sum(same(them.get(each), us.get(each)) for each in ids)
        again = sum(same(us.get(each), fifth.get(each)) for each in also)
        lines.append(f"| {group} | {len(ids)} | {equal} | {f'{again} of {len(also)} equal' if also else '-'} |")
    total = sum(same(them.get(each), us.get(each)) for each in IDS.values())
    lines += [f"| **all** | {len(IDS)} | {total} | |", "", "The others differ by design:", ""]
    lines += [f"| case | AgentV {VERSION} | agentv | why |", "| --- | --- | --- | --- |"]
    for check in CHECKS:
        one, two = them.get(IDS[check.about]), us.get(IDS[check.about])
        if not same(one, two):
            lines.append(f"| {check.about} | {shown(one)} | {shown(two)} | {check.why or '**unexplained**'} |")
    return "\n".join(lines)


def unexplained(them: Mapping[str, Outcome], us: Mapping[str, Outcome], fifth: Mapping[str, Outcome]) -> list[str]:
    found: list[str] = []
    for check in CHECKS:
        key = IDS[check.about]
        one, two = them.get(key), us.get(key)
        if same(one, two) == bool(check.why):
            found.append(f"{key}, {check.about}: {one} and {two}")
        if not check.only_v4 and not same(two, fifth.get(key)):
            found.append(f"{key}, {check.about}: {two}, and in version 5 {fifth.get(key)}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agentv_peer", description="AgentV (npm) and agentv.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="directory to keep and reuse the installation")
    parser.add_argument("--write", action="store_true", help=f"write the table to {PAGE.relative_to(ROOT)}")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.serve:
        asyncio.run(serve())
    with tempfile.TemporaryDirectory(prefix="agentv-peer-") as moment, judge() as url:
        scratch = Path(moment)
        command = install((args.keep or scratch / "installed").resolve())
        fourth = suites(CHECKS)
        newer = {name: in_version_5(suite) for name, suite in suites([c for c in CHECKS if not c.only_v4]).items()}
        one, two = scratch / "project", scratch / "newer"
        write_project(one, fourth, url)
        write_project(two, newer, url)
        subprocess.run(["git", "init", "--quiet", str(one)], check=True)
        them: dict[str, Outcome] = {}
        us: dict[str, Outcome] = {}
        fifth: dict[str, Outcome] = {}
        for name in fourth:
            them |= theirs(command, one, name, scratch)
            us |= ours(one, name, scratch)
        for name in newer:
            fifth |= ours(two, name, scratch)
    text = table(them, us, fifth)
    print(text)
    problems = unexplained(them, us, fifth)
    for line in problems:
        print(f"not as expected: {line}", file=sys.stderr)
    if args.write:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
