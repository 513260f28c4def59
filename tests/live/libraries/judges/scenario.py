"""Runs the metric of a judge script: `parallel` (three at the same time) or `failing` (two, one after the other)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

COUNT = 3
Case = Mapping[str, Any]


def run(metric: Callable[[Case], float]) -> None:
    case = json.load(sys.stdin)
    secrets = [name for name, value in os.environ.items() if value == "the-key-of-the-judge"]
    if case["metadata"]["mode"] == "parallel":
        with ThreadPoolExecutor(COUNT) as pool:
            scores = list(pool.map(lambda _: metric(case), range(COUNT)))
        print(json.dumps({"score": scores[0], "details": {"scores": scores, "secrets": secrets}}))
        return
    try:
        score = metric(case)
    except Exception:  # each library has its own
        score = metric(case)
    print(json.dumps({"score": score}))
