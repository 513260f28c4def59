"""Golden files: expected console output. `make golden` rewrites them."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent


def check_golden(name: str, text: str) -> None:
    """Compare the text with the golden file, or write the file if AGENTV_REWRITE_GOLDEN=1."""
    path = HERE / f"{name}.txt"
    if os.environ.get("AGENTV_REWRITE_GOLDEN") == "1":
        path.write_text(text + "\n", encoding="utf-8", newline="\n")
    assert path.exists(), f"{path} is missing; run `make golden` to write it"
    assert text + "\n" == path.read_text(encoding="utf-8"), (
        f"the text differs from {path}; if this is intended, run `make golden` and review the diff"
    )
