"""Remake the pictures of the README: run the real commands in a real terminal (tmux) and draw its screen.

.venv/bin/python docs/images/make_screenshot.py
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
IMAGES = {
    "demo.svg": "agentv eval examples/contextual-precision/suite.yaml --out rows.jsonl",
    "regression.svg": "agentv eval examples/regression/suite.yaml --target before --target after",
}
THEN = {"demo.svg": "python examples/contextual-precision/compare.py rows.jsonl"}
COLUMNS = 92
DONE = "command-is-over"
THEME = TerminalTheme(
    (17, 20, 28),
    (215, 218, 224),
    [
        (17, 20, 28),
        (240, 113, 120),
        (126, 196, 128),
        (230, 192, 104),
        *[(130, 170, 255)] * 3,
        (215, 218, 224),
    ],
    [
        (92, 99, 112),
        (240, 113, 120),
        (126, 196, 128),
        (230, 192, 104),
        *[(130, 170, 255)] * 3,
        (255, 255, 255),
    ],
)


def screen(command: str, folder: Path) -> str:
    """What a terminal shows after the command, with its colours."""
    tmux = ["tmux", "-L", f"agentv-{folder.name}", "-f", "/dev/null"]
    size = ["-x", str(COLUMNS), "-y", "60"]
    ready = f"cd {folder}; PATH={Path(sys.executable).parent}:$PATH; unset NO_COLOR CI; clear"
    script = f"{ready}; {command}; echo {DONE}; sleep 60"
    subprocess.run([*tmux, "new-session", "-d", *size, "sh", "-c", script], check=True)
    try:
        for _ in range(300):
            shown = subprocess.run(
                [*tmux, "capture-pane", "-e", "-p"], check=True, capture_output=True, text=True
            ).stdout
            if DONE in shown:
                return shown.partition(DONE)[0].rstrip()
            time.sleep(0.1)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    raise TimeoutError(f"{command} did not end within 30 s; the screen was:\n{shown}")


def draw(screens: dict[str, str], path: Path) -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    for command, shown in screens.items():
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")), soft_wrap=True)
        console.print(Text.from_ansi(shown), soft_wrap=True, highlight=False)
        console.print()
    # Fixed ids, so that remaking a picture changes only what looks different.
    drawn = console.export_svg(title="agentv", theme=THEME, unique_id=path.stem)
    path.write_text("\n".join(line.rstrip() for line in drawn.splitlines()) + "\n", encoding="utf-8")


def main() -> int:
    if shutil.which("tmux") is None:
        print("tmux is needed to draw a terminal: install it, then run this again.", file=sys.stderr)
        return 2
    for name, command in IMAGES.items():
        with tempfile.TemporaryDirectory(prefix="agentv-picture-") as folder:
            shutil.copytree(ROOT / "examples", Path(folder) / "examples")
            path = Path(__file__).with_name(name)
            typed = [command, THEN[name]] if name in THEN else [command]
            draw({line: screen(line, Path(folder)) for line in typed}, path)
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
