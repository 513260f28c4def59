"""The score of each metric for recorded verdicts, and what its result explains."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentv.wire.judge import JudgeCall
from tests.metrics.support import measure, verdicts

CLAIMS = json.dumps({"claims": ["You have 30 days.", "We pay the postage.", "You need the receipt."]})


def test_faithfulness_is_the_share_of_supported_claims() -> None:
    measured = measure("faithfulness", [CLAIMS, verdicts("supported", "contradicted", "not_mentioned")])
    assert measured.score == pytest.approx(1 / 3)
    assert measured.result["hits"] == ["You have 30 days."]
    assert measured.result["misses"] == [
        "We pay the postage. (contradicted: reason 2)",
        "You need the receipt. (not mentioned: reason 3)",
    ]
    assert measured.result["reasoning"] == "1 of 3 claims are supported by the passages"
    assert measured.result["details"]["passages"] == 2
    assert [claim["verdict"] for claim in measured.result["details"]["claims"]] == [
        "supported",
        "contradicted",
        "not_mentioned",
    ]


def test_faithfulness_counts_unmentioned_claims_if_allowed() -> None:
    replies = [CLAIMS, verdicts("supported", "contradicted", "not_mentioned")]
    measured = measure("faithfulness", replies, {"allow_unmentioned": True})
    assert measured.score == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("metric", "reply", "reasoning"),
    [
        ("faithfulness", '{"claims": []}', "the answer makes no claims"),
        ("toxicity", '{"opinions": [" "]}', "the answer expresses no opinions"),
        ("bias", '{"opinions": []}', "the answer expresses no opinions"),
    ],
)
def test_nothing_to_object_to_scores_1_with_one_call(metric: str, reply: str, reasoning: str) -> None:
    measured = measure(metric, [reply], candidate_answer="I do not know.")
    assert (measured.score, measured.result["reasoning"]) == (1.0, reasoning)


def test_answer_relevancy_counts_supporting_statements() -> None:
    statements = json.dumps({"statements": ["You have 30 days.", "This is the law.", "Buy our new book."]})
    measured = measure("answer_relevancy", [statements, verdicts("relevant", "supporting", "irrelevant")])
    assert measured.score == pytest.approx(2 / 3)
    assert measured.result["misses"] == ["Buy our new book. (irrelevant: reason 3)"]


@pytest.mark.parametrize(
    ("metric", "miss"),
    [
        ("answer_relevancy", "the answer says nothing"),
        ("summarization_coverage", "the summary is empty"),
        ("task_completion", "the answer is empty"),
        ("json_correctness", "is not JSON: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_an_empty_answer_that_should_say_something_scores_0_without_a_call(metric: str, miss: str) -> None:
    measured = measure(metric, [], candidate_answer="")
    assert (measured.score, measured.result["misses"], measured.prompts) == (0.0, [miss], [])


@pytest.mark.parametrize(
    ("useful", "score"),
    [
        ((True, False, False), 1.0),
        ((True, False, True), (1 / 1 + 2 / 3) / 2),
        ((False, True, True), (1 / 2 + 2 / 3) / 2),
        ((False, False, True), 1 / 3),
        ((False, False, False), 0.0),
    ],
)
def test_contextual_precision_is_the_mean_precision_at_useful_ranks(useful: tuple[bool, ...], score: float) -> None:
    reply = verdicts(*("useful" if helps else "not_useful" for helps in useful))
    measured = measure("contextual_precision", [reply], metadata={"retrieval_context": ["a", "b", "c"]})
    assert measured.score == pytest.approx(score)


def test_contextual_precision_lists_the_ranks() -> None:
    measured = measure("contextual_precision", [verdicts("not_useful", "useful")])
    assert measured.result["reasoning"] == "1 of 2 passages are useful: rank 2"
    assert measured.result["hits"] == ["Readings are on Fridays."]


def test_contextual_recall_is_the_share_of_statements_with_a_passage() -> None:
    statements = [
        {"statement": "30 days", "reason": "says so", "passage": 1},
        {"statement": "not read", "reason": "nothing", "passage": 0},
    ]
    measured = measure("contextual_recall", [json.dumps({"statements": statements})])
    assert measured.score == 0.5
    assert measured.result["misses"] == ["not read (not supported: nothing)"]
    assert [entry["passage"] for entry in measured.result["details"]["statements"]] == [1, 0]


def test_contextual_relevancy_is_the_share_of_relevant_statements_of_all_passages() -> None:
    def reply(call: JudgeCall) -> str:
        words = ["relevant", "relevant", "irrelevant"] if "within 30 days" in str(call.question) else ["irrelevant"]
        return json.dumps({"statements": [{"statement": word, "reason": "r", "verdict": word} for word in words]})

    measured = measure("contextual_relevancy", reply)
    assert (measured.score, len(measured.prompts)) == (0.5, 2)
    assert [entry["passage"] for entry in measured.result["details"]["statements"]] == [1, 1, 1, 2]


def test_contextual_relevancy_of_passages_that_state_nothing_is_0() -> None:
    measured = measure("contextual_relevancy", ['{"statements": []}'] * 2)
    assert (measured.score, measured.result["misses"]) == (0.0, ["the passages state nothing"])


def test_hallucination_is_the_share_of_passages_without_contradiction() -> None:
    measured = measure("hallucination", [verdicts("contradicts", "agrees")])
    assert (measured.score, measured.result["hits"]) == (0.5, ["Readings are on Fridays."])


def _answers(source: str, summary: str) -> Any:
    def reply(call: JudgeCall) -> str:
        text = str(call.question)
        if "Write questions" in text:
            return json.dumps({"questions": ["Is it 30 days?", "Is it free?", "Is it new?"]})
        return verdicts(*(source if "How long" in text else summary).split())

    return reply


def test_summarization_coverage_counts_questions_that_the_source_answers() -> None:
    measured = measure("summarization_coverage", _answers("yes yes no", "yes no yes"))
    assert (measured.score, len(measured.prompts)) == (0.5, 3)
    assert measured.result["hits"] == ["Is it 30 days?"]
    assert measured.result["misses"] == ["Is it free? (no: reason 2)"]
    assert measured.result["details"]["not_in_source"] == ["Is it new?"]


def test_summarization_coverage_uses_given_questions_and_source() -> None:
    measured = measure(
        "summarization_coverage",
        _answers("yes", "yes"),
        {"questions": ["Is it free?"], "source": "metadata.document"},
        metadata={"document": {"text": "How long? It is free."}},
    )
    assert (measured.score, len(measured.prompts)) == (1.0, 2)
    assert any("How long? It is free." in prompt for prompt in measured.prompts)


def test_task_completion_counts_partly_achieved_goals_as_half() -> None:
    goals = json.dumps({"goals": ["a", "b", "c", "d"]})
    words = ("achieved", "partly", "not_achieved", "achieved")
    measured = measure("task_completion", [goals, verdicts(*words)], expected_outcome="30 days")
    assert measured.score == 0.625
    assert measured.result["reasoning"] == "2 of 4 goals are achieved, 1 partly"
    assert measured.result["misses"] == ["b (partly: reason 2)", "c (not achieved: reason 3)"]
    assert "You have 30 days" not in measured.prompts[0], "the goals must not depend on the answer"
    assert "--- expected outcome " in measured.prompts[0]


def test_task_completion_shows_the_judge_the_steps_and_uses_given_goals() -> None:
    steps = [{"role": "assistant", "tool_calls": [{"tool": "refund", "input": {"order": 7}, "output": "failed"}]}]
    measured = measure("task_completion", [verdicts("not_achieved")], {"goals": ["refunded"]}, output_messages=steps)
    assert (measured.score, len(measured.prompts)) == (0.0, 1)
    assert '{"tool": "refund", "input": {"order": 7}, "output": "failed"}' in measured.prompts[0]


@pytest.mark.parametrize(
    ("metric", "good", "bad"), [("toxicity", "not_toxic", "toxic"), ("bias", "not_biased", "biased")]
)
def test_toxicity_and_bias_are_the_share_of_harmless_opinions(metric: str, good: str, bad: str) -> None:
    opinions = json.dumps({"opinions": ["They are all lazy.", "The book is great."]})
    measured = measure(metric, [opinions, verdicts(bad, good)])
    assert (measured.score, measured.result["hits"]) == (0.5, ["The book is great."])
    assert measured.result["misses"] == [f"They are all lazy. ({bad}: reason 1)"]


# -- without a judge


def _calls(*names: str) -> list[dict[str, Any]]:
    return [{"role": "assistant", "tool_calls": [{"tool": name, "input": {"n": 1}} for name in names]}]


@pytest.mark.parametrize(
    ("mode", "expected", "made", "score"),
    [
        ("any_order", "search book", "book search other", 1.0),
        ("any_order", "search search", "search", 0.5),
        ("any_order", "search", "", 0.0),
        ("in_order", "search book", "book search", 0.5),
        ("in_order", "a b c", "x a y c", 2 / 3),
        ("exact", "search book", "search book", 1.0),
        ("exact", "search book", "search book book", 0.0),
        ("exact", "search book", "book search", 0.0),
        ("exact", "search book", "search", 0.0),
    ],
)
def test_tool_correctness_by_mode(mode: str, expected: str, made: str, score: float) -> None:
    measured = measure(
        "tool_correctness",
        config={"mode": mode},
        expected_messages=_calls(*expected.split()),
        output_messages=_calls(*made.split()),
    )
    assert measured.score == pytest.approx(score)


def test_tool_correctness_compares_arguments_on_request() -> None:
    expected = [{"role": "assistant", "tool_calls": [{"tool": "book", "input": {"n": 2}}]}]
    made: dict[str, Any] = {"expected_messages": expected, "output_messages": _calls("book")}
    assert measure("tool_correctness", **made).score == 1.0
    measured = measure("tool_correctness", config={"arguments": True}, **made)
    assert (measured.score, measured.result["misses"]) == (0.0, ["book(n=2) was not called"])


def test_tool_correctness_matches_each_call_once_and_as_well_as_possible() -> None:
    """`book` without arguments must not take the only call that fits the second one."""
    expected = [{"tool": "book"}, {"tool": "book", "args": {"n": 1}}]
    made = [{"role": "assistant", "tool_calls": [{"tool": "book", "input": {"n": 1}}, {"tool": "book"}]}]
    measured = measure("tool_correctness", config={"expected": expected}, output_messages=made)
    assert (measured.score, measured.result["misses"]) == (1.0, [])


SCHEMA = {"type": "object", "required": ["days"], "properties": {"days": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("answer", "score", "miss"),
    [
        ('{"days": 30}', 1.0, None),
        ('{"days": "30"}', 0.0, "$.days: '30' is not of type 'integer'"),
        ("{}", 0.0, "$: 'days' is a required property"),
        ("30 days", 0.0, "is not JSON: Extra data: line 1 column 4 (char 3)"),
        ('{"days": 1, "days": 2}', 0.0, "is not JSON: an object has a duplicate key"),
        ("NaN", 0.0, "is not JSON: NaN is not JSON"),
        ("[" * 100_000, 0.0, None),
    ],
)
def test_json_correctness(answer: str, score: float, miss: str | None) -> None:
    measured = measure("json_correctness", config={"schema": SCHEMA}, candidate_answer=answer)
    assert measured.score == score
    if miss is not None:
        assert measured.result["misses"] == [miss]


def test_json_correctness_without_a_schema_accepts_any_json() -> None:
    assert measure("json_correctness", candidate_answer="[1, 2]").score == 1.0
