"""Parse the stdout of a judge script: one JSON object with a score. Log lines around it are ignored."""

from __future__ import annotations

import math
from typing import Any, Literal

from agentv.errors import ScoreError
from agentv.json_sizes import TooManyValuesError, check_values
from agentv.jsonio import MAX_DEPTH, JsonError, objects_on_lines
from agentv.results import Score, valid_score
from agentv.text import kind_of
from agentv.wire.checks import Check, CheckError, checks_of, failures_in, score_of

SHOWN = 200

LineKind = Literal["log", "own", "other", "invalid"]

EXAMPLE = 'Print one JSON object like {"score": 0.8, "reasoning": "..."} to stdout, and logs to stderr.'


class OutputError(ValueError):
    """The output is not a valid result. `kind` is a stable identifier, the others are sentences for the user.

    `message` says what is wrong and can quote the output; `advice` says what to print instead. `reported` is the error
    that the script itself reported, if any.
    """

    def __init__(self, kind: str, message: str, *, advice: str = "", reported: str = "") -> None:
        super().__init__(f"{message}\n{advice}" if advice else message)
        self.kind = kind
        self.message = message
        self.advice = advice
        self.reported = reported


def parse_output(stdout: bytes) -> Score:
    """Parse the result. Raises OutputError, which says what is wrong and what to print instead."""
    text = _text_of(stdout)
    objects = _objects(text)
    if len(objects) > 1:
        raise OutputError(
            "second_object",
            "the script printed more than one JSON object, so its result is ambiguous.",
            advice=EXAMPLE,
        )
    if not objects:
        raise OutputError("no_json", _no_object(text), advice=EXAMPLE)
    return _result(objects[0])


def parse_long_output(stdout: bytes) -> Score:
    """Like `parse_output`, for workers: with a limit on values, because the event loop decodes the result."""
    score = parse_output(stdout)
    try:
        check_values([score.hits, score.misses, score.details])
    except TooManyValuesError as error:
        advice = "Print a summary in `details`, and write the rest to a file."
        raise OutputError("too_many_values", f"the result is too large: {error}.", advice=advice) from None
    return score


def score_of_exit(stdout: bytes, code: int, stderr: str) -> Score | None:
    """The score of a script whose exit code is its result: 1 for 0, otherwise 0. What it printed is the reasoning.

    None if it printed something that looks like JSON, or if it failed and wrote to stderr, as a crash does.
    """
    text = _clean(_text_of(stdout).strip())
    try:
        looks_like_json = text.startswith(("{", "[")) or bool(_objects(text))
    except OutputError:
        looks_like_json = True
    if looks_like_json or (code != 0 and stderr):
        return None
    return Score(float(code == 0), reasoning=text or f"exit code {code}")


def line_kind(line: bytes, execution_id: str) -> LineKind:
    """What a line printed by a long-running script is: a log line, or a result of this or another execution.

    `invalid` is a line that is meant to be a result and is not valid, such as two objects on one line.
    """
    try:
        objects = _objects(_text_of(line))
    except OutputError:
        return "invalid"
    if len(objects) > 1:
        return "invalid"
    if not objects:
        return "log"
    return "own" if objects[0].get("execution_id", execution_id) == execution_id else "other"


def late_error(line: bytes) -> str | None:
    """What a line with the result of another execution says about an error after its end; None if it says nothing."""
    said = _objects(_text_of(line))[0].get("late_error")
    return _clean(said) if isinstance(said, str) else None


def explanation(stdout: bytes) -> str | None:
    """Why a failed script could not judge, if it printed one JSON object that says so; None otherwise.

    AgentV's SDKs exit with code 1 and print why: AgentV 2 in `misses` and `reasoning`, AgentV 4 in `assertions`,
    AgentV 5 in `checks` and `reason`.
    """
    try:
        objects = _objects(_text_of(stdout))
    except OutputError:
        return None
    if len(objects) != 1:
        return None
    (data,) = objects
    misses = data.get("misses")
    whole = (data.get("error"), data.get("reasoning"), data.get("reason"))
    parts = [*whole, *(misses if isinstance(misses, list) else ()), *failures_in(data)]
    said: list[str] = []
    for part in parts:
        text = " ".join(_clean(part).split()) if isinstance(part, str) else ""
        if text and not any(text in earlier for earlier in said):
            said.append(text)
    return "; ".join(said) or None


