"""A judge script with an unmodified metric of DeepEval, as used by `python -m benchmarks.libraries`."""

import json
import sys
import time

from deepeval.metrics import ContextualPrecisionMetric
from deepeval.test_case import LLMTestCase

begun = time.monotonic()
case = json.load(sys.stdin)
metric = ContextualPrecisionMetric(model="gpt-4o", async_mode=False)
test_case = LLMTestCase(
    input=case["question"],
    actual_output=case["candidate_answer"],
    expected_output="Paris",
    retrieval_context=["Paris is the capital of France.", "Lyon is a city."],
)
score = metric.measure(test_case, _show_indicator=False)
print(json.dumps({"score": score, "details": {"begun": begun, "cpu": time.process_time()}}))
