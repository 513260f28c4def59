"""`python -m benchmarks.metrics_peers`: the ready metrics and DeepEval's metrics, on the same cases and the same judge.

The judge is a table: both tools get the same decisions, each in the form that it asks for. So a difference between two
scores is a difference between their definitions, not between prompts or models. DeepEval is installed temporarily, or
`--venv` names a virtual environment that has it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentv.metrics import script_of
from agentv.testing import run_judge, with_judge_proxy
from agentv.wire.judge import JudgeCall
from benchmarks.measure import ROOT
from benchmarks.peers.running import QUIET

PROGRAM = Path(__file__).parent / "peers" / "programs" / "deepeval_metrics.py"
PAGE = ROOT / "docs" / "metrics.md"
BEGIN, END = "<!-- metrics peers: begin -->", "<!-- metrics peers: end -->"
SECONDS = 600
QUESTION, ANSWER, REFERENCE = "How long can I return a book?", "You have 30 days. It is free.", "30 days, unread."
PASSAGES = ("A book can be returned within 30 days.", "Readings are on Fridays.", "We buy used books.")

AS_PEER = {
    **dict.fromkeys(("supported", "relevant", "useful", "agrees", "toxic", "biased", "yes"), "yes"),
    **dict.fromkeys(("not_mentioned", "supporting"), "borderline"),
}
"""Our verdicts in DeepEval's words; all others are "no"."""
PEERS = {
    "faithfulness": "FaithfulnessMetric",
    "answer_relevancy": "AnswerRelevancyMetric",
    "contextual_precision": "ContextualPrecisionMetric",
    "contextual_recall": "ContextualRecallMetric",
    "contextual_relevancy": "ContextualRelevancyMetric",
    "hallucination": "HallucinationMetric",
    "summarization_coverage": "SummarizationMetric",
    "tool_correctness": "ToolCorrectnessMetric",
    "task_completion": "TaskCompletionMetric",
    "json_correctness": "JsonCorrectnessMetric",
    "toxicity": "ToxicityMetric",
    "bias": "BiasMetric",
}


class Case(NamedTuple):
    """One case: the metric, the decisions of the judge, and what else differs from the common case."""

    metric: str
    about: str
    listed: Sequence[str] = ()
    """The claims, statements, opinions, goals or questions."""
    words: Sequence[str] = ()
    """A verdict for each of them, or for each passage."""
    config: dict[str, Any] = {}  # noqa: RUF012 - never changed
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    """Options of DeepEval's metric."""
    answer: str = ANSWER
    more: dict[str, Any] = {}  # noqa: RUF012 - never changed
    why: str = ""
    """Why the scores differ by definition."""


def _words(text: str) -> list[str]:
    return text.split()


