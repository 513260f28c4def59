"""The cases of `python -m benchmarks.libraries` in DeepEval itself: `python deepeval_cases.py CASES`."""

import sys

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import ContextualPrecisionMetric
from deepeval.test_case import LLMTestCase

passages = ["Paris is the capital of France.", "Lyon is a city."]
result = evaluate(
    [
        LLMTestCase(
            input=f"What is the capital of France? ({n})",
            actual_output="Paris",
            expected_output="Paris",
            retrieval_context=passages,
        )
        for n in range(int(sys.argv[1]))
    ],
    metrics=[ContextualPrecisionMetric(model="gpt-4o")],
    async_config=AsyncConfig(run_async=True, throttle_value=0),
    display_config=DisplayConfig(show_indicator=False, print_results=False),
    cache_config=CacheConfig(write_cache=False, use_cache=False),
)
print("passed", sum(bool(test.success) for test in result.test_results))
