"""The application under test: answers questions of customers of a book shop."""

from __future__ import annotations

from typing import Any

ANSWERS = {
    "return": "You can return a book within 30 days.",
    "shipping": "Shipping takes 3 days and is free from 30 euros.",
    "gift": "Yes, choose gift wrapping at the checkout.",
}


def find(question: str) -> str:
    words = question.lower()
    return next((answer for word, answer in ANSWERS.items() if word in words), "I do not know. Please ask our staff.")


async def answer(prompt: str) -> dict[str, Any]:
    """What agentv calls: the prompt in, the answer and what it used out."""
    text = find(prompt)
    return {"text": text, "token_usage": {"input": len(prompt.split()), "output": len(text.split())}}
