"""`make demo`: scores, judge calls, and what they would have cost."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT

BIN = Path(sys.executable).parent


def test_the_demo_shows_scores_judge_calls_and_their_cost(folder: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe is not None
    commands = recipe[1].replace("$(BIN)", str(BIN))
    done = subprocess.run(
        ["sh", "-ec", commands], cwd=folder, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shown = [line.split() for line in done.stdout.splitlines()]
    assert ["shipping-cost", "0.8333", "0.8333"] in shown
    assert ["judge", "calls", "24", "8"] in shown
    assert ["cost", "$0.0037", "$0.0027"] in shown  # 24 x $0.000156, 8 x $0.000333
    assert "32 calls, 1,880 tokens" in done.stdout
