import asyncio

# scorer
from openai import AsyncOpenAI
from ragas.metrics import MetricResult, numeric_metric

client = AsyncOpenAI()


@numeric_metric(name="capital", allowed_values=(0, 1))
async def capital(response: str) -> MetricResult:
    question = "Does the answer name the capital? Answer yes or no."
    messages = [{"role": "user", "content": f"{question}\n\n{response}"}]
    reply = await client.chat.completions.create(model="judge-model", messages=messages)
    return MetricResult(value=1 if reply.choices[0].message.content.strip(" .\n").lower() == "yes" else 0)


# end of scorer


async def main() -> None:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    answer = await client.chat.completions.create(model="assistant-model", messages=messages)
    result = await capital.ascore(response=answer.choices[0].message.content)
    print("score", result.value)


asyncio.run(main())
