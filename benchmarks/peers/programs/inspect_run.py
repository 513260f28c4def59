"""One workload in Inspect AI: `python inspect_run.py WORKLOAD CASES IN_FLIGHT`; prints the number of passed cases."""

import json
import os
import sys

from inspect_ai import Task, eval  # noqa: A004 - its name there
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import Score, accuracy, includes, model_graded_qa, scorer
from inspect_ai.util import subprocess

workload, cases, in_flight = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


@scorer(metrics=[accuracy()])
def script():
    async def score(state, _target):
        given = json.dumps({"output": state.output.completion})
        done = await subprocess([os.environ["SCRIPT_PYTHON"], "script.py"], input=given)
        return Score(value=json.loads(done.stdout)["score"])

    return score


@scorer(metrics=[accuracy()])
def script_judge():
    async def score(state, _target):
        question = f"Does the answer name the capital?\n\n{state.output.completion}"
        reply = await get_model(role="grader").generate(question)
        return Score(value=1.0 if "Paris" in reply.completion else 0.0)

    return score


scorers = {
    "contains": includes,
    "llm-judge": lambda: model_graded_qa(model_role="grader"),
    "script": script,
    "script-judge": script_judge,
}
samples = [Sample(input=f"What is the capital of France? ({n})", target="Paris") for n in range(cases)]
(log,) = eval(
    Task(dataset=samples, scorer=scorers[workload]()),
    model="openai/assistant-model",
    model_roles={"grader": f"openai/{os.environ['JUDGE_MODEL']}"},
    max_connections=in_flight,
    max_samples=in_flight,
    max_subprocesses=in_flight,
    display="none",
)
values = [score.value for sample in log.samples or [] for score in (sample.scores or {}).values()]
print("passed", sum(value in (1.0, "C") for value in values))
if log.error:
    sys.exit(log.error.message)
