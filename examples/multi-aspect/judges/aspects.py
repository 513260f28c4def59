"""Aspects of an answer, each graded by the target that the suite names for it; the score is their weighted mean."""

from agentv_eval import code_judge


@code_judge
def aspects(input, judge):
    aspects = input.config["aspects"]
    material = {
        "question": input.question,
        "expected answer": input.reference_answer,
        "answer": input.candidate_answer,
    }
    grades = judge.verdicts(
        [
            {"question": f"{aspect['ask']} 0: no, 10: fully.", "material": material, "target": aspect.get("target")}
            for aspect in aspects
        ],
        schema={"type": "integer", "minimum": 0, "maximum": 10},
    )
    graded = list(zip(aspects, grades, strict=True))
    total = sum(aspect["weight"] for aspect in aspects)
    return {
        "score": sum(aspect["weight"] * grade / 10 for aspect, grade in graded) / total,
        "reasoning": ", ".join(f"{aspect['name']} {grade}/10" for aspect, grade in graded),
    }
