"""A judge script with an unmodified evaluator of LlamaIndex, as used by `python -m benchmarks.libraries`."""

import json
import sys
import time

from llama_index.core.evaluation import CorrectnessEvaluator
from llama_index.llms.openai import OpenAI

begun = time.monotonic()
case = json.load(sys.stdin)
evaluator = CorrectnessEvaluator(llm=OpenAI(model="gpt-4o"))
result = evaluator.evaluate(query=case["question"], response=case["candidate_answer"], reference="Paris")
print(json.dumps({"score": result.score / 5, "details": {"begun": begun, "cpu": time.process_time()}}))
