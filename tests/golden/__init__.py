"""Golden files: what a person reads, kept as text. `make golden` rewrites them."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent


def check_golden(name: str, text: str) -> None:
    """The text must be what the golden file holds, or become it when AGENTV_REWRITE_GOLDEN=1."""
    path = HERE / f"{name}.txt"
    if os.environ.get("AGENTV_REWRITE_GOLDEN") == "1":
        path.write_text(text + "\n", encoding="utf-8", newline="\n")
    assert path.exists(), f"{path} is missing; `make golden` writes it"
    assert text + "\n" == path.read_text(encoding="utf-8"), (
        f"the text differs from {path}; if that is meant, run `make golden` and read the difference"
    )