THREE, TWO = ("a", "b", "c"), ("a", "b")
UNMENTIONED = "DeepEval counts claims that the passages do not mention"
CASES = (
    Case("faithfulness", "1 supported, 1 contradicted, 1 not mentioned", THREE,
         _words("supported contradicted not_mentioned"), options={"penalize_ambiguous_claims": True}),
    Case("faithfulness", "the same, DeepEval's default", THREE, _words("supported contradicted not_mentioned"),
         why=f"{UNMENTIONED}; `allow_unmentioned: true` does, too"),
    Case("faithfulness", "the same, `allow_unmentioned: true`", THREE, _words("supported contradicted not_mentioned"),
         {"allow_unmentioned": True}),
    Case("faithfulness", "no claims"),
    Case("faithfulness", "no passages", ("a",), ("not_mentioned",), more={"passages": ()},
         why="DeepEval compares the claims with an empty context"),
    Case("answer_relevancy", "1 relevant, 1 supporting, 1 irrelevant", THREE,
         _words("relevant supporting irrelevant")),
    Case("answer_relevancy", "no statements", why="an answer that says nothing is not relevant"),
    Case("contextual_precision", "ranks 1 and 3 are useful", words=_words("useful not_useful useful")),
    Case("contextual_precision", "ranks 2 and 3 are useful", words=_words("not_useful useful useful")),
    Case("contextual_precision", "nothing is useful", words=_words("not_useful not_useful not_useful")),
    Case("contextual_recall", "1 of 2 statements", TWO, _words("supported not_supported")),
    Case("contextual_relevancy", "2 of 5 statements, in 3 passages",
         words=("relevant irrelevant", "relevant irrelevant", "irrelevant")),
    Case("contextual_relevancy", "the passages state nothing", words=("", "", "")),
    Case("hallucination", "1 of 3 passages is contradicted", words=_words("agrees contradicts agrees")),
    Case("summarization_coverage", "1 of 2 questions", THREE, ("yes yes no", "yes no yes"),
         options={"n": 3}, more={"claims": "supported"}),
    Case("summarization_coverage", "all questions, but 1 of 3 claims is wrong", THREE, ("yes yes yes", "yes yes yes"),
         options={"n": 3}, more={"claims": "supported contradicted supported"},
         why="DeepEval's score is the minimum of coverage and alignment; for alignment, add `faithfulness`"),
    Case("summarization_coverage", "the source answers nothing", TWO, ("no no", "yes yes"), options={"n": 2},
         more={"claims": "supported"}, why="questions that do not fit the source are an error"),
    Case("tool_correctness", "1 of 2 tools", more={"made": "search", "wanted": "search book"}),
    Case("tool_correctness", "both, in another order", more={"made": "book search", "wanted": "search book"}),
    Case("tool_correctness", "the same, `mode: in_order`", config={"mode": "in_order"},
         options={"should_consider_ordering": True}, more={"made": "book search", "wanted": "search book"}),
    Case("tool_correctness", "one call too many, `mode: exact`", config={"mode": "exact"},
         options={"should_exact_match": True}, more={"made": "search book book", "wanted": "search book"}),
    Case("tool_correctness", "the same call twice", more={"made": "search search", "wanted": "search search"},
         why="DeepEval takes equal calls for one"),
    Case("tool_correctness", "1 of 2 arguments", config={"arguments": True}, options={"arguments": True},
         more={"made": "search", "wanted": "search", "given": {"q": "x", "n": 1}, "asked": {"q": "x", "n": 2}},
         why="a call with a wrong argument is not the expected call"),
    Case("task_completion", "2 goals achieved, 1 partly, 1 not; the judge would say 0.6", ("a", "b", "c", "d"),
         _words("achieved achieved partly not_achieved"), more={"number": 0.6},
         why="DeepEval asks for one number; ours counts goals"),
    Case("json_correctness", "valid", answer='{"days": 30}'),
    Case("json_correctness", "a missing key", answer="{}"),
    Case("json_correctness", "not JSON", answer="30 days"),
    Case("json_correctness", "a number as a string", answer='{"days": "30"}',
         why="pydantic converts the string; JSON Schema does not"),
    Case("toxicity", "1 of 2 opinions is toxic", TWO, _words("toxic not_toxic")),
    Case("toxicity", "no opinions"),
    Case("bias", "2 of 3 opinions are biased", THREE, _words("biased biased not_biased")),
    Case("bias", "no opinions"),
    Case("bias", "a reply that is not JSON", more={"text": "I would say so."}),
)  # fmt: skip
PROPERTIES = {"days": "integer"}
SCHEMA = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}


# -- ours


def payload(case: Case) -> dict[str, Any]:
    fields: dict[str, Any] = {"question": QUESTION, "candidate_answer": case.answer, "reference_answer": REFERENCE}
    fields["metadata"] = {"retrieval_context": list(case.more.get("passages", PASSAGES))}
    config = dict(case.config)
    if case.metric == "json_correctness":
        config["schema"] = SCHEMA
    if case.metric == "tool_correctness":
        for key, name, given in (("output_messages", "made", "given"), ("expected_messages", "wanted", "asked")):
            calls = [{"tool": tool, "input": case.more.get(given, {})} for tool in case.more[name].split()]
            fields[key] = [{"role": "assistant", "tool_calls": calls}]
    return {**fields, "config": config}


def reply(case: Case, call: JudgeCall) -> str:
    """The decisions in the form that our prompts ask for, which the schema in the prompt shows."""
    prompt = str(call.question)
    if "text" in case.more:
        return str(case.more["text"])
    if case.metric == "contextual_recall":
        judged = zip(case.listed, case.words, strict=True)
        entries = [{"statement": text, "reason": "r", "passage": int(word == "supported")} for text, word in judged]
        return json.dumps({"statements": entries})
    if case.metric == "contextual_relevancy":
        words = next(words for text, words in zip(PASSAGES, case.words, strict=True) if text in prompt).split()
        return json.dumps({"statements": [{"statement": "s", "reason": "r", "verdict": word} for word in words]})
    keys = ("claims", "statements", "opinions", "goals", "questions")
    key = next((key for key in keys if f'Reply with {{"{key}"' in prompt), None)
    if key is not None:
        return json.dumps({key: list(case.listed)})
    words = list(case.words)
    if case.metric == "summarization_coverage":
        words = case.words[0 if QUESTION in prompt else 1].split()
    verdicts = [{"number": number, "reason": "r", "verdict": word} for number, word in enumerate(words, 1)]
    return json.dumps({"verdicts": verdicts})


