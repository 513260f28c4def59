"""Judges a letter to a customer: the checks run first, and only letters that pass them need a judge call."""

import re

from agentv_eval import code_judge


@code_judge
def letter(input, judge):
    text = input.candidate_answer
    problems = [f"says {word!r}" for word in input.config["forbidden"] if word in text.lower()]
    if input.metadata["order"] not in text:
        problems.append("does not name the order")
    if len(text.split()) > input.config["max_words"]:
        problems.append("is too long")
    if re.search(r"\[[A-Z ]+\]", text):
        problems.append("has a gap that was not filled in")
    if problems:
        return {"score": 0.0, "misses": problems, "reasoning": "the judge was not asked"}

    grade = judge.verdict(
        question="How kind and helpful is this letter to a customer, from 1 (rude) to 5 (kind and helpful)?",
        material={"the customer": input.question, "the letter": text},
        schema={"type": "integer", "minimum": 1, "maximum": 5},
    )
    return {"score": (grade - 1) / 4, "reasoning": f"kind and helpful: {grade} of 5"}
