"""A judge script with an unmodified metric of Ragas, as used by `python -m benchmarks.libraries`."""

import asyncio
import json
import sys
import time

from openai import AsyncOpenAI
from ragas.llms import llm_factory
from ragas.metrics.collections import Faithfulness

begun = time.monotonic()
case = json.load(sys.stdin)
metric = Faithfulness(llm=llm_factory("gpt-4o-mini", client=AsyncOpenAI()))
passages = ["Paris is the capital of France."]
result = asyncio.run(
    metric.ascore(user_input=case["question"], response=case["candidate_answer"], retrieved_contexts=passages)
)
print(json.dumps({"score": result.value, "details": {"begun": begun, "cpu": time.process_time()}}))
