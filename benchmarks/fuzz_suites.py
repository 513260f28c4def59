"""Load broken suites repeatedly and count every outcome that is neither a suite nor a SuiteError.

    python -m benchmarks.fuzz_suites --examples 50000 [--seed S] [--keep DIR]

Suites are made by mutating valid ones: bytes, lines, values, keys, structure, unusual YAML. Exits with code 1 if any
suite caused a traceback or took longer than `--slow` seconds.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from agentv.errors import SuiteError
from agentv.evaluators.reader import EvaluatorReader
from agentv.suite.loader import load_suite

YAML = """\
$schema: agentv-eval-v2
description: Geography
dataset: geo
x-base: &base {threshold: 0.5, metadata: {topic: geo, level: 1e3}}
x-judges: &judges
  - {name: has, type: contains, value: [Paris, paris], match: any}
  - name: shape
    type: json_schema
    schema: {type: object, properties: {a: {type: integer}}}
execution:
  target: scripted
  judge_target: none
  threshold: 0.8
  allow_outside_files: false
  evaluators:
    - {name: pattern, type: regex, pattern: "P[a-z]+", flags: i, weight: 2}
    - {name: near, type: similarity, value: Paris, metric: levenshtein, required: true}
evalcases:
  - id: capital-of-france
    input: What is the capital of France?
    expected_outcome: Paris
    evaluators+: *judges
  - <<: *base
    id: 010
    input_messages:
      - {role: system, content: Be brief.}
      - role: user
        content:
          - {type: text, value: Read this}
          - {type: file, value: note.md}
      - role: assistant
        tool_calls:
          - {tool: search, input: {q: [1, 2.50, ~, true]}, output: "\\u00e9 \\n", id: 1}
    expected_messages: [{role: assistant, content: {city: Paris}}]
    execution: {target: other, evaluators: [{type: is_json}]}
  - file: cases.jsonl
  - id: 'yes'
    input: |
      several
      lines
    evaluators:
      - type: equals
        value: >-
          folded
          text
      - {type: starts_with, value: "x", negate: true}
      - {type: code_judge, script: [python, judge.py, -x], judge: {max_calls: 3}, env: [HOME], top_k: 5}
"""
CASES = "\n".join(
    json.dumps(case)
    for case in (
        {"id": "j1", "input": "x", "evaluators": [{"type": "ends_with", "value": "\u00e9"}]},
        {"id": 2, "input": [{"role": "user", "content": "x"}], "metadata": {"a": [1, {"b": None}]}, "threshold": 1},
        {"id": "\U0001f600", "input": "x", "reference_answer": "y", "execution": {"evaluators": [{"type": "is_json"}]}},
    )
)
WORDS = """
0 -1 1.5 1e999 .nan .inf -.inf 0x1F 0o7 ~ null true TRUE yes '' "" [] {} [[]] [{}] {a:1} {a:[{}]} *base *judges *absent
&base &a * & ! !!str !!int !!python/name:x !!map !!set !x |- > | ? : - , [ ] { } # % @ ` <<: --- ... id input evaluators
evalcases type name content role file value contains code_judge llm_judge script judge ../../../etc/passwd /dev/zero
cases.jsonl \\ud800 "\\x" ' "
"""
BITS = [
    *WORDS.split(),
    *("\t", "\0", "\x1b", "\ufeff", "\u2028", "\x85", "\ud7ff", "\U0001f600", "\r\n", "\r", " " * 30, "\u00e9" * 50),
    *("a" * 2000, "9" * 5000, "[" * 300, "{a: " * 150, "{a: 1}", "<<: *base", "<<: [*base, *base]", "? [a]\n: b"),
    "!!python/object/apply:os.system [exit 3]",
]
WORD = re.compile(r"[\w.$+-]+")


def mutated(text: str, random: random.Random) -> bytes:
    """The text after one to six mutations."""
    data = text
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        data = random.choice(MUTATIONS)(data, random)
    raw = data.encode("utf-8", "surrogatepass")
    if random.random() < 0.1 and raw:
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(raw))
            raw = raw[:at] + random.randbytes(random.randint(0, 3)) + raw[at + random.randint(0, 3) :]
    if random.random() < 0.01:
        raw = data.encode("utf-16", "surrogatepass")
    return raw


def _insert(text: str, random: random.Random) -> str:
    at = random.randint(0, len(text))
    return text[:at] + random.choice(BITS) + text[at:]


def _cut(text: str, random: random.Random) -> str:
    at = random.randint(0, len(text))
    return text[:at] + text[at + random.randint(1, 40) :]


def _replace_word(text: str, random: random.Random) -> str:
    words = list(WORD.finditer(text))
    if not words:
        return text
    word = random.choice(words)
    return text[: word.start()] + random.choice(BITS) + text[word.end() :]


def _misspell(text: str, random: random.Random) -> str:
    words = list(WORD.finditer(text))
    if not words:
        return text
    word = random.choice(words)
    letters = list(word.group())
    random.shuffle(letters)
    return text[: word.start()] + "".join(letters) + text[word.end() :]


def _move_line(text: str, random: random.Random) -> str:
    lines = text.split("\n")
    line = lines.pop(random.randrange(len(lines)))
    for _ in range(random.choice((0, 1, 1, 2))):
        lines.insert(random.randint(0, len(lines)), line)
    return "\n".join(lines)


def _indent(text: str, random: random.Random) -> str:
    lines = text.split("\n")
    at = random.randrange(len(lines))
    lines[at] = random.choice((" ", "  ", "\t", "- ")) + lines[at] if random.random() < 0.5 else lines[at].lstrip()
    return "\n".join(lines)


def _swap(text: str, random: random.Random) -> str:
    words = list(WORD.finditer(text))
    if len(words) < 2:
        return text
    first, second = sorted(random.sample(words, 2), key=lambda word: word.start())
    middle = text[first.end() : second.start()]
    return text[: first.start()] + second.group() + middle + first.group() + text[second.end() :]


MUTATIONS: list[Callable[[str, random.Random], str]] = [
    _insert,
    _cut,
    _replace_word,
    _replace_word,
    _misspell,
    _move_line,
    _indent,
    _swap,
]


@dataclass
class Tally:
    """The outcomes so far."""

    outcomes: Counter[str] = field(default_factory=Counter)
    tracebacks: list[str] = field(default_factory=list)
    slowest: float = 0.0


def prepare(folder: Path) -> None:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / "note.md").write_text("a note")


def try_one(folder: Path, suite: bytes, cases: bytes, name: str = "suite.yaml") -> str:
    """The outcome of loading: `loaded`, `refused`, or the traceback of an unexpected exception."""
    (folder / "cases.jsonl").write_bytes(cases)
    (folder / name).write_bytes(suite)
    try:
        for case in load_suite(folder / name, EvaluatorReader()).cases():
            json.dumps([case.metadata, [message.to_dict() for message in case.input_messages]], allow_nan=False)
    except SuiteError as error:
        return (
            "refused" if error.problems and all(problem.message for problem in error.problems) else "without a problem"
        )
    except Exception:
        return traceback.format_exc()
    return "loaded"


DIALECT = """\
name: shop
tags: {experiment: first}
metadata: {team: [a], level: {x: 1}}
governance: {owner: me}
execution: {targets: [one, {name: two}], workers: 2, trials: {count: 2, strategy: mean}, budget_usd: 1, threshold: 0.5}
providers: [one, {id: two, label: three}]
default_test: {vars: {word: x}, assert: [{type: contains, value: "{{ word }}"}], options: {rubric_prompt: p}}
evaluate_options: {max_concurrency: 2, repeat: {count: 2, strategy: pass_any}}
input: [{role: system, content: "Speak {{ word }}."}]
input_files: [note.md]
assertions: [{type: is-json}, Of the suite]
tests:
  - id: a
    vars: {word: y, deep: {list: [1]}}
    criteria: "Is {{ word }} in ${{ HOME }}."
    input: {plain: "{{ deep.list }}"}
    expected_output: [{role: assistant, content: [c], tool_calls: [{tool: t, input: {}, duration_ms: 3}]}]
    execution: {skip_defaults: false, targets: [one]}
    assertions:
      - One
      - {type: not-contains-any, value: [a, b], required: 0.5}
      - {type: regex, value: "a$", flags: giy}
      - {type: code-grader, command: "x | y", target: {max_calls: 2}, config: {a: 1}, deep: 1}
      - {type: rubrics, criteria: [{outcome: b, score_ranges: {0: x, 5: y}}, text]}
      - {type: composite, assertions: [{name: a, type: is-json}], aggregator: {type: threshold, threshold: 0.5}}
      - {type: tool-trajectory, mode: exact, expected: [{tool: a, args: {}, args_match: [a.b]}]}
      - {type: skill-trigger, skill: a, should_trigger: false}
      - {type: "trajectory:tool-used", value: [a, {name: b, min: 1, max: 2}]}
      - {type: "trajectory:tool-sequence", value: {steps: [a], mode: exact}}
      - {include: nothing}
  - id: b
    vars: {input: x, expected_output: 3}
    assert: [{type: assert-set, metric: m, threshold: 0.5, assert: [Two]}, {type: llm-rubric, value: {outcome: x}}]
