"""A project with real runs for the tests and pictures of the viewer: the help desk of a bookshop.

Everything is made by the real `agentv` command, offline: the assistants are a program that answers all cases of a
suite (`provider_batching`), and the judges are scripted models. Times and run ids are then replaced by fixed ones, so
that pages look the same every time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from agentv import cli
from agentv.jsonio import dump_line
from tests.view.bookshop_cases import AGENT, FLAKY, SUPPORT, Topic

LANGUAGES = ("en", "de", "fr")
STARTS = {
    "first": "2026-11-02T09:12:00",
    "baseline": "2026-11-05T16:40:00",
    "longer-context": "2026-11-09T11:05:00",
    "new-prompt": "2026-11-12T10:30:00",
    "two-models": "2026-11-13T14:02:00",
    "summaries": "2026-11-14T09:00:00",
    "small-budget": "2026-11-15T08:00:00",
}
"""Name of each run, and when it is said to have started (UTC)."""
RUNS = {name: f"{datetime.fromisoformat(at):%Y%m%d-%H%M%S}-{n:09x}" for n, (name, at) in enumerate(STARTS.items(), 1)}
"""Name -> address, which is the name of the run's directory."""
OLD_PROMPT, NEW_PROMPT = "You are a help desk.", "You are the help desk of a bookshop. Answer in one or two sentences."

_DESK = """\
# Answers all cases of a suite, as written in answers.json.
import json, pathlib, sys
answers = json.loads(pathlib.Path("answers.json").read_text())[sys.argv[1]]
for line in sys.stdin:
    case = json.loads(line)
    choices = answers.get(case["id"])
    if choices:
        print(json.dumps({"id": case["id"], **choices[(case.get("attempt", 1) - 1) % len(choices)]}))
"""

_PRECISION = """\
\"\"\"Do the retrieved passages that help come first? One judge call for each passage.\"\"\"
from agentv_eval import code_judge


@code_judge
def contextual_precision(input, judge):
    passages = input.metadata["passages"]
    helpful = []
    for passage in passages:
        question = f"Does this help to answer the question? yes or no.\\n{input.question}\\nPassage: {passage}"
        reply = judge.invoke(question=question, system_prompt="You judge retrieved passages.")
        helpful.append(reply.raw_text.lower().startswith("yes"))
    shares = [sum(helpful[: k + 1]) / (k + 1) for k, yes in enumerate(helpful) if yes]
    return {
        "score": SCORE,
        "hits": [passage for passage, yes in zip(passages, helpful) if yes],
        "misses": [passage for passage, yes in zip(passages, helpful) if not yes],
        "reasoning": f"{sum(helpful)} of {len(passages)} passages help.",
        "details": {"ranks": [k + 1 for k, yes in enumerate(helpful) if yes], "passages": len(passages)},
    }
"""
_NOISY = """\
# A judge that is not sure: its score changes from call to call.
n=$(cat noise 2>/dev/null || echo 0)
echo $((n + 1)) > noise
set -- 0.9 0.7 0.85 0.8 1.0 0.6 0.95
shift $((n % 7))
printf '{"score": %s, "reasoning": "It names the main character.", "hits": ["main character"], "misses": []}' "$1"
"""


@dataclass(frozen=True, slots=True)
class Bookshop:
    """The project, and its runs by name (newest last)."""

    root: Path
    runs: Mapping[str, str]

    def directory(self, name: str) -> Path:
        return self.root / ".agentv" / "runs" / self.runs[name]

    def rows(self, name: str) -> list[dict[str, Any]]:
        return _lines(self.directory(name) / "results.jsonl")


def make_bookshop(root: Path) -> Bookshop:
    """Write the project and run it seven times: two weeks of work on the assistant."""
    (root / ".git").mkdir(parents=True)
    _write_suites(root)
    run = _Runs(root)
    _write_judge(root, "shares[0] if shares else 0.0")
    _write_config(root, OLD_PROMPT)
    _answer(root, good=9, partly=6, tools=3)
    run("first", "evals/support.yaml", note="the first try")
    _write_judge(root, "sum(shares) / len(shares) if shares else 0.0")
    run("baseline", "evals/support.yaml", "evals/agent.yaml", note="new precision judge")
    _answer(root, good=11, partly=5, tools=4)
    run("longer-context", "evals/support.yaml", "evals/agent.yaml")
    _write_config(root, NEW_PROMPT)
    _answer(root, good=16, partly=2, tools=5)
    experiment = ("--experiment", "prompts", "--note", "names the shop and asks for short answers")
    run("new-prompt", "evals/support.yaml", "evals/agent.yaml", *experiment)
    both = ("--target", "assistant", "--target", "small", "--exclude-tag", "policy")
    run("two-models", "evals/support.yaml", "evals/agent.yaml", *both)
    run("summaries", "evals/summaries.yaml", "--workers", "1", note="4 attempts each")
    budget = ("--max-judge-calls", "30", "--workers", "1")
    run("small-budget", "evals/support.yaml", *budget, note="stopped by its budget")
    labels = [_label(row, n) for n, row in enumerate(_lines(run.directory("new-prompt") / "results.jsonl")[:10])]
    _write_lines(run.directory("new-prompt") / "labels.jsonl", [label for label in labels if label])
    return Bookshop(root, RUNS)


