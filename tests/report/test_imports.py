"""Modules that reporting imports."""

from __future__ import annotations

import json
import subprocess
import sys

PLAIN = """
import io, json, sys
from agentv.report.console import render_summary
from agentv.report.problems import render_problems
from agentv.report.live import choose_progress
from agentv.report.summary import SummaryBuilder
from agentv.results import CaseResult, Verdict

row = CaseResult("r", "a", "s", "t", 1, 0.1, Verdict.FAIL)
progress = choose_progress(io.StringIO(), False, {})
progress.start(1, 0); progress.row(row); progress.note("n"); progress.close()
builder = SummaryBuilder(); builder.add(row)
summary = builder.build()
render_summary(summary, run_dir="r", resume_hint=None, interrupted=False, color=True, width=80, unicode=True)
json.dumps(summary.to_dict())
print(json.dumps(sorted(sys.modules)))
"""


def test_plain_output_imports_neither_rich_nor_the_run_modules():
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not {name for name in loaded if name.split(".")[0] in {"rich", "pydantic", "asyncio", "aiohttp"}}
    ours = {name.split(".")[1] for name in loaded if name.startswith("agentv.")}
    known = {"amounts", "codec", "errors", "messages", "results", "record", "redact", "report", "text", "jsonio"}
    known.add("trials")
    assert ours <= known
