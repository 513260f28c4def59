"""`type: metric` with metrics of the real libraries: their scores on our scale, their judge calls, and their errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentv.testing.model_server import FakeModelServer
from tests.conftest import Project
from tests.live.libraries.environments import CURRENT, FOLDER, interpreter, is_installed
from tests.live.libraries.harness import KEY, Script, noted
from tests.live.libraries.test_libraries import CHOICE, SUPPORTED, UNSUPPORTED, by_prompt
from tests.live.servers import ANSWER, QUESTION

pytestmark = [pytest.mark.libraries, pytest.mark.timeout(240)]

PASSAGES = ["Lyon has two rivers.", "Paris is the capital of France.", "Paris is old."]
EMBEDS = {"judge": {"embeddings": "vectors"}}
JUNK = "I would rather talk about the eyes of cats."


@dataclass(frozen=True)
class Measured:
    """A metric, and its score or the start of its error."""

    metric: str
    result: float | str
    calls: int
    options: Mapping[str, Any] = field(default_factory=dict)
    formula: str | None = None
    """How the score is computed from the value of the library; None if it is the value."""


VERDICTS = {"verdicts": [{"verdict": word, "reason": "It is so."} for word in ("no", "yes", "yes")]}
DEEPEVAL = by_prompt(
    {
        "was remotely useful": VERDICTS,
        "agrees with EACH context": VERDICTS,
        "generate 3-4": {"steps": ["Look for the city."]},
        '\\"score\\"': {"score": 8, "reason": "Right."},
        "score. Explain why": {"reason": "Two of three."},
        "for the hallucination score": {"reason": "Two of three."},
    }
)
RAGAS = by_prompt(
    {
        "Break down each sentence": {"statements": ["Paris is the capital.", "Paris is old."]},
        "judge the faithfulness": {"statements": [SUPPORTED, UNSUPPORTED]},
        "noncommittal": {"question": "Which city is it?", "noncommittal": 0},
        "Is it short?": {"reason": "It is.", "verdict": 1},
        "score4_description": {"feedback": "Good.", "score": 4},
        "The Colosseum in Rome": JUNK,
    }
)
OPENEVALS = by_prompt(
    {
        "content moderator": {"reasoning": "An insult.", "score": True},
        "for correctness": {"reasoning": "Nearly.", "score": 4},
        "is the answer grounded": JUNK,
        "retrieved context": JUNK,
    }
)
LLAMAINDEX = by_prompt(
    {"between 1 and 5": "4.0\nNearly.", "supported by the context": JUNK, "in line with the context": "NO"}
)
LIBRARIES: Mapping[str, tuple[Script, list[Measured]]] = {
    "deepeval": (
        DEEPEVAL,
        [
            Measured("contextual_precision", (1 / 2 + 2 / 3) / 2, 2),
            Measured("HallucinationMetric", 2 / 3, 2),
            Measured("GEval", 0.8, 2, {"parameters": {"criteria": "Is it right?", "evaluation_params": ["input"]}}),
            Measured("ExactMatchMetric", 0.0, 0),
            Measured("FaithfulnessMetric", "no retrieved passages at `vars.docs`", 0, {"context": "vars.docs"}),
            Measured("ToolCorrectnessMetric", "no expected tool calls; set `tool_calls`", 0),
            Measured("FaithfulMetric", "DeepEval has no metric 'FaithfulMetric' (did you mean `FaithfulnessMetric`", 0),
        ],
    ),
    "ragas": (
        RAGAS,
        [
            Measured("Faithfulness", 0.5, 2),
            Measured("AnswerRelevancy", 0.6, 3, EMBEDS),
            Measured("AnswerCorrectness", "the metric needs embeddings: configure a target", 0),
            Measured("SemanticSimilarity", 0.6, 0, EMBEDS, "max(library_score, 0)"),
            Measured("AspectCritic", 1.0, 1, {"parameters": {"definition": "Is it short?"}}),
            Measured("DomainSpecificRubrics", 0.75, 1, formula="(library_score - 1) / 4"),
            Measured("ContextEntityRecall", "ContextEntityRecall needs a reply in a form of Ragas", 4),
            Measured("ContextRecal", "Ragas has no metric 'ContextRecal' (did you mean `ContextRecall`?)", 0),
        ],
    ),
    "autoevals": (
        CHOICE,
        [
            Measured("Factuality", 0.6, 1),
            Measured("Levenshtein", 5 / len(ANSWER), 0),
            Measured("ClosedQA", "the metric needs `criteria`; set `metadata.criteria`", 0),
            Measured("EmbeddingSimilarity", "the metric needs embeddings: configure a target", 0),
            Measured("ContextEntityRecall", "the metric needs embeddings: configure a target", 0),
            Measured("Factuality", "the metric has no judge; set `judge: {}`", 0, {"judge": False, "name": "no judge"}),
            Measured("Security", "Security has no parameter `modell` (did you mean `model`?)", 0,
                     {"parameters": {"modell": "x"}}),
        ],
    ),
    "openevals": (
        OPENEVALS,
        [
            Measured("TOXICITY_PROMPT", 0.0, 1, formula="1 - library_score"),
            Measured("correctness", 0.75, 1, {"parameters": {"choices": [1, 2, 3, 4, 5]}}, "(library_score - 1) / 4"),
            Measured("RAG_RETRIEVAL_RELEVANCE_PROMPT", "RAG_RETRIEVAL_RELEVANCE_PROMPT failed: OutputParser", 1),
            Measured("exact_match", 0.0, 0),
            Measured("PLAN_ADHERENCE_PROMPT", "the metric needs `plan`; set `metadata.plan`", 0),
        ],
    ),
    "llamaindex": (
        LLAMAINDEX,
        [
            Measured("CorrectnessEvaluator", 0.75, 1, formula="(library_score - 1) / 4"),
            Measured("SemanticSimilarityEvaluator", 0.6, 0, EMBEDS, "max(library_score, 0)"),
            Measured("FaithfulnessEvaluator", "FaithfulnessEvaluator expects YES or NO, but the judge replied 'I", 1),
            Measured("RelevancyEvaluator", 0.0, 1),
            Measured("CorrectnessEvaluator", "the script exceeded its judge call limit of 0", 0,
                     {"judge": {"max_calls": 0}, "name": "limit"}),
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
async def test_metrics_of_a_library_have_our_scale_and_clear_errors(
    library: str, project: Project, tmp_path: Path
) -> None:
    if not is_installed(CURRENT):
        pytest.skip("the libraries are not installed; run `make test-libraries`")
    reply, measured = LIBRARIES[library]
    log, home = tmp_path / "guard.log", tmp_path / "home"
    home.mkdir()
    common = {
        "type": "metric",
        "python": str(interpreter(CURRENT)),
        "env": {"GUARD_LOG": str(log), "HOME": str(home), "PYTHONPATH": str(FOLDER / "guard")},
    }
    evaluators = [
        {**common, "metric": f"{library}:{each.metric}", "name": each.metric, **each.options} for each in measured
    ]
    case = {"id": "capital", "input": QUESTION, "reference_answer": "Paris", "evaluators": evaluators}
    async with FakeModelServer(reply, api_key=KEY) as judge:
        compatible = {
            "provider": "openai_compatible",
            "base_url": judge.url,
            "model": "m",
            "api_key": "${{ JUDGE_KEY }}",
        }
        targets = {
            "assistant": {"provider": "mock", "response": ANSWER},
            "judge": compatible,
            "vectors": {**compatible, "provider": "embeddings"},
        }
        defaults = {"target": "assistant", "judge_target": "judge"}
        project.write("agentv.config.yaml", json.dumps({"targets": targets, "defaults": defaults}))
        cases = [{**case, "metadata": {"retrieval_context": PASSAGES}}]
        project.write("suite.yaml", json.dumps({"evalcases": cases}))
        await asyncio.to_thread(project.run, "eval", "suite.yaml", env={"JUDGE_KEY": KEY})
    results = {result["name"]: result for result in project.rows()[0]["evaluator_results"]}
    for each in measured:
        result = results[each.options.get("name", each.metric)]
        if isinstance(each.result, str):
            assert (result["error"] or "").startswith(each.result), result
        else:
            assert (result["error"], result["score"]) == (None, pytest.approx(each.result)), result
            assert result["details"].get("score") == each.formula
        assert (result.get("judge_proxy") or {"call_count": 0})["call_count"] == each.calls, result
    assert noted(log) == set()