def _write_suites(root: Path) -> None:
    passages = {topic.id: _passages(topic, n) for n, topic in enumerate(SUPPORT)}
    support = {
        "description": "Questions of customers",
        "dataset": "support",
        "tags": ["help-desk"],
        "execution": {
            "evaluators": [
                {"name": "helpful", "type": "llm_judge", "weight": 2},
                {
                    "name": "precision",
                    "type": "code_judge",
                    "script": ["python", "../judges/precision.py"],
                    "judge": {"max_calls": 10},
                    "warm": True,
                    "threshold": 0.6,
                },
                {
                    "name": "style",
                    "type": "composite",
                    "evaluators": [
                        {"name": "short", "type": "regex", "pattern": "^.{1,90}$"},
                        {"name": "polite", "type": "contains", "value": "terrible", "negate": True, "weight": 0.5},
                    ],
                },
            ],
        },
        "evalcases": [
            {
                "id": topic.id,
                "input": topic.question,
                "expected_outcome": f"Tells the customer: {topic.reference}",
                "reference_answer": topic.reference,
                "tags": list(topic.tags),
                "metadata": {
                    "language": LANGUAGES[n % 3],
                    "difficulty": topic.difficulty,
                    "passages": passages[topic.id],
                },
                "rubrics": [
                    {"id": "first", "description": topic.criteria[0], "weight": 2},
                    {"id": "second", "description": topic.criteria[1]},
                ],
            }
            for n, topic in enumerate(SUPPORT)
        ],
    }
    agent = {
        "dataset": "agent",
        "tags": ["tools"],
        "evalcases": [
            {
                "id": task.id,
                "input": [
                    {"role": "system", "content": "Use the tools. Never guess."},
                    {"role": "user", "content": task.question},
                ],
                "metadata": {"language": "en", "difficulty": "hard"},
                "evaluators": [
                    {
                        "name": "tools",
                        "type": "tool_trajectory",
                        "mode": "in_order",
                        "expected": [{"tool": tool} for tool in task.tools],
                    },
                    {"name": "fast", "type": "latency", "threshold_ms": 2000, "weight": 0.5},
                ],
            }
            for task in AGENT
        ],
    }
    summaries = {
        "dataset": "summaries",
        "execution": {
            "target": "assistant",
            "judge_target": "unsure",
            "trials": {"count": 4, "pass_if": "majority"},
            "threshold": 0.9,
            "evaluators": [
                {"name": "faithful", "type": "llm_judge"},
                {"name": "names-author", "type": "contains", "value": "by "},
            ],
        },
        "evalcases": [
            {"id": name, "input": f"Summarise {name.partition('-')[2].title()}.", "tags": ["flaky"]} for name in FLAKY
        ],
    }
    for name, suite in {"support": support, "agent": agent, "summaries": summaries}.items():
        _write(root / "evals" / f"{name}.yaml", yaml.safe_dump(suite, sort_keys=False))
    _write(root / "desk.py", _DESK)
    _write(root / "noisy.sh", _NOISY)


def _passages(topic: Topic, n: int) -> list[str]:
    others = [SUPPORT[(n + k) % len(SUPPORT)] for k in (3, 7)]
    texts = [f"{other.question} {other.reference}" for other in others]
    texts.insert(n % 3, f"{topic.question} {topic.reference}")
    return texts


def _write_judge(root: Path, score: str) -> None:
    _write(root / "judges" / "precision.py", _PRECISION.replace("SCORE", score))


def _write_config(root: Path, prompt: str) -> None:
    judging = {"token_usage": {"input": 412, "output": 48}, "cost_usd": 0.0004}
    rules: list[dict[str, Any]] = [
        {"match": rf"(?s){re.escape(topic.question)}\nPassage: {re.escape(topic.question)}", "response": "yes"}
        for topic in SUPPORT
    ]
    rules.append({"match": "^You judge retrieved passages", "response": "no"})
    for topic in SUPPORT:
        for quality in ("good", "partly", "wrong"):
            said = re.escape(topic.answer(quality))
            rules.append({"match": f"(?s)overall_reasoning.*{said}", "response": _checks(topic, quality)})
            rules.append({"match": f"(?s)Scoring scale.*{said}", "response": _grade(topic, quality)})
    small = {"match": "(?s)Scoring scale.*Read the website", "error": "content policy: the reply was refused"}
    targets: dict[str, Any] = {
        name: {
            "provider": "cli",
            "command": ["python", "desk.py", name, "--system", prompt],
            "provider_batching": True,
        }
        for name in ("assistant", "small")
    }
    targets["careful-judge"] = {
        "provider": "mock",
        "model": "scripted-1",
        "rules": [small, *rules],
        "response": "no",
        **judging,
    }
    targets["unsure"] = {"provider": "cli", "command": ["sh", "noisy.sh"]}
    config = {"targets": targets, "defaults": {"target": "assistant", "judge_target": "careful-judge"}}
    _write(root / "agentv.config.yaml", yaml.safe_dump(config, sort_keys=False, width=200))


