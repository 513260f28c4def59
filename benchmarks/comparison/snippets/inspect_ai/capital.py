# ruff: noqa: A004, ARG001
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample

# scorer
from inspect_ai.model import get_model
from inspect_ai.scorer import Score, accuracy, scorer


@scorer(metrics=[accuracy()])
def capital():
    async def score(state, target):
        question = "Does the answer name the capital? Answer yes or no."
        reply = await get_model(role="grader").generate(f"{question}\n\n{state.output.completion}")
        return Score(value=1 if reply.completion.strip(" .\n").lower() == "yes" else 0)

    return score


# end of scorer

task = Task(dataset=[Sample(input="What is the capital of France?")], scorer=capital())
(log,) = eval(task, model="openai/assistant-model", model_roles={"grader": "openai/judge-model"}, display="none")
print("score", log.samples[0].scores["capital"].value)
