"""Compare the judges of a run: scores, calls, tokens and cost. Usage: python compare.py results.jsonl"""

import json
import sys
from pathlib import Path


def show(title, cells):
    print(f"{title:18}" + "".join(f"{cell:>22}" for cell in cells))


rows = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
rows.sort(key=lambda row: (-row["score"], row["eval_id"]))
show("score", [result["name"] for result in rows[0]["evaluator_results"]])
for row in rows:
    show(row["eval_id"], [f"{result['score']:.4f}" for result in row["evaluator_results"]])

judges = zip(*(row["evaluator_results"] for row in rows), strict=True)
spent = [[result["judge_proxy"] for result in results] for results in judges]
show("judge calls", [sum(ledger["call_count"] for ledger in ledgers) for ledgers in spent])
show("tokens", [f"{sum(sum(ledger['token_usage'].values()) for ledger in ledgers):,}" for ledgers in spent])
show("cost", [f"${sum(ledger['cost_usd'] for ledger in ledgers):.4f}" for ledgers in spent])
show("time in calls", [f"{sum(ledger['duration_ms'] for ledger in ledgers) / 1000:.1f} s" for ledgers in spent])
