"""What metrics measure: the question, the answer, the expected answer, the retrieved passages and the tool calls.

Each function returns what the case has. If it is missing, `MetricError` names the field to set.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .values import CodeJudgeInput

CONTEXT_PLACES = ("metadata.retrieval_context", "metadata.context", "vars.context", "tools")
"""Where the retrieved passages are looked up without the option `context`. The first place with passages wins."""
_TEXT_KEYS = ("text", "content", "page_content", "passage", "chunk")


class MetricError(Exception):
    """The metric cannot be computed. The message names the field or option to set."""


def fail(problem: str) -> NoReturn:
    """Raise MetricError."""
    raise MetricError(problem)


def answer_of(case: CodeJudgeInput) -> str:
    """The answer. Raises MetricError if it is empty: an empty answer contains nothing wrong, and would score 1."""
    answer = case.candidate_answer or ""
    return answer if answer.strip() else fail("the answer is empty, so there is nothing to measure; check the target")


def question_of(case: CodeJudgeInput) -> str:
    return case.question or fail("the case has no question; set `input`")


def reference_of(case: CodeJudgeInput) -> str:
    """The expected answer."""
    return (
        case.reference_answer
        or case.expected_outcome
        or fail("the case has no expected answer; set `reference_answer`, `expected_messages` or `expected_outcome`")
    )


def context_of(case: CodeJudgeInput) -> list[str]:
    """The retrieved passages, best first: those at the option `context`, or at the first of `CONTEXT_PLACES` that has
    any."""
    place = (case.config or {}).get("context")
    for path in CONTEXT_PLACES if place is None else (place,):
        passages = [text for text in map(text_of, _as_list(value_at(case, path))) if text.strip()]
        if passages:
            return passages
    if place is not None:
        return fail(f"no retrieved passages at `{place}`; set it in the case, or change the option `context`")
    return fail(
        "no retrieved passages; set `metadata.retrieval_context` of the case to a list of strings, or the option "
        f"`context` to where they are (looked at: {', '.join(CONTEXT_PLACES)})"
    )


def value_at(case: CodeJudgeInput, path: str) -> Any:
    """The value at a path into the payload, such as `metadata.documents`, or None. `tools` are all tool outputs, and
    `tools.search` those of one tool."""
    first, _, rest = path.partition(".")
    if first == "tools":
        outputs = [_as_list(call.get("output")) for call in tool_calls(case) if rest in ("", call.get("tool"))]
        return [item for output in outputs for item in output]
    value: Any = case.raw.get(first)
    for key in rest.split(".") if rest else ():
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def text_of(value: Any) -> str:
    """A passage as text: a string, the text of an object like `{text: ...}`, or else JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        text = next((value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)), None)
        if text is not None:
            return str(text)
    return json.dumps(value, ensure_ascii=False)


def tool_calls(case: CodeJudgeInput) -> list[dict[str, Any]]:
    """The tool calls of the assistant, in order. None is not an error."""
    return _calls(case.output_messages)


def expected_tool_calls(case: CodeJudgeInput) -> list[dict[str, Any]]:
    """The tool calls in `expected_messages`."""
    return _calls(case.expected_messages) or fail(
        "no expected tool calls; set `tool_calls` in `expected_messages` of the case"
    )


def conversation_of(case: CodeJudgeInput) -> list[dict[str, Any]]:
    """All messages in order, without system messages. In a conversation, `input_messages` contains earlier answers."""
    before, after = case.input_messages, case.output_messages
    replies = [message for message in before if message.get("role") not in ("user", "system")]
    repeated = next(n for n in range(max(len(after) - 1, 0), -1, -1) if after[:n] == replies[len(replies) - n :])
    messages = [message for message in [*before, *after[repeated:]] if message.get("role") != "system"]
    return messages or fail("the case has no messages; set `input`")


def message_text(message: dict[str, Any]) -> str:
    """The text of a message: its string, or its parts of type `text`; a structured object is JSON."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part if isinstance(part, dict) else {"value": part} for part in content]
        texts = [part.get("value", part.get("text")) for part in parts if part.get("type", "text") == "text"]
        return "".join(text for text in texts if isinstance(text, str))
    if content is None:
        return ""
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _calls(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [call for message in messages for call in message.get("tool_calls") or []]


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
