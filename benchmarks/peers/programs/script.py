"""The judge script of the workload `script`: reads the answer from stdin and prints a score."""

import json
import sys

given = json.load(sys.stdin)
answer = given.get("candidate_answer") or given["output"]
print(json.dumps({"score": 1.0 if "Paris" in str(answer) else 0.0}))