"""
"""A suite in the spelling of AgentV 4 and 5."""


def one_round(folder: Path, seed: int) -> str:
    """Make one example; the same seed gives the same example."""
    chosen = random.Random(seed)
    suite, cases, name = YAML.encode(), CASES.encode(), "suite.yaml"
    kind = chosen.random()
    if kind < 0.45:
        suite = mutated(YAML, chosen)
    elif kind < 0.65:
        suite = mutated(DIALECT, chosen)
    elif kind < 0.9:
        cases = mutated(CASES, chosen)
    else:
        suite, name = mutated(CASES, chosen), "suite.jsonl"
    return try_one(folder, suite, cases, name)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--examples", type=int, default=50_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--slow", type=float, default=2.0, help="maximum seconds per example")
    options.add_argument("--keep", type=Path, help="directory for files that caused a traceback")
    chosen = options.parse_args()
    tally = Tally()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        if try_one(folder, YAML.encode(), CASES.encode()) != "loaded":
            sys.exit("the valid suite that is mutated does not load")
        for seed in range(chosen.seed, chosen.seed + chosen.examples):
            before = time.perf_counter()
            outcome = one_round(folder, seed)
            tally.slowest = max(tally.slowest, time.perf_counter() - before)
            if outcome in ("loaded", "refused"):
                tally.outcomes[outcome] += 1
                continue
            tally.outcomes["traceback"] += 1
            tally.tracebacks.append(f"seed {seed}: {outcome}")
            if chosen.keep:
                chosen.keep.mkdir(parents=True, exist_ok=True)
                for file in folder.glob("*[a-z].*"):
                    (chosen.keep / f"{seed}-{file.name}").write_bytes(file.read_bytes())
    for text in tally.tracebacks[:5]:
        print(text)
    print(
        f"{chosen.examples:,} examples in {time.perf_counter() - started:.0f} s: {tally.outcomes['loaded']:,} loaded, "
        f"{tally.outcomes['refused']:,} rejected with a message, {len(tally.tracebacks)} tracebacks; "
        f"the slowest took {tally.slowest:.2f} s"
    )
    return 1 if tally.tracebacks or tally.slowest > chosen.slow else 0


if __name__ == "__main__":
    sys.exit(main())