def _text_of(stdout: bytes) -> str:
    return stdout.decode("utf-8", "surrogateescape").removeprefix("\ufeff")


def _no_object(text: str) -> str:
    printed = " ".join(text.split())
    if not printed:
        return "the script printed nothing."
    return f"the script printed no JSON object on its own line, but: {_clean(printed)}"


def _objects(text: str) -> list[dict[str, Any]]:
    try:
        return objects_on_lines(text)
    except JsonError as error:
        if error.kind == "duplicate":
            message = f"the script's JSON object has a duplicate key {error.key!r}; print each key once."
            raise OutputError("duplicate_key", message) from None
        if error.kind == "digits":
            message = "the script's JSON object contains a number with thousands of digits."
            raise OutputError("invalid_type", message) from None
        message = "the script printed too many lines that look like JSON but are not."
        raise OutputError("no_json", message, advice=EXAMPLE) from None


def _result(data: dict[str, Any]) -> Score:
    score, checks = _judged(data)
    details = data.get("details")
    if details is not None and not isinstance(details, dict):
        raise OutputError("invalid_type", f"`details` must be an object, got {_kind(details)}.")
    _check_details(details)
    return Score(
        score=score,
        hits=(*_strings(data, "hits"), *(_clean(check.line) for check in checks if check.passed)),
        misses=(*_strings(data, "misses"), *(_clean(check.line) for check in checks if not check.passed)),
        reasoning=_string(data, "reasoning") or _reason(data),
        details=details,
        warnings=_warnings(data),
    )


def _judged(data: dict[str, Any]) -> tuple[float, tuple[Check, ...]]:
    """The score: the one printed, else what follows from the checks, else from `pass`; and the checks.

    Beside a `score`, `checks` and `assertions` of another shape are data of the script, and are ignored.
    """
    try:
        checks = checks_of(data)
        score = None if "score" in data else score_of(data, checks)
    except CheckError as error:
        if "score" in data:
            return _score(data), ()
        raise OutputError("invalid_type", f"{error}.") from None
    return _score(data) if score is None else score, checks or ()


def _score(data: dict[str, Any]) -> float:
    if "score" not in data and isinstance(data.get("error"), str):
        why = data["error"]
        raise OutputError("invalid_score", f"the script reported an error: {why}", reported=why)
    if "score" not in data:
        raise OutputError("invalid_score", "the script's JSON object has no `score`.", advice=EXAMPLE)
    try:
        return valid_score(data["score"])
    except ScoreError as error:
        raise OutputError("invalid_score", f"{error}.") from None


def _strings(data: dict[str, Any], key: str) -> tuple[str, ...]:
    value = data.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise OutputError("invalid_type", f"`{key}` must be a list of strings, got {_kind(value)}.")
    for at, item in enumerate(value):
        if not isinstance(item, str):
            raise OutputError("invalid_type", f"`{key}` must be a list of strings, but `{key}[{at}]` is {_kind(item)}.")
    return tuple(_clean(item) for item in value)


def _warnings(data: dict[str, Any]) -> tuple[str, ...]:
    """The warnings of agentv's own runner of checks. In the result of another script, they are not used."""
    value = data.get("warnings")
    return tuple(_clean(item) for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _string(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise OutputError("invalid_type", f"`{key}` must be a string, got {_kind(value)}.")
    return _clean(value)


def _reason(data: dict[str, Any]) -> str:
    reason = data.get("reason")
    return _clean(reason) if isinstance(reason, str) else ""


def _clean(text: str) -> str:
    """The text with `?` in place of invalid UTF-8 and lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def _check_details(details: Any) -> None:
    level, depth = [details], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise OutputError("invalid_type", f"`details` is nested more than {MAX_DEPTH} levels deep.")
        for node in level:
            if isinstance(node, float) and not math.isfinite(node):
                raise OutputError(
                    "invalid_type", "`details` contains a number that is not finite, which JSON does not allow."
                )
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]


def _kind(value: Any) -> str:
    """The value of a number, the JSON type of anything else."""
    return repr(value) if type(value) in (int, float) else kind_of(value)
