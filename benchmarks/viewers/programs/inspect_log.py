"""Writes samples as a log of Inspect AI: `python inspect_log.py SAMPLES FILE`. Runs where inspect-ai is installed."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import ChatMessageUser, ModelOutput
from inspect_ai.scorer import Score


def sample_of(one: dict) -> EvalSample:
    output = ModelOutput.from_content("mockllm/model", one["answer"])
    return EvalSample(
        id=one["id"],
        epoch=1,
        input=one["question"],
        target=one["expected"],
        messages=[ChatMessageUser(content=one["question"]), output.message],
        output=output,
        scores={"quality": Score(value=one["score"], answer=one["answer"], explanation=one["reasoning"])},
    )


samples = [sample_of(one) for one in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))]
now = datetime.now(UTC).isoformat()
mean = sum(sample.scores["quality"].value for sample in samples) / len(samples)
score = EvalScore(name="quality", scorer="quality", metrics={"mean": EvalMetric(name="mean", value=mean)})
log = EvalLog(
    status="success",
    eval=EvalSpec(
        created=now,
        task="support",
        dataset=EvalDataset(name="support", samples=len(samples), sample_ids=[sample.id for sample in samples]),
        model="mockllm/model",
        config=EvalConfig(),
    ),
    results=EvalResults(total_samples=len(samples), completed_samples=len(samples), scores=[score]),
    stats=EvalStats(started_at=now, completed_at=now),
    samples=samples,
)
write_eval_log(log, sys.argv[2])