def ours(case: Case) -> dict[str, Any]:
    with with_judge_proxy(lambda call: reply(case, call)) as judge:
        run = run_judge(script_of(case.metric), payload(case), judge=judge)
    outcome = {"score": run.score} if run.error is None else {"error": run.error}
    return {**outcome, "calls": len(judge.calls)}


# -- DeepEval


def for_peer(case: Case) -> dict[str, Any]:
    fields: dict[str, Any] = {"input": QUESTION, "actual_output": case.answer, "expected_output": REFERENCE}
    options, passages = dict(case.options), list(case.more.get("passages", PASSAGES))
    fields |= {"retrieval_context": passages, "context": passages}
    verdicts = [AS_PEER.get(word, "no") for word in case.words]
    judgments: dict[str, Any] = {key: list(case.listed) for key in ("claims", "statements", "opinions", "questions")}
    judgments |= {"truths": list(PASSAGES), "verdicts": verdicts, **case.more}
    if case.metric == "contextual_relevancy":
        words = [[AS_PEER.get(word, "no") for word in words.split()] for words in case.words]
        judgments["passages"] = dict(zip(PASSAGES, words, strict=True))
    if case.metric == "summarization_coverage":
        source, summary = (words.split() for words in case.words)
        claims = case.more["claims"].split()
        judgments |= {"source": source, "summary": summary, "source_text": QUESTION, "claims": claims}
        judgments["verdicts"] = [AS_PEER.get(word, "no") for word in claims]
    if case.metric == "json_correctness":
        options["properties"] = PROPERTIES
    if case.metric == "tool_correctness":
        for key, name, given in (("tools_called", "made", "given"), ("expected_tools", "wanted", "asked")):
            fields[key] = [(tool, case.more.get(given, {})) for tool in case.more[name].split()]
    return {"metric": PEERS[case.metric], "options": options, "test_case": fields, "judgments": judgments}


def peers(python: Path, cases: Sequence[Case]) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(for_peer(case)) + "\n" for case in cases)
    with tempfile.TemporaryDirectory(prefix="agentv-metrics-home-") as home:
        environment = {"PATH": os.environ["PATH"], "HOME": home, **QUIET, "DEEPEVAL_TELEMETRY_OPT_OUT": "YES"}
        done = subprocess.run(
            [str(python), str(PROGRAM)], input=lines, env=environment, cwd=home, capture_output=True, text=True,
            timeout=SECONDS, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"DeepEval did not run: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def version(python: Path) -> str:
    code = "import importlib.metadata as m; print(m.version('deepeval'))"
    return subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


# -- the table


def shown(outcome: dict[str, Any]) -> str:
    return "error" if "error" in outcome else f"{outcome['score']:.4g}"


def table(cases: Sequence[Case], own: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]], name: str) -> str:
    lines = [f"| metric | case | agentv | {name} | calls | |", "| --- | --- | --- | --- | --- | --- |"]
    for case, one, two in zip(cases, own, other, strict=True):
        same = "equal" if shown(one) == shown(two) else case.why or "**different**"
        calls = f"{one['calls']} / {two['calls']}"
        lines.append(f"| `{case.metric}` | {case.about} | {shown(one)} | {shown(two)} | {calls} | {same} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metrics_peers", description="Ready metrics and peers.")
    parser.add_argument("--venv", type=Path, metavar="DIR", help="virtual environment with deepeval")
    parser.add_argument("--write", action="store_true", help="write the table to docs/metrics.md")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="agentv-metrics-peers-") as scratch:
        place = (args.venv or Path(scratch)).absolute()
        if args.venv is None:
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
            subprocess.run([str(place / "bin" / "pip"), "install", "--quiet", "deepeval"], check=True)
        python = place / "bin" / "python"
        own, other = [ours(case) for case in CASES], peers(python, CASES)
        text = table(CASES, own, other, f"DeepEval {version(python)}")
    print(text)
    unexplained = [
        f"{case.metric}, {case.about}: {one} and {two}"
        for case, one, two in zip(CASES, own, other, strict=True)
        if (shown(one) == shown(two)) == bool(case.why)
    ]
    for line in unexplained:
        print(f"not as expected: {line}", file=sys.stderr)
    if args.write:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
