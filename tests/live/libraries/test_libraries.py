"""Metrics of other people's libraries, unmodified, as judge scripts: their scores, the call limit, failing judges."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentv.testing.model_server import Scripted
from tests.conftest import Project
from tests.live.libraries import harness
from tests.live.libraries.environments import NODE, TRULENS
from tests.live.libraries.harness import KEY, TOGETHER, Library
from tests.live.servers import QUESTION

pytestmark = [pytest.mark.libraries, pytest.mark.timeout(240)]

Reply = dict[str, Any] | str


def always(reply: Reply) -> harness.Script:
    return lambda _: text_of(reply)


def by_prompt(replies: dict[str, Reply]) -> harness.Script:
    """The reply whose key is in the request, for metrics that ask several questions."""

    def reply(body: Any) -> Scripted:
        if "input" in body:
            return embeddings(body["input"])
        request = json.dumps(body, ensure_ascii=False)
        (matching,) = [reply for key, reply in replies.items() if key in request]
        return text_of(matching)

    return reply


def text_of(reply: Reply) -> str:
    return reply if isinstance(reply, str) else json.dumps(reply)


def embeddings(strings: list[str] | str) -> Scripted:
    """Vectors with a cosine of 0.6 between the question or the answer and any other text."""
    known = ("The capital of France is Paris.", QUESTION)
    texts = [strings] if isinstance(strings, str) else strings
    data = [{"index": at, "embedding": [1, 0] if text in known else [0.6, 0.8]} for at, text in enumerate(texts)]
    return {"data": data, "model": "vectors", "usage": {"prompt_tokens": 3}}


SCORE = always({"score": 0.75})
CHOICE = always({"reasons": "It says more.", "choice": "B"})  # a superset of the expert's answer: 0.6
SUPPORTED = {"statement": "Paris is the capital.", "reason": "It is in the context.", "verdict": 1}
UNSUPPORTED = {"statement": "Paris is old.", "reason": "It is not in the context.", "verdict": 0}
FAITHFULNESS = by_prompt(
    {
        "Break down each sentence": {"statements": ["Paris is the capital.", "Paris is old."]},
        "judge the faithfulness": {"statements": [SUPPORTED, UNSUPPORTED]},
    }
)
LITELLM = frozenset({"file .env", "host raw.githubusercontent.com"})
RAGAS = frozenset({"host t.explodinggradients.com"})
LIBRARIES = [
    Library("judge_openai.py", SCORE, 0.75, {"gpt-4o": 1}),
    Library("judge_anthropic.py", SCORE, 0.75, {"claude-sonnet-4-5": 1}),
    Library("judge_autoevals.py", CHOICE, 0.6, {"gpt-5-mini": 1}),
    Library(
        "judge_openevals.py",
        always({"reasoning": "Short.", "score": 0.75}),
        0.75,
        {"o3-mini": 1},
        needs="openevals",
        unwanted=frozenset({"host api.smith.langchain.com"}),
        around={"LANGSMITH_TRACING": "true", "LANGSMITH_API_KEY": "none"},
    ),
    Library("judge_instructor.py", SCORE, 0.75, {"gpt-4o": 1}),
    Library("judge_pydantic_evals.py", always({"reason": "Right.", "pass": True, "score": 0.75}), 0.75, {"gpt-5.2": 1}),
    Library("judge_litellm.py", SCORE, 0.75, {"gpt-4o": 1}, needs="litellm", unwanted=LITELLM),
    Library(
        "judge_dspy.py",
        always(
            "[[ ## reasoning ## ]]\nHalf of it.\n\n[[ ## recall ## ]]\n1.0\n\n"
            "[[ ## precision ## ]]\n0.5\n\n[[ ## completed ## ]]"
        ),
        2 / 3,  # the harmonic mean of 1 and 0.5
        {"gpt-4o-mini": 1},
        needs="dspy",
        unwanted=LITELLM,
        tries=4,
    ),
    Library("judge_llamaindex.py", always("4.0\nIt names the city."), 0.8, {"gpt-4o": 1}, tries=3),
    Library("judge_llamaindex_similarity.py", by_prompt({}), 0.6, {}, embeddings=2, tries=0),
    Library(
        "judge_deepeval.py",
        by_prompt(
            {
                "breakdown and generate a list of statements": {"statements": ["It is Paris.", "Paris is old."]},
                "list of statements, determine": {
                    "verdicts": [{"verdict": "yes"}, {"verdict": "no", "reason": "Age was not asked for."}]
                },
                "CONCISE reason": {"reason": "One of two statements is relevant."},
            }
        ),
        0.5,
        {"gpt-5.4": 3},
        needs="deepeval",
        unwanted=frozenset({"file .env", "host us.i.posthog.com"}),
        tries=2,
    ),
    Library(
        "judge_deepeval_geval.py",
        by_prompt({"generate 3-4": {"steps": ["Look for the city."]}, '\\"score\\"': {"score": 8, "reason": "Right."}}),
        0.8,
        {"gpt-5.4": 2},
        needs="deepeval",
        tries=0,
    ),
    Library("judge_ragas.py", FAITHFULNESS, 0.5, {"gpt-4o-mini": 2}, needs="ragas", unwanted=RAGAS),
    Library("judge_ragas_v1.py", FAITHFULNESS, 0.5, {"gpt-4o-mini": 2}, needs="ragas"),
    Library(
        "judge_ragas_relevancy.py",
        by_prompt({"noncommittal": {"question": "Which city is it?", "noncommittal": 0}}),
        0.6,
        {"gpt-4o-mini": 3},
        needs="ragas",
        embeddings=2,
        tries=0,
    ),
    Library("judge_trulens.py", always({"score": 2}), 2 / 3, {"gpt-4o": 1}, TRULENS, tries=4, refused=4),
    Library("judge_openai.mjs", SCORE, 0.75, {"gpt-4o": 1}, NODE),
    Library("judge_autoevals.mjs", CHOICE, 0.6, {"gpt-4o": 1}, NODE),
    Library("judge_vercel.mjs", SCORE, 0.75, {"gpt-4o": 1}, NODE, tries=3),
    Library("judge_vercel_compatible.mjs", SCORE, 0.75, {"gpt-4o": 1}, NODE, tries=0),
]


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
async def test_metric_has_its_score_cold_and_warm_stops_at_the_limit_and_reports_a_failing_judge(
    library: Library, project: Project
) -> None:
    outcome = await harness.run(library, project)
    scored, limit = outcome.results["scored"], outcome.results["limit"]
    calls, embeddings = TOGETHER * library.calls, TOGETHER * library.embeddings

    assert scored["error"] is None
    assert scored["score"] == pytest.approx(library.score)
    assert scored["details"]["scores"] == [pytest.approx(library.score)] * TOGETHER
    ledger = scored["judge_proxy"]
    assert (ledger["call_count"], ledger["refused_calls"], ledger["failed_calls"]) == (calls, 0, 0)
    assert ledger.get("models", {}) == {model: {"judge": TOGETHER * n} for model, n in library.models.items()}
    assert ledger["embeddings"]["call_count"] == embeddings
    if warm := outcome.results.get("warm"):
        assert (warm["error"], warm["details"]["scores"]) == (None, scored["details"]["scores"])
        assert (warm["judge_proxy"]["call_count"], warm["warnings"]) == (calls, [])

    # One call too few: all others are made, one is refused, and the library does not ask without end.
    ledger = limit["judge_proxy"]
    over = ledger["embeddings"] if library.embeddings > library.calls else ledger
    assert over["max_calls"] == max(calls, embeddings) - 1
    assert (over["call_count"], over["refused_calls"]) == (over["max_calls"], library.refused)
    assert "judge call limit" in limit["error"]
    assert limit["score"] == 0.0

    # The first of two metrics gets a 502, the second a 504. What is repeated is counted, and there is no score.
    if library.tries:
        failing = outcome.results["failing"]
        ledger = failing["judge_proxy"]
        assert (ledger["call_count"], ledger["failed_calls"]) == (2 * library.tries, 2 * library.tries)
        assert "the script exited with code 1" in failing["error"]
        assert failing["score"] == 0.0

    ledgers = [result["judge_proxy"] for name, result in outcome.results.items() if name != "failing"]
    assert outcome.asked == sum(ledger["call_count"] + ledger["embeddings"]["call_count"] for ledger in ledgers)
    assert outcome.elsewhere == set()
    assert outcome.unwanted == library.unwanted
    assert scored["details"]["secrets"] == []
    assert KEY not in outcome.everything
