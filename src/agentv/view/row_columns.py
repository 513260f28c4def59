"""Rows of a run as columns: position i of every column is row i (`ColumnsData` in `static/types.js`).

Rows are checked only as far as columns need it, because validating every field of 100,000 rows would take four times
as long. Memory is small: numbers are in arrays, columns with few values are sparse, and no row is kept.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from math import isnan, nan
from typing import Any

from agentv.amounts import MOST_MS, MOST_TOKENS, MOST_USD
from agentv.jsonio import strict_line
from agentv.report.accumulate import why, without_output
from agentv.results import PassIf, Trials, Verdict, variant_of
from agentv.text import without_controls
from agentv.view.asked import AskedCases, one_line
from agentv.view.packed_columns import STRINGS, TextColumn

MOST_VALUES = 1_000
"""Different values of a metadata key. Keys with more are left out."""
MOST_KEYS = MOST_EVALUATORS = 100
MOST_TOOLS = 50
LONGEST_VALUE = 200
LONGEST_REASON = 160

OUTCOMES = {verdict.value: number for number, verdict in enumerate(Verdict)}
PASS, ERROR = 0, 3
_PASS_IFS = {rule.value for rule in PassIf}
_LARGEST = 2**53 - 1
_SAID = ("input_messages", "output_messages")
_KINDS = {
    "suite": "i",
    "target": "i",
    "attempt": "q",
    "score": "d",
    "outcome": "b",
    "threshold": "d",
    "trial": "i",
    "stage": "h",
    "duration_ms": "d",
    "started_at": "d",
    "cost_usd": "d",
    "judge_cost_usd": "d",
    "judge_calls": "q",
    "tokens": "d",
    "answer_length": "i",
    "answer": "i",
}


class NotARowError(ValueError):
    """A line is not a row of results."""


class Sparse:
    """A column with values in some rows only."""

    __slots__ = ("rows", "values")

    def __init__(self, kind: str) -> None:
        self.rows = array("i")
        self.values: array[Any] = array(kind)

    def add(self, row: int, value: float) -> None:
        self.rows.append(row)
        self.values.append(value)

    def dense(self, count: int, empty: float) -> array[Any]:
        column = array(self.values.typecode, (empty,)) * count
        for row, value in zip(self.rows, self.values, strict=True):
            column[row] = value
        return column


class Strings:
    """A column of strings, of which many are the same."""

    __slots__ = ("index", "numbers")

    def __init__(self) -> None:
        self.index = array("i")
        self.numbers: dict[str, int] = {}

    def add(self, text: str) -> None:
        self.index.append(self.numbers.setdefault(text, len(self.numbers)))

    def column(self) -> TextColumn:
        return TextColumn(self.index, list(self.numbers))


class Metadata:
    """The values of one metadata key."""

    __slots__ = ("index", "numbers")

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.index = Sparse("h")


class RowColumns:
    """The columns of the rows that were added. `default` are the trials of rows that do not have their own."""

    def __init__(self, asked: AskedCases, default: Trials) -> None:
        self.count = 0
        self.errors = self.judge_calls_made = 0
        self.spent_usd = self.judge_spent_usd = 0.0
        self.unpriced_judges = 0
        """Evaluator results with judge calls of unknown cost."""
        self.offset, self.length = array("q"), array("i")
        self._asked_cases = asked
        self._suites: dict[str, int] = {}
        self._targets: dict[str, int] = {}
        self._variants: list[tuple[str, str | None]] = []
        self._stages: dict[str, int] = {"target": 0, "evaluator": 1, "run": 2}
        self._trials: dict[tuple[int, str, bool], int] = {(default.count, default.pass_if.value, default.stop_early): 0}
        self._evaluators: dict[str, Sparse] = {}
        self._tools: dict[str, Sparse] = {}
        self._metadata: dict[str, Metadata] = {}
        self.metadata_left_out: dict[str, None] = {}
        self.evaluators_left_out = self.tools_left_out = False
        self._answers: dict[int, int] = {}
        self._keys: set[int] = set()
        self._cases: dict[tuple[int, str], int] = {}
        self._strings = {name: Strings() for name in STRINGS}
        self._asked = array("i")
        self._numbers: dict[str, array[Any]] = {name: array(kind) for name, kind in _KINDS.items()}
        self._append = {name: column.append for name, column in self._numbers.items()}

    def add(self, data: Any, offset: int, length: int) -> bool:
        """Add a row; False if there is one with the same key. NotARowError if the data are not a row."""
        if type(data) is not dict:
            raise NotARowError
        get = data.get
        eval_id, suite, target, attempt = get("eval_id"), get("suite"), get("target"), get("attempt")
        score, verdict, error, prompt = get("score"), get("verdict"), get("error"), get("prompt")
        if (
            not (type(eval_id) is str and type(suite) is str and type(target) is str and type(verdict) is str)
            or not (type(attempt) is int and 1 <= attempt <= _LARGEST)
            or not ((type(score) is float or type(score) is int) and 0 <= score <= 1)
            or verdict not in OUTCOMES
        ):
            raise NotARowError
        parts = (target, prompt if type(prompt) is str else None)
        target = variant_of(*parts)
        results = get("evaluator_results")
        results = results if type(results) is list else []
        stage, outcome, reason = -1, OUTCOMES[verdict], ""
        if error is not None:
            stage, outcome, reason = self._error(error)
        elif outcome or score < 1:
            reason = one_line(why(_Judged(data))[1], LONGEST_REASON)

        suite_number = self._suites.setdefault(suite, len(self._suites))
        target_number = self._targets.setdefault(target, len(self._targets))
        if target_number == len(self._variants):
            self._variants.append(parts)
        case = self._cases.setdefault((suite_number, eval_id), len(self._cases))
        key = attempt << 64 | case << 32 | target_number
        if key in self._keys:
            return False
        self._keys.add(key)
        append = self._append
        append["suite"](suite_number)
        append["target"](target_number)
        append["attempt"](attempt)
        append["score"](score)
        append["outcome"](outcome)
        append["stage"](stage)
        asked = self._asked_cases.find(suite, eval_id, get("case_sha256"))
        self._asked.append(asked)
        for name, text in (("eval_id", eval_id), ("question", self._asked_cases.question(asked)), ("reason", reason)):
            self._strings[name].add(text)
        self.offset.append(offset)
        self.length.append(length)
        self._add_facts(get, results)
        self.count += 1
        self.errors += error is not None
        return True

    def _add_facts(self, get: Callable[[str], Any], results: Sequence[Any]) -> None:
        """Add everything that a row has besides its key and its outcome. Nothing in here can fail."""
        row, append = self.count, self._append
        answer, metadata, messages = get("candidate_answer"), get("metadata"), get("output_messages")
        answer = answer if type(answer) is str else ""
        calls, judge_cost = self._judged(row, results)
        cost = _amount(get("cost_usd"), MOST_USD)
        if type(metadata) is dict and metadata:
            self._add_metadata(row, metadata)
        if type(messages) is list and messages:
            self._add_tools(row, messages)
        append["threshold"](_amount(get("threshold"), 1.0))
        append["trial"](self._trial_of(get("trials")))
        append["duration_ms"](round(_amount(get("duration_ms"), MOST_MS), 1))
        append["started_at"](_time(get("started_at")))
        append["cost_usd"](round(cost, 9))
        append["judge_cost_usd"](round(judge_cost, 9))
        append["judge_calls"](calls)
        append["tokens"](_tokens(get("token_usage")))
        append["answer_length"](len(answer))
        append["answer"](self._answers.setdefault(_answer_hash(answer, messages, get("turns")), len(self._answers)))
        self.judge_calls_made += calls
        self.spent_usd += 0.0 if isnan(cost) else cost
        self.judge_spent_usd += 0.0 if isnan(judge_cost) else judge_cost

    def _error(self, error: Any) -> tuple[int, int, str]:
        if type(error) is not dict:
            raise NotARowError
        stage, message = error.get("stage"), error.get("message")
        if type(stage) is not str or type(message) is not str:
            raise NotARowError
        number = self._stages.get(stage, 2)
        if len(self._stages) < MOST_KEYS:
            number = self._stages.setdefault(stage, len(self._stages))
        return number, ERROR, one_line(without_output(without_controls(message)), LONGEST_REASON)

    def _judged(self, row: int, results: Sequence[Any]) -> tuple[int, float]:
        """Add the scores of evaluators. Returns the number of judge calls and their cost, NaN if it is unknown."""
        for result in results:
            if type(result) is dict and result.get("error") is None:
                name, score = result.get("name"), result.get("score")
                if type(name) is not str or not ((type(score) is float or type(score) is int) and 0 <= score <= 1):
                    continue
                column = self._evaluators.get(name)
                if column is None:
                    if len(self._evaluators) >= MOST_EVALUATORS:
                        self.evaluators_left_out = True
                        continue
                    column = self._evaluators[name] = Sparse("d")
                if not column.rows or column.rows[-1] != row:
                    column.add(row, score)
        calls, known, cost = 0, False, 0.0
        for ledger in ledgers_of(results):
            made = ledger.get("call_count")
            if type(made) is int and 0 < made <= _LARGEST:
                calls = min(calls + made, _LARGEST)
                paid = _amount(ledger.get("cost_usd"), MOST_USD)
                if isnan(paid):
                    self.unpriced_judges += 1
                else:
                    known, cost = True, cost + paid
        return calls, cost if known or not calls else nan

    def _add_metadata(self, row: int, metadata: Mapping[str, Any]) -> None:
        for key, value in metadata.items():
            if value is None or key in self.metadata_left_out:
                continue
            column = self._metadata.get(key)
            if column is None:
                if len(self._metadata) >= MOST_KEYS or len(key) > LONGEST_VALUE:
                    if len(self.metadata_left_out) < MOST_KEYS:
                        self.metadata_left_out[key[:LONGEST_VALUE]] = None
                    continue
                column = self._metadata[key] = Metadata()
            text = value if type(value) is str else _text(value)
            number = column.numbers.get(text)
            if number is None:
                if len(column.numbers) >= MOST_VALUES or len(text) > LONGEST_VALUE:
                    del self._metadata[key]
                    self.metadata_left_out[key] = None
                    continue
                number = column.numbers[text] = len(column.numbers)
            column.index.add(row, number)

    def _add_tools(self, row: int, messages: Sequence[Any]) -> None:
        used: dict[str, int] = {}
        for message in messages:
            calls = message.get("tool_calls") if type(message) is dict else None
            for call in calls if type(calls) is list else ():
                name = call.get("tool") if type(call) is dict else None
                if type(name) is str:
                    used[name] = used.get(name, 0) + 1
        for name, count in used.items():
            column = self._tools.get(name)
            if column is None:
                if len(self._tools) >= MOST_TOOLS:
                    self.tools_left_out = True
                    continue
                column = self._tools[name] = Sparse("i")
            column.add(row, count)

    def _trial_of(self, trials: Any) -> int:
        if type(trials) is not dict:
            return 0
        count, rule, early = trials.get("count"), trials.get("pass_if"), trials.get("stop_early")
        if type(count) is not int or not 1 <= count <= _LARGEST or type(rule) is not str or rule not in _PASS_IFS:
            return 0
        return self._trials.setdefault((count, rule, early is True), len(self._trials))

    def case_place(self, row: int) -> tuple[int, int] | None:
        """Where the case of a row is in `cases.jsonl`: offset and length."""
        return self._asked_cases.place(self._asked[row])

    def columns(self) -> dict[str, Any]:
        """`ColumnsData` without `format` and `generation`. Columns may be the arrays of this object."""
        asked, count = self._asked_cases, self.count
        return {
            "start": 0,
            "count": count,
            "suites": list(self._suites),
            "targets": list(self._targets),
            "variants": [list(parts) for parts in self._variants],
            "evaluators": list(self._evaluators),
            "stages": list(self._stages),
            "tags": list(asked.tags),
            "tools": list(self._tools),
            "tag_sets": [list(tags) for tags in asked.tag_sets],
            "trials": [
                {"count": attempts, "pass_if": rule, "stop_early": early} for attempts, rule, early in self._trials
            ],
            "metadata": {key: list(column.numbers) for key, column in self._metadata.items()},
            "metadata_left_out": list(self.metadata_left_out),
            **{name: strings.column() for name, strings in self._strings.items()},
            **self._numbers,
            "tag_set": array("i", map(asked.tag_set, self._asked)),
            "evaluator_scores": [column.dense(count, nan) for column in self._evaluators.values()],
            "tool_calls": [column.dense(count, 0) for column in self._tools.values()],
            "metadata_index": {key: column.index.dense(count, -1) for key, column in self._metadata.items()},
        }


class _Judged:
    """A parsed row or evaluator result with the attributes that `why` needs, whatever types their values have."""

    __slots__ = ("_get",)

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._get = data.get

    @property
    def misses(self) -> list[str]:
        return _strings(self._get("misses"))

    @property
    def reasoning(self) -> str:
        return self._text("reasoning")

    @property
    def evaluator_results(self) -> list[_Judged]:
        results = self._get("evaluator_results")
        return [_Judged(result) for result in results if type(result) is dict] if type(results) is list else []

    @property
    def name(self) -> str:
        return self._text("name")

    @property
    def type(self) -> str:
        return self._text("type")

    @property
    def score(self) -> float:
        return self._number("score")

    @property
    def weight(self) -> float:
        return self._number("weight")

    @property
    def error(self) -> str | None:
        return None if self._get("error") is None else self._text("error")

    @property
    def failed_required(self) -> bool:
        return self._get("required") is True and self._get("verdict") != Verdict.PASS.value

    def _text(self, name: str) -> str:
        value = self._get(name)
        return value if type(value) is str else ""

    def _number(self, name: str) -> float:
        value = self._get(name)
        return value if (type(value) is float or type(value) is int) and -1e300 < value < 1e300 else 0.0


def _strings(value: Any) -> list[str]:
    return [item for item in value if type(item) is str] if type(value) is list else []


def ledgers_of(results: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """The judge usage of each evaluator, including composite members. Without recursion: they may be nested deeply."""
    waiting = list(results)
    while waiting:
        result = waiting.pop()
        if type(result) is dict:
            for name in ("judge_proxy", "judge"):
                if type(ledger := result.get(name)) is dict:
                    yield ledger
            if type(members := result.get("evaluator_results")) is list:
                waiting += members


def _amount(value: Any, most: float) -> float:
    """The number if it is from 0 to `most`, else NaN: it is unknown."""
    return value if (type(value) is float or type(value) is int) and 0 <= value <= most else nan


def _tokens(usage: Any) -> float:
    if type(usage) is not dict:
        return nan
    total = 0.0
    for name in ("input", "output", "cached"):
        count = usage.get(name)
        if count is not None:
            total += _amount(count, MOST_TOKENS)
    return total


def _answer_hash(answer: str, messages: Any, turns: Any) -> int:
    """The same for the same answer. Agents that call other tools have not answered the same, and in a conversation,
    everything that was said counts."""
    if type(turns) is list and turns:
        said = [[turn.get(name) for name in _SAID] for turn in turns if type(turn) is dict]
        with suppress(ValueError, RecursionError):
            return hash(json.dumps(said, sort_keys=True))
    if type(messages) is list and any(type(message) is dict and message.get("tool_calls") for message in messages):
        with suppress(ValueError, RecursionError):
            return hash((answer, json.dumps(messages, sort_keys=True)))
    return hash(answer)


def _time(value: Any) -> float:
    """An ISO time as milliseconds since 1970, NaN if it is not a time."""
    if type(value) is str and value:
        with suppress(ValueError, OverflowError):
            time = datetime.fromisoformat(value)
            return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * 1000 // 1
    return nan


def _text(value: Any) -> str:
    """A metadata value that is not a string."""
    if value is True or value is False:
        return "true" if value else "false"
    try:
        return strict_line(value) or json.dumps(value)
    except (ValueError, RecursionError):
        return "..."
