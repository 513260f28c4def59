"""What was asked in the cases of a run, as far as its table shows it: the beginning of the question, and the tags."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from agentv import jsonio
from agentv.codec import decode
from agentv.evidence import CaseRecord
from agentv.messages import Message
from agentv.report.questions import question_of
from agentv.view.ledger_lines import LedgerLines, parsed

LONGEST_QUESTION = 120
NONE = -1


class AskedCases:
    """The cases in `cases.jsonl`, numbered in the order of the file. A resumed run may have several versions of one."""

    def __init__(self, lines: LedgerLines) -> None:
        self.lines = lines
        self.damaged = 0
        self.tags: dict[str, int] = {}
        self.tag_sets: dict[tuple[int, ...], int] = {(): 0}
        self._questions: list[str] = []
        self._tag_set = array("i")
        self._offset, self._length = array("q"), array("i")
        self._by_key: dict[tuple[str, str], int] = {}
        self._by_hash: dict[str, int] = {}
        """The versions of cases that have several."""
        self._hashes: list[str] | None = None

    def refresh(self) -> None:
        """Read the cases that were appended."""
        for offset, line in self.lines.read():
            try:
                self._add(parsed(line), offset, len(line))
            except (ValueError, RecursionError):
                self.damaged += 1

    def _add(self, data: Any, offset: int, length: int) -> None:
        if type(data) is not dict:
            raise ValueError("a case must be an object")
        suite, eval_id, sha256 = data.get("suite"), data.get("eval_id"), data.get("sha256")
        if type(suite) is not str or type(eval_id) is not str:
            raise ValueError("a case must have a suite and an id")
        question, number = _question(data), len(self._questions)
        earlier = self._by_key.get((suite, eval_id))
        if earlier is not None and type(sha256) is str:
            self._by_hash[sha256] = number
            self._by_hash.setdefault(self._hash(earlier), earlier)
        tags = data.get("tags")
        numbers = [
            self.tags.setdefault(tag, len(self.tags))
            for tag in (tags if type(tags) is list else ())
            if type(tag) is str
        ]
        self._questions.append(question)
        self._tag_set.append(self.tag_sets.setdefault(tuple(sorted(set(numbers))), len(self.tag_sets)))
        self._offset.append(offset)
        self._length.append(length)
        self._by_key[suite, eval_id] = number

    def _hash(self, number: int) -> str:
        """The hash of an earlier version. It is read again: hardly any case has two versions."""
        try:
            data = jsonio.load(self.lines.at(self._offset[number], self._length[number]))
            return str(data.get("sha256"))
        except (ValueError, AttributeError):
            return ""

    def find(self, suite: str, eval_id: str, sha256: Any) -> int:
        """The number of a case, in the version with this hash if there are several; `NONE` if it is not recorded."""
        if self._by_hash and type(sha256) is str and sha256 in self._by_hash:
            return self._by_hash[sha256]
        return self._by_key.get((suite, eval_id), NONE)

    def question(self, number: int) -> str:
        return self._questions[number] if number >= 0 else ""

    def tag_set(self, number: int) -> int:
        return self._tag_set[number] if number >= 0 else 0

    def place(self, number: int) -> tuple[int, int] | None:
        return (self._offset[number], self._length[number]) if number >= 0 else None


def _question(data: Mapping[str, Any]) -> str:
    """The beginning of the question. The strict reader is asked only for content that is not plain text."""
    messages = data.get("input_messages")
    known = [message for message in messages if type(message) is dict] if type(messages) is list else []
    asked = [message for message in known if message.get("role") == "user"] or known
    if not asked:
        return ""
    content = asked[-1].get("content")
    if type(content) is str and "tool_calls" not in asked[-1]:
        return one_line(content, LONGEST_QUESTION)
    try:
        return one_line(question_of(CaseRecord("", "", "", (decode(Message, asked[-1]),))), LONGEST_QUESTION)
    except (ValueError, TypeError):
        return ""


def one_line(text: str, most: int) -> str:
    """The beginning of a text in one line."""
    return " ".join(text[: 8 * most].split())[:most]
