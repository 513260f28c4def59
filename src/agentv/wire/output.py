"""What a judge script prints on stdout: one JSON object with a score, lines of log around it tolerated."""

from __future__ import annotations

import math
from typing import Any

from agentv.jsonio import MAX_DEPTH, JsonError, objects_on_lines
from agentv.results import Score
from agentv.text import kind_of

SHOWN = 200

EXAMPLE = 'Print one JSON object like {"score": 0.8, "reasoning": "..."} to stdout, and logs to stderr.'


class OutputError(ValueError):
    """The output is no result. `kind` is a word for machines, the message a sentence for people."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def parse_output(stdout: bytes) -> Score:
    """The one result in the output; a score outside 0 to 1 is clamped, with a warning.

    OutputError says what is wrong and what to print instead.
    """
    text = _text_of(stdout)
    found = _objects(text)
    if len(found) > 1:
        raise OutputError(
            "second_object",
            "the script printed more than one JSON object; which is the result cannot be told. " + EXAMPLE,
        )
    if not found:
        raise OutputError("no_json", _nothing_found(text))
    return _result(found[0])


def is_result_line(line: bytes, execution_id: str) -> bool:
    """Whether a line of a script that serves many executions is a result, right or wrong, and not another's."""
    try:
        found = _objects(_text_of(line))
    except OutputError:
        return True
    return bool(found) and (len(found) > 1 or found[0].get("execution_id", execution_id) == execution_id)


def _text_of(stdout: bytes) -> str:
    return stdout.decode("utf-8", "surrogateescape").removeprefix("\ufeff")


def _nothing_found(text: str) -> str:
    shown = " ".join(text.split())
    if not shown:
        return f"the script printed nothing. {EXAMPLE}"
    return f"{EXAMPLE} The script printed no object on a line of its own, but: {_clean(shown)}"


def _objects(text: str) -> list[dict[str, Any]]:
    try:
        return objects_on_lines(text)
    except JsonError as error:
        if error.kind == "duplicate":
            message = f"the script's JSON object has the key {error.key!r} twice; print each key once."
            raise OutputError("duplicate_key", message) from None
        if error.kind == "digits":
            message = "the script's JSON object holds a number with thousands of digits."
            raise OutputError("invalid_type", message) from None
        message = f"the output is full of lines that look like JSON and are not. {EXAMPLE}"
        raise OutputError("no_json", message) from None


def _result(data: dict[str, Any]) -> Score:
    score = _score(data)
    clamped = min(1.0, max(0.0, score))
    warnings = (f"the script's score {score:g} is outside 0 to 1; recorded as {clamped:g}",) if clamped != score else ()
    details = data.get("details")
    if details is not None and not isinstance(details, dict):
        raise OutputError("invalid_type", f"`details` must be an object, not {_kind(details)}.")
    _check_details(details)
    return Score(
        score=clamped,
        hits=_texts(data, "hits"),
        misses=_texts(data, "misses"),
        reasoning=_text(data, "reasoning"),
        details=details,
        warnings=warnings,
    )


def _score(data: dict[str, Any]) -> float:
    if "score" not in data and isinstance(data.get("error"), str):
        raise OutputError("invalid_score", f"the script could not judge: {data['error']}")
    if "score" not in data:
        raise OutputError("invalid_score", f"the script's JSON object has no `score`. {EXAMPLE}")
    score = data["score"]
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise OutputError("invalid_score", f"`score` must be a number from 0 to 1, not {_kind(score)}.")
    try:
        number = float(score)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise OutputError("invalid_score", f"`score` must be a finite number from 0 to 1, not {number}.")
    return number


def _texts(data: dict[str, Any], key: str) -> tuple[str, ...]:
    value = data.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise OutputError("invalid_type", f"`{key}` must be a list of texts, not {_kind(value)}.")
    for at, item in enumerate(value):
        if not isinstance(item, str):
            raise OutputError("invalid_type", f"`{key}` must be a list of texts, but `{key}[{at}]` is {_kind(item)}.")
    return tuple(_clean(item) for item in value)


def _text(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise OutputError("invalid_type", f"`{key}` must be text, not {_kind(value)}.")
    return _clean(value)


def _clean(text: str) -> str:
    """Bytes that were not UTF-8, and halves of surrogate pairs, shown as what they are: unreadable."""
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
                    "invalid_type", "`details` holds a number that is not finite; JSON has no such numbers."
                )
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]


def _kind(value: Any) -> str:
    """A number itself, the kind of anything else."""
    return repr(value) if type(value) in (int, float) else kind_of(value)
