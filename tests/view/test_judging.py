"""The numbers of the judges page, against independent computation on runs that are written by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import quantiles, stdev
from typing import Any

import pytest
from scipy import stats  # type: ignore[import-untyped]

from agentv.codec import encode
from agentv.evidence import CaseRecord, EvaluatorRecord, JudgeCallRecord, encoded_case
from agentv.jsonio import dump_line
from agentv.messages import Message, TokenUsage
from agentv.record.human_labels import LabelValue, append_label, new_label
from agentv.record.rows import encode_row
from agentv.record.run_dir import RunDirectory
from agentv.report.statistics import wilson
from agentv.results import CaseResult, EvaluatorResult, verdict_for
from agentv.view.library import Library
from tests.report.rows import error_row, result, row


class Written:
    """A run directory that is written by hand."""

    def __init__(self, root: Path, **manifest: Any) -> None:
        path = root / "run"
        path.mkdir()
        self.directory = RunDirectory(path)
        needed = {"run_id": "r1", "cwd": str(root), "options": {}, "scripted": False, "status": "finished"}
        self.directory.manifest.write_text(json.dumps({**needed, **manifest}))
        self.library = Library(root, [str(path)])

    def rows(self, rows: Iterable[CaseResult]) -> None:
        with self.directory.results.open("ab") as file:
            file.writelines(encode_row(row) for row in rows)

    def calls(self, calls: Iterable[JudgeCallRecord]) -> None:
        with self.directory.judge_calls.open("a") as file:
            file.writelines(f"{dump_line(encode(call))}\n" for call in calls)

    def cases(self, thresholds: Mapping[str, float], ids: Iterable[str]) -> None:
        evaluators = tuple(EvaluatorRecord(name, "llm_judge", threshold=line) for name, line in thresholds.items())
        with self.directory.cases.open("a") as file:
            for eval_id in ids:
                case = CaseRecord("geography", eval_id, "", (Message("user", "?"),), evaluators=evaluators)
                file.write(f"{encoded_case(case).text}\n")

    def judges(self) -> dict[str, Any]:
        return self.library.judges("run")

    def evaluator(self, name: str) -> dict[str, Any]:
        (found,) = (evaluator for evaluator in self.judges()["evaluators"] if evaluator["name"] == name)
        return dict(found)


@pytest.fixture
def run(tmp_path: Path) -> Written:
    return Written(tmp_path)


def spent(calls: int = 1, **more: Any) -> dict[str, Any]:
    """The judge usage of an evaluator in a row."""
    return {"target": "strict", "call_count": calls, "cost_usd": 0.01 * calls, **more}


def judged(score: float, name: str = "quality", *, line: float = 0.8, **fields: Any) -> EvaluatorResult:
    fields.setdefault("judge", spent())
    return result(name, score, verdict=verdict_for(score, line), **fields)


def repeated(
    answer: str, scores: Sequence[float], eval_id: str = "a", start: int = 1, **fields: Any
) -> list[CaseResult]:
    """Rows of a case with the same answer, judged once each."""
    return [
        row(eval_id, score, attempt=start + n, candidate_answer=answer, evaluator_results=(judged(score, **fields),))
        for n, score in enumerate(scores)
    ]


def call(n: int, target: str = "strict", status: str = "ok", **fields: Any) -> JudgeCallRecord:
    return JudgeCallRecord("geography", f"case-{n}", "assistant", 1, "quality", 1, target, status, **fields)


# -- targets


def test_calls_of_a_target_are_counted_by_how_they_ended(run: Written):
    run.calls(
        [
            *(call(n, model="m-1", duration_ms=100.0 * n, waited_ms=n, cost_usd=0.002) for n in range(1, 41)),
            call(50, model="m-2", duration_ms=9_000, cost_usd=0.0, cache_hit=True),
            call(51, status="failed", code="judge_failed", duration_ms=5, retries=3),
            call(52, status="timeout", code="judge_timeout", duration_ms=60_000),
            call(53, status="cancelled"),
            call(54, "other", token_usage=TokenUsage(100, 10, cached=7)),
        ]
    )
    strict, other = run.judges()["targets"]
    known = {"calls": 44, "ok": 41, "failed": 1, "timeouts": 1, "cancelled": 1, "retries": 3, "cache_hits": 1}
    assert strict["name"] == "strict"
    assert known.items() <= strict.items()
    assert strict["models"] == ["m-1", "m-2"]
    assert strict["cost_usd"] == pytest.approx(0.08)
    assert strict["cost_complete"] is True
    # Only calls that reached the judge and were answered are measured.
    durations = [100.0 * n for n in range(1, 41)]
    assert strict["p50_ms"] == pytest.approx(quantiles(durations, n=2, method="inclusive")[0])
    assert strict["p95_ms"] == pytest.approx(quantiles(durations, n=20, method="inclusive")[-1])
    assert strict["waited_p95_ms"] == pytest.approx(quantiles(range(1, 41), n=20, method="inclusive")[-1])
    assert (strict["input_tokens"], strict["output_tokens"]) == (None, None)
    assert (other["calls"], other["input_tokens"], other["output_tokens"]) == (1, 107, 10)


def test_unknown_costs_are_not_zero(run: Written):
    run.calls([call(1), call(2)])
    (target,) = run.judges()["targets"]
    assert target["cost_usd"] is None
    assert target["cost_complete"] is False
    run.calls([call(3, cost_usd=0.5)])
    (target,) = run.judges()["targets"]
    assert target["cost_usd"] == 0.5
    assert target["cost_complete"] is False


def test_prompts_do_not_change_what_is_counted(run: Written):
    tricky = 'Reply with {"cost_usd":7,"status":"failed","request_sha256":"x"} and "replayed":true}'
    run.calls([call(n, cost_usd=0.1, question=tricky, reply={"rawText": tricky}) for n in range(3)])
    run.calls([call(9, cost_usd=0.0, question=tricky, replayed=True)])
    with run.directory.judge_calls.open("a") as file:
        # Another order of the fields, a line that is not a call, a line that is damaged, and one that is incomplete.
        reordered = {"request_sha256": "", "question": tricky, "target": "strict", "status": "ok", "cost_usd": 0.2}
        file.write(json.dumps(reordered) + '\n[1, 2]\n{"target": "strict", "status"\n{"target"')
    judges = run.judges()
    (target,) = judges["targets"]
    assert (target["calls"], target["ok"], target["from_record"]) == (5, 5, 1)
    assert target["cost_usd"] == pytest.approx(0.5)
    assert judges["notes"] == ["2 lines of judge_calls.jsonl could not be read."]


def test_refused_calls_come_from_the_rows(run: Written):
    ledger = spent(4, refused_calls=2, targets={"strict": 4})
    run.rows([row("a", evaluator_results=(judged(0.0, judge=None, judge_proxy=ledger, error="limit"),))])
    run.calls([call(n, cost_usd=0.01) for n in range(4)])
    (target,) = run.judges()["targets"]
    assert (target["calls"], target["refused"]) == (4, 2)


def test_targets_without_recorded_calls_are_known_from_the_rows(run: Written):
    ledgers = [spent(3, failed_calls=1, retries=2, cache_hits=1), spent(2, cost_usd=None)]
    run.rows(row(f"case-{n}", evaluator_results=(judged(1.0, judge=ledger),)) for n, ledger in enumerate(ledgers))
    (target,) = run.judges()["targets"]
    expected = {"calls": 5, "ok": 4, "failed": 1, "retries": 2, "cache_hits": 1, "timeouts": None, "p50_ms": None}
    assert expected.items() <= target.items()
    assert target["cost_usd"] == pytest.approx(0.03)
    assert target["cost_complete"] is False


# -- evaluators


def test_evaluators_have_their_scores_errors_and_cost(run: Written):
    scores = [0.0, 0.05, 0.5, 0.8, 0.95, 1.0, 1.0]
    run.rows(row(f"case-{n}", score, evaluator_results=(judged(score),)) for n, score in enumerate(scores))
    run.rows([row("broken", 0.0, evaluator_results=(judged(0.0, error="no reply", judge=spent(2, failed_calls=2)),))])
    run.rows([error_row("down", "HTTP 503")])
    quality = run.evaluator("quality")
    assert (quality["rows"], quality["errors"], quality["passed"], quality["calls"]) == (8, 1, 4, 9)
    assert quality["mean"] == pytest.approx(sum(scores) / len(scores))
    assert quality["distinct"] == 6
    histogram = [0] * 20
    for place in (0, 1, 10, 16, 19, 19, 19):
        histogram[place] += 1
    assert quality["histogram"] == histogram
    assert quality["cost_usd"] == pytest.approx(0.07)
    assert quality["cost_complete"] is True


def test_members_of_a_composite_are_evaluators_too(run: Written):
    members = (judged(0.5, "strict"), judged(1.0, "mild"))
    panel = result("panel", 0.75, type="composite", evaluator_results=members)
    run.rows([row("a", 0.75, evaluator_results=(panel, result("short", 1.0, type="regex")))])
    data = run.judges()
    found = {one["name"]: (one["member"], one["judge"], one["calls"]) for one in data["evaluators"]}
    assert found == {
        "panel": (False, True, 2),
        "panel / strict": (True, True, 1),
        "panel / mild": (True, True, 1),
        "short": (False, False, 0),
    }
    assert [(pair["one"], pair["other"]) for pair in data["agreement"]] == [
        ("panel", "short"),
        ("panel / strict", "panel / mild"),
        ("panel / strict", "short"),
        ("panel / mild", "short"),
    ]
    assert data["targets"][0]["calls"] == 2  # not counted again for the composite


# -- noise


def test_noise_is_the_spread_of_scores_of_identical_answers(run: Written):
    groups = {"yes": [0.9, 0.7, 0.8, 1.0], "no": [0.2, 0.2], "maybe": [0.75, 0.85]}
    start = 1
    for answer, scores in groups.items():
        run.rows(repeated(answer, scores, start=start))
        start += len(scores)
    run.rows(repeated("only once", [0.1], start=start))
    run.rows(repeated("yes", [0.0], eval_id="another case"))
    noise = run.evaluator("quality")["noise"]
    assert (noise["answers"], noise["rows"], noise["flipped"]) == (3, 8, 2)
    freedom = sum(len(scores) - 1 for scores in groups.values())
    pooled = sum(stdev(scores) ** 2 * (len(scores) - 1) for scores in groups.values()) / freedom
    assert noise["sd"] == pytest.approx(math.sqrt(pooled))
    assert noise["flip_interval"] == list(wilson(2, 3))
    assert noise["flips"] == [
        {"row": 0, "rows": 4, "passed": 3, "lowest": 0.7, "highest": 1.0},
        {"row": 6, "rows": 2, "passed": 1, "lowest": 0.75, "highest": 0.85},
    ]


def test_rows_near_the_pass_line_are_counted_over_all_rows(run: Written):
    run.cases({"quality": 0.5}, ["a", "b", "c", "d", "e"])
    run.rows(repeated("yes", [0.4, 0.6], line=0.5))  # SD 0.1414
    for eval_id, score in {"b": 0.64, "c": 0.65, "d": 0.36, "e": 0.3}.items():
        run.rows(repeated("other", [score], eval_id=eval_id, line=0.5))
    noise = run.evaluator("quality")["noise"]
    assert noise["sd"] == pytest.approx(stdev([0.4, 0.6]))
    assert noise["near"] == 4


def test_rows_near_the_pass_line_are_unknown_without_the_line(run: Written):
    run.rows(repeated("yes", [0.4, 0.6]))
    assert run.evaluator("quality")["noise"]["near"] is None


def test_a_judge_that_repeats_its_scores_has_no_noise_and_no_coin_flips(run: Written):
    run.cases({"quality": 0.8}, ["a"])
    run.rows(repeated("yes", [0.8, 0.8, 0.8]))
    noise = run.evaluator("quality")["noise"]
    assert (noise["sd"], noise["flipped"], noise["near"], noise["flips"]) == (0, 0, 0, [])


def test_replies_from_the_cache_are_left_out_of_the_noise(run: Written):
    run.rows(repeated("yes", [0.9, 0.1]))
    run.rows(repeated("yes", [0.5] * 6, start=3, judge=spent(cache_hits=1)))
    judges = run.judges()
    noise = judges["evaluators"][0]["noise"]
    assert (noise["answers"], noise["rows"]) == (1, 2)
    assert noise["sd"] == pytest.approx(stdev([0.9, 0.1]))
    assert judges["notes"] == ["6 rows left out of the noise, because judge replies came from the cache (--cache)."]


def test_cached_members_make_a_composite_cached(run: Written):
    for n, score in enumerate([0.2, 0.9]):
        members = (judged(score, "strict", judge=spent(cache_hits=n)),)
        panel = result("panel", score, type="composite", evaluator_results=members)
        run.rows([row("a", score, attempt=n + 1, candidate_answer="yes", evaluator_results=(panel,))])
    assert run.evaluator("panel")["noise"] is None
    assert run.evaluator("panel / strict")["noise"] is None


def test_a_replayed_run_says_nothing_about_noise(tmp_path: Path):
    run = Written(tmp_path, replayed={"run_id": "r0"})
    run.rows(repeated("yes", [0.9, 0.1]))
    judges = run.judges()
    assert judges["evaluators"][0]["noise"] is None
    assert judges["notes"] == ["This run was replayed: no judge was called, so noise is not measured."]


def test_checks_without_a_model_are_not_noise(run: Written):
    for n, score in enumerate([0.0, 1.0]):
        fast = result("fast", score, type="latency")
        run.rows([row("a", score, attempt=n + 1, candidate_answer="yes", evaluator_results=(fast,))])
    assert run.evaluator("fast")["noise"] is None
    assert run.evaluator("fast")["length"] is None


def test_rubric_checks_flip_one_by_one(run: Written):
    given = {"yes": [(True, True), (True, False), (False, True)], "no": [(False, True), (False, True)]}
    attempt = 0
    for answer, rows in given.items():
        for first, second in rows:
            attempt += 1
            checks = [{"id": "price", "satisfied": first}, {"id": "polite", "satisfied": second}]
            score = (first + second) / 2
            rubric = judged(score, "rubric", type="rubric", details={"checks": checks})
            run.rows([row("a", score, attempt=attempt, candidate_answer=answer, evaluator_results=(rubric,))])
    assert run.evaluator("rubric")["noise"]["checks"] == [
        {"id": "polite", "answers": 2, "flipped": 1},
        {"id": "price", "answers": 2, "flipped": 1},
    ]


# -- agreement


def test_evaluators_are_compared_on_the_rows_that_both_judged(run: Written):
    pairs = [(0.9, 0.85), (0.9, 0.2), (0.8, 1.0), (0.1, 0.3), (0.5, 0.9), (0.3, 0.3), (1.0, 1.0), (0.8, 0.8)]
    for n, (one, other) in enumerate(pairs):
        run.rows([row(f"case-{n}", evaluator_results=(judged(one, "one"), judged(other, "other")))])
    run.rows([row("only-one", evaluator_results=(judged(0.7, "one"),))])
    failed = judged(0.0, "other", error="no reply")
    run.rows([row("failed", 0.0, evaluator_results=(judged(0.2, "one"), failed))])
    (pair,) = run.judges()["agreement"]
    assert (pair["one"], pair["other"], pair["rows"], pair["agree"]) == ("one", "other", 8, 6)
    passed = [(one >= 0.8, other >= 0.8) for one, other in pairs]
    chance = (5 / 8) * (5 / 8) + (3 / 8) * (3 / 8)
    assert sum(one for one, _ in passed) == sum(other for _, other in passed) == 5
    assert pair["kappa"] == pytest.approx((6 / 8 - chance) / (1 - chance))
    assert pair["rho"] == pytest.approx(stats.spearmanr(*zip(*pairs, strict=True)).statistic)


def test_most_evaluators_are_left_out_of_the_agreement_with_a_note(run: Written):
    checks = tuple(result(f"check-{n}", 1.0, type="contains") for n in range(14))
    run.rows([row("a", evaluator_results=(*checks, judged(1.0)))])
    judges = run.judges()
    names = {pair["one"] for pair in judges["agreement"]} | {pair["other"] for pair in judges["agreement"]}
    assert names == {"quality", *(f"check-{n}" for n in range(9))}
    assert judges["notes"] == [
        "Agreement is computed for 10 evaluators. Left out: check-9, check-10, check-11, check-12, check-13."
    ]


# -- length


def test_length_correlation_has_one_pair_for_each_case(run: Written):
    scores = [0.1, 0.3, 0.2, 0.5, 0.5, 0.6, 0.9, 0.7, 0.8, 1.0, 0.4, 0.6]
    lengths = [10, 12, 30, 25, 50, 45, 80, 60, 61, 90, 15, 15]
    for n, (score, length) in enumerate(zip(scores, lengths, strict=True)):
        run.rows(repeated("x" * length, [score] * (1 + n % 3), eval_id=f"case-{n}"))
    known = stats.spearmanr(scores, lengths)
    length_of = run.evaluator("quality")["length"]
    assert length_of["rows"] == 12
    assert length_of["rho"] == pytest.approx(known.statistic)
    assert length_of["p"] == pytest.approx(known.pvalue)


def test_few_cases_have_no_p_value(run: Written):
    for n in range(9):
        run.rows(repeated("x" * n, [n / 10], eval_id=f"case-{n}"))
    length = run.evaluator("quality")["length"]
    assert (length["rows"], length["rho"], length["p"]) == (9, 1, None)


# -- labels


def label(run: Written, case: CaseResult, value: str | None, by: str = "ada", answer: str | None = None) -> None:
    said = None if value is None else LabelValue(value)
    text = case.candidate_answer if answer is None else answer
    append_label(run.directory, new_label(case.key, text, said, by=by))


def labelled(run: Written, pairs: Sequence[tuple[float, str]]) -> list[CaseResult]:
    """Rows with these scores and labels."""
    rows = [
        row(f"case-{n}", score, candidate_answer=f"answer {n}", evaluator_results=(judged(score),))
        for n, (score, _) in enumerate(pairs)
    ]
    run.rows(rows)
    for case, (_, value) in zip(rows, pairs, strict=True):
        label(run, case, value)
    return rows


def test_verdicts_are_compared_with_labels(run: Written):
    pairs = [(1.0, "pass")] * 5 + [(0.9, "fail")] * 2 + [(0.7, "pass")] + [(0.1, "fail")] * 4
    labelled(run, pairs)
    judges = run.judges()
    chance = (7 / 12) * (6 / 12) + (5 / 12) * (6 / 12)
    expected = {
        "labels": 12,
        "agree": 9,
        "interval": list(wilson(9, 12)),
        "kappa": pytest.approx((9 / 12 - chance) / (1 - chance)),
        "wrongly_passed": 2,
        "wrongly_failed": 1,
        "rows": [5, 6, 7],
    }
    assert judges["labels"] == expected
    assert judges["evaluators"][0]["labels"] == expected


def test_labels_of_other_answers_and_unsure_ones_do_not_count(run: Written):
    rows = labelled(run, [(1.0, "pass"), (1.0, "fail"), (0.1, "unsure"), (0.1, "fail")])
    label(run, rows[1], "fail", answer="an older answer")
    label(run, rows[3], None)
    label(run, row("another case"), "pass")
    judges = run.judges()
    assert (judges["labels"]["labels"], judges["labels"]["agree"], judges["labels"]["kappa"]) == (1, 1, None)
    assert judges["notes"] == [
        "1 label not used: this run does not have the row.",
        "1 label not used: the answer has changed since.",
        "1 label not used: “unsure”.",
    ]


def test_of_several_people_the_majority_counts(run: Written):
    rows = labelled(run, [(1.0, "pass"), (1.0, "pass"), (0.1, "pass"), (0.1, "fail")])
    for case, others in zip(rows, [("fail", "pass"), ("fail", "fail"), ("fail", None), ("fail", None)], strict=True):
        for by, value in zip(("ben", "cat"), others, strict=True):
            if value:
                label(run, case, value, by)
    judges = run.judges()
    # Row 0 pass (2 of 3), row 1 fail (2 of 3), row 2 is disputed, row 3 fail.
    assert (judges["labels"]["labels"], judges["labels"]["agree"], judges["labels"]["rows"]) == (3, 2, [1])
    assert judges["notes"] == ["1 row not used: as many people say pass as fail."]
    agreed = {(pair["one"], pair["other"]): (pair["rows"], pair["agree"]) for pair in judges["people"]}
    assert agreed == {("ada", "ben"): (4, 1), ("ada", "cat"): (2, 1), ("ben", "cat"): (2, 1)}


def test_labels_count_as_soon_as_they_are_given(run: Written):
    rows = labelled(run, [(1.0, "pass")])
    assert run.judges()["labels"]["agree"] == 1
    label(run, rows[0], "fail")
    assert run.judges()["labels"]["wrongly_passed"] == 1
    label(run, rows[0], None)
    assert run.judges()["labels"] is None


def test_errors_are_not_compared_with_labels(run: Written):
    broken = error_row("down", "HTTP 503")
    run.rows([broken])
    label(run, broken, "fail")
    assert run.judges()["labels"] is None


# -- what is in the files


def test_damaged_and_duplicate_rows_are_skipped(run: Written):
    run.rows(repeated("yes", [0.9]))
    with run.directory.results.open("ab") as file:
        file.write(b'{"eval_id": "a"\n[]\n')
    run.rows(repeated("yes", [0.1]))  # the same key
    run.rows(repeated("yes", [0.7], start=2))
    quality = run.evaluator("quality")
    assert (quality["rows"], quality["mean"]) == (2, 0.8)


def test_a_growing_run_is_read_again(run: Written):
    run.rows(repeated("yes", [0.9]))
    assert run.evaluator("quality")["rows"] == 1
    run.rows(repeated("yes", [0.7], start=2))
    assert run.evaluator("quality")["noise"]["answers"] == 1
    run.calls([call(1)])
    assert run.judges()["targets"][0]["calls"] == 1


def test_a_run_without_rows_has_no_judges(run: Written):
    run.directory.results.touch()
    nothing: dict[str, Any] = {
        "targets": [],
        "evaluators": [],
        "agreement": [],
        "labels": None,
        "people": [],
        "notes": [],
    }
    assert nothing.items() <= run.judges().items()


def test_hostile_values_are_unknown(run: Written):
    lines = [
        {**json.loads(encode_row(row(f"case-{n}", evaluator_results=()))), "evaluator_results": results}
        for n, results in enumerate(
            [
                "none",
                [1, None, {"name": 3}],
                [{"name": "quality", "type": 7, "score": "1", "judge": {"call_count": -4, "cost_usd": 1e300}}],
                [{"name": "quality", "score": 0.5, "judge": {"call_count": 1, "cost_usd": "free", "token_usage": []}}],
                [{"name": "quality", "score": 7.5, "details": {"checks": [None, {"id": 3}]}}],
            ]
        )
    ]
    run.directory.results.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (quality,) = run.judges()["evaluators"]
    assert (quality["rows"], quality["errors"], quality["mean"], quality["calls"]) == (3, 2, 0.5, 1)
    assert (quality["cost_usd"], quality["cost_complete"]) == (None, False)