def _checks(topic: Topic, quality: str) -> dict[str, Any]:
    met = {"good": (True, True), "partly": (True, False), "wrong": (False, False)}[quality]
    checks = {
        name: {"reasoning": f"The answer {'does' if yes else 'does not do'} this: {what}.", "satisfied": yes}
        for name, what, yes in zip(("first", "second"), topic.criteria, met, strict=True)
    }
    return {"checks": checks, "overall_reasoning": f"{sum(met)} of 2 criteria are met."}


def _grade(topic: Topic, quality: str) -> dict[str, Any]:
    score = {"good": 1.0, "partly": 0.6, "wrong": 0.1}[quality]
    first, second = topic.criteria
    hits = {"good": [first, second], "partly": [first], "wrong": []}[quality]
    misses = {"good": [], "partly": [second], "wrong": [first, second]}[quality]
    why = {
        "good": "Everything the customer needs is there.",
        "partly": f"The main point is right, but it never {second.replace('says', 'says:')}.",
        "wrong": f"The answer contradicts the reference: {topic.reference}",
    }[quality]
    return {"reasoning": why, "hits": hits, "misses": misses, "score": score}


def _answer(root: Path, *, good: int, partly: int, tools: int) -> None:
    """What the assistants answer. `good` and `partly` are numbers of answers, `tools` of tasks with all their calls."""
    shuffled = sorted(SUPPORT, key=lambda topic: topic.id[::-1])
    qualities = {
        topic.id: "good" if n < good else "partly" if n < good + partly else "wrong" for n, topic in enumerate(shuffled)
    }
    answers: dict[str, list[dict[str, Any]]] = {
        topic.id: [_said(topic.answer(qualities[topic.id]), n)] for n, topic in enumerate(SUPPORT)
    }
    for n, task in enumerate(AGENT):
        used = task.tools if n < tools else task.tools[:-1] or ("search_books",)
        calls = [_call(tool, n, k) for k, tool in enumerate(used)]
        messages = [
            {"role": "assistant", "content": "Let me look.", "tool_calls": calls},
            {"role": "assistant", "content": task.answer},
        ]
        answers[task.id] = [{"output_messages": messages, **_said("", n + 20), "duration_ms": 900 + 310 * n}]
        del answers[task.id][0]["text"]
    for n, name in enumerate(FLAKY):
        book = name.partition("-")[2].title()
        sentences = [f"{book} by its author tells of a long journey.", f"{book} tells of a long journey."]
        answers[name] = [_said(sentences[(k // (n % 3 + 1)) % 2 if n % 2 else 0], n + k) for k in range(4)]
    small = {name: [{**choices[0], "cost_usd": 0.0001}] for name, choices in answers.items()}
    for topic in SUPPORT[::3]:
        small[topic.id] = [_said(topic.partly, 3)]
    small["rare-book"] = [_said("Read the website.", 5)]
    del small["wrong-book"]
    _write(root / "answers.json", json.dumps({"assistant": answers, "small": small}))


def _said(text: str, n: int) -> dict[str, Any]:
    usage = {"input": 180 + 13 * n, "output": 20 + 3 * n}
    return {"text": text, "token_usage": usage, "cost_usd": round(0.0006 + 0.00004 * n, 6), "duration_ms": 420 + 37 * n}


def _call(tool: str, n: int, k: int) -> dict[str, Any]:
    at = datetime(2026, 11, 12, 10, 30, 5, tzinfo=UTC) + timedelta(milliseconds=150 * k)
    output = {"order": 1017 + n, "items": [{"title": "Momo", "price": 12.9}], "status": "shipped" if k else "found"}
    return {
        "tool": tool,
        "input": {"order": 1017 + n},
        "output": output,
        "id": f"call-{n}-{k}",
        "timestamp": at.isoformat(),
    }


def _label(row: Mapping[str, Any], n: int) -> dict[str, Any] | None:
    if row["error"]:
        return None
    passed = row["verdict"] == "pass"
    label = "unsure" if n == 4 else "pass" if passed != (n == 6) else "fail"
    answer = hashlib.sha256(row["candidate_answer"].encode()).hexdigest()
    key = {name: row[name] for name in ("suite", "eval_id", "target", "attempt")}
    note = "too short for a customer" if label == "fail" else ""
    return {**key, "label": label, "note": note, "by": "ada", "at": "2026-11-12T12:00:00Z", "answer_sha256": answer}


class _Runs:
    """Runs `agentv eval` in a project, and gives each run a fixed time."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def directory(self, name: str) -> Path:
        return self.root / ".agentv" / "runs" / RUNS[name]

    def __call__(self, name: str, *arguments: str, note: str | None = None) -> None:
        started = datetime.fromisoformat(STARTS[name]).replace(tzinfo=UTC)
        more = ["--note", note] if note else []
        command = ["eval", *arguments, "--name", name, *more, "--quiet", "--run-dir", str(self.directory(name))]
        assert _agentv(self.root, command) in {0, 1, 3}, command
        _set_clock(self.directory(name), started, order=_suite_order())


def _agentv(root: Path, arguments: Sequence[str]) -> int:
    """Run a command in a child of this process, which has imported agentv already. Returns the exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        os.chdir(root)
        sys.argv = ["agentv", *arguments]
        cli.main()
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 4)
    finally:
        os._exit(5)


def _suite_order() -> dict[str, int]:
    names = [topic.id for topic in SUPPORT] + [task.id for task in AGENT] + FLAKY
    return {name: n for n, name in enumerate(names)}


def _set_clock(directory: Path, started: datetime, *, order: Mapping[str, int]) -> None:
    """Give a finished run a fixed id, fixed times, and its rows in the order of the suite."""
    manifest = json.loads((directory / "run.json").read_text(encoding="utf-8"))
    old = manifest["run_id"]
    rows = sorted(
        _lines(directory / "results.jsonl"), key=lambda row: (row["target"], order[row["eval_id"]], row["attempt"])
    )
    clock = started
    for row in rows:
        row["started_at"] = _stamp(clock)
        for step, call in enumerate(call for said in row["output_messages"] for call in said.get("tool_calls", [])):
            call["timestamp"] = _stamp(clock + timedelta(milliseconds=200 + 230 * step))
        clock += timedelta(milliseconds=140)
    calls = _lines(path) if (path := directory / "judge_calls.jsonl").exists() else []
    calls.sort(key=lambda call: (order[call["eval_id"]], call["case_target"], call["case_attempt"], call["index"]))
    by_row: dict[tuple[str, str, str, int], list[dict[str, Any]]] = {}
    for call in calls:
        key = (call["suite"], call["eval_id"], call["case_target"], call["case_attempt"])
        by_row.setdefault(key, []).append(call)
    for row in rows:
        _set_durations(row, by_row.get(_key(row), []))
    _write_lines(path, [call for judged in by_row.values() for call in judged])
    _write_lines(directory / "results.jsonl", rows)
    manifest["started_at"], manifest["finished_at"] = _stamp(started), _stamp(clock)
    manifest["summary"]["duration_seconds"] = (clock - started).total_seconds()
    text = json.dumps(manifest, indent=2)
    for path, content in (
        (directory / "run.json", text),
        *((p, p.read_text(encoding="utf-8")) for p in directory.glob("*.jsonl")),
    ):
        path.write_text(content.replace(old, directory.name), encoding="utf-8")


def _set_durations(row: Mapping[str, Any], calls: Sequence[dict[str, Any]]) -> None:
    """The evaluators of a row start together when the answer is there; each makes one judge call after the other."""
    answered = datetime.fromisoformat(row["started_at"]) + timedelta(milliseconds=row["duration_ms"] or 0)
    for number, result in enumerate(_flat(row["evaluator_results"])):
        busy = 12.0 + 3 * number
        for call in (call for call in calls if call["evaluator"] == result["name"]):
            call["waited_ms"], call["duration_ms"] = 35.0 * (number % 3), 210.0 + 40 * ((number + call["index"]) % 7)
            call["started_at"] = _stamp(answered + timedelta(milliseconds=busy + call["waited_ms"]))
            busy += call["waited_ms"] + call["duration_ms"]
        result["duration_ms"] = busy


def _flat(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for result in results for one in (result, *_flat(result.get("evaluator_results") or []))]


def _key(row: Mapping[str, Any]) -> tuple[str, str, str, int]:
    return row["suite"], row["eval_id"], row["target"], row["attempt"]


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _write_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    # In the form that agentv writes: readers find lines by their first bytes.
    path.write_text("".join(f"{dump_line(line)}\n" for line in lines), encoding="utf-8")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    place = Path(sys.argv[1])
    shutil.rmtree(place, ignore_errors=True)
    print(make_bookshop(place))
