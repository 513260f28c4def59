"""`make demo`: run the suite against both versions of the retriever, then compare. Offline, no API key.

v2 is worse than v1, so `agentv eval` and `agentv compare` are expected to exit with 1 for it. The demo itself exits
with 0 when every command has the expected exit code, otherwise with 1.
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = Path(".agentv/demo")


def heading(text):
    print(f"\n=== {text}\n", flush=True)


def run(expected_exit_code, arguments, meaning):
    print(f"$ agentv {arguments}", flush=True)
    command = [sys.executable, "-m", "agentv", *arguments.split()]
    exit_code = subprocess.run(command, cwd=HERE, check=False).returncode
    if exit_code != expected_exit_code:
        sys.exit(f"The demo failed: expected exit code {expected_exit_code}, got {exit_code}.")
    print(f"\nExit code {exit_code}, as expected: {meaning}.", flush=True)


def read_rows(version):
    lines = (HERE / RESULTS / f"{version}.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["eval_id"]: row for row in map(json.loads, lines)}


def search_of(row):
    (call,) = row["output_messages"][0]["tool_calls"]
    return call["input"]["query"], call["output"]


def show(version, row):
    (judged,) = row["evaluator_results"]
    print(f"{version} scores {row['score']:.2f}. Does the passage help? The judge says:")
    for rank, passage in enumerate(search_of(row)[1], 1):
        helps = any(hit.endswith(passage) for hit in judged["hits"])
        print(f"  {rank}. {'yes' if helps else 'no '}  {passage}")
    print(f"  Reason: {judged['reasoning']}")


heading("Version 1 of the retriever: every case passes")
run(0, f"eval suite.yaml --target v1 --out {RESULTS}/v1.jsonl", "every case passed")

heading('Version 2, after a "simplification": some cases fail')
run(1, f"eval suite.yaml --target v2 --out {RESULTS}/v2.jsonl", "some cases failed")

heading("One failing case: what each version found, and what the judge said")
before, after = read_rows("v1"), read_rows("v2")
worst = min(after, key=lambda eval_id: (after[eval_id]["score"], eval_id))
print(f"Question: {search_of(after[worst])[0]}\n")
show("v1", before[worst])
print()
show("v2", after[worst])

heading("Is v2 really worse, or was it chance?")
run(1, f"compare {RESULTS}/v1.jsonl {RESULTS}/v2.jsonl", "agentv found a regression")
print("\nThe demo worked: v1 passes, v2 is caught. In CI, exit code 1 fails the build.")
