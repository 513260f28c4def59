"""The judge script of the workload `script`: the answer on standard input, a score on standard output."""

import json
import sys

given = json.load(sys.stdin)
answer = given.get("candidate_answer") or given["output"]
print(json.dumps({"score": 1.0 if "Paris" in str(answer) else 0.0}))
