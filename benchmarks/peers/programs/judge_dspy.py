"""A judge script with an unmodified module of DSPy, as used by `python -m benchmarks.libraries`."""

import json
import sys
import time

import dspy

begun = time.monotonic()
case = json.load(sys.stdin)
dspy.configure(lm=dspy.LM("openai/gpt-4o-mini", cache=False))
judge = dspy.Predict("question, answer -> correct: bool")
reply = judge(question=case["question"], answer=case["candidate_answer"])
print(json.dumps({"score": float(reply.correct), "details": {"begun": begun, "cpu": time.process_time()}}))
