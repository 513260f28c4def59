"""The cases of the bookshop: what customers ask, what an answer must contain, and how good and bad answers read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Topic:
    """A question with a good, a partly right and a wrong answer."""

    id: str
    tags: tuple[str, ...]
    difficulty: str
    question: str
    reference: str
    good: str
    partly: str
    wrong: str
    criteria: tuple[str, str]

    def answer(self, quality: str) -> str:
        return {"good": self.good, "partly": self.partly, "wrong": self.wrong}[quality]


def topic(line: str) -> Topic:
    identifier, tags, difficulty, *rest = (part.strip() for part in line.strip().split("|"))
    question, reference, good, partly, wrong, first, second = rest
    return Topic(identifier, tuple(tags.split()), difficulty, question, reference, good, partly, wrong, (first, second))


SUPPORT = [topic(line) for line in Path(__file__).with_name("bookshop_topics.txt").read_text().splitlines()]


@dataclass(frozen=True, slots=True)
class Task:
    """A task for the agent with tools: the calls of a good answer, and the answer itself."""

    id: str
    question: str
    tools: tuple[str, ...]
    answer: str


AGENT = [
    Task("order-status", "Where is order 1017?", ("find_order", "track_parcel"), "Order 1017 left the depot at 8:14."),
    Task("cancel-1020", "Cancel order 1020.", ("find_order", "cancel_order"), "Order 1020 is cancelled."),
    Task("refund-1033", "Refund order 1033.", ("find_order", "check_policy", "refund"), "24.90 will be refunded."),
    Task("in-stock", "Is Momo in stock?", ("search_books", "stock"), "Yes, 4 copies."),
    Task("reserve", "Reserve one for Ada.", ("search_books", "stock", "reserve"), "Reserved until Friday."),
    Task("complaint", "Your shop is terrible!", ("escalate",), "I am sorry. A colleague will call you today."),
]
FLAKY = ["summary-momo", "summary-dune", "summary-emma", "summary-ulysses", "summary-walden", "summary-faust"]
