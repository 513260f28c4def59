"""Redraw the pictures of the README (`make pictures`): run each command in a terminal (tmux) and draw its screen."""

from __future__ import annotations

import io
import os
import re
import secrets
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
SUITE = "examples/retriever-regression/suite.yaml"
PICTURES = {
    "demo.svg": ["agentv compare v1.jsonl v2.jsonl"],
    "regression.svg": ["agentv eval examples/regression/suite.yaml --target before --target after"],
}
NOT_SHOWN = {"demo.svg": [f"agentv eval {SUITE} --target {name} --out {name}.jsonl" for name in ("v1", "v2")]}
"""Commands that run before those of a picture."""
COLUMNS = 92
DONE = "command-has-ended"
UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
"""Most readers do not run as root, so root drops its privileges for the pictures."""
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
    """The screen of a terminal after the command, with colours."""
    tmux = ["tmux", "-L", f"agentv-{secrets.token_hex(8)}", "-f", "/dev/null"]
    size = ["-x", str(COLUMNS), "-y", "60"]
    ready = f"cd {folder}; PATH={Path(sys.executable).parent}:$PATH; unset NO_COLOR CI; clear"
    script = f"{ready}; {command}; echo {DONE}; sleep 60"
    subprocess.run([*tmux, "new-session", "-d", *size, *UNPRIVILEGED, "sh", "-c", script], check=True)
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
    raise TimeoutError(f"{command} did not end within 30 s. Screen:\n{shown}")


def draw(screens: dict[str, str], path: Path) -> None:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    for command, shown in screens.items():
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")), soft_wrap=True)
        console.print(Text.from_ansi(shown), soft_wrap=True, highlight=False)
        console.print()
    # Fixed ids keep the diff of a redrawn picture small.
    drawn = console.export_svg(title="agentv", theme=THEME, unique_id=path.stem)
    # Without fonts of another host: the pictures look the same online and offline.
    drawn = re.sub(r"    @font-face \{.*?\}\n", "", drawn, flags=re.DOTALL)
    path.write_text("\n".join(line.rstrip() for line in drawn.splitlines()) + "\n", encoding="utf-8")


def main() -> int:
    if shutil.which("tmux") is None:
        print("tmux is not installed. Install it, then run `make pictures` again.", file=sys.stderr)
        return 2
    for name, commands in PICTURES.items():
        with tempfile.TemporaryDirectory(prefix="agentv-picture-") as folder:
            shutil.copytree(ROOT / "examples", Path(folder) / "examples")
            for command in NOT_SHOWN.get(name, []):
                screen(command, Path(folder))
            path = Path(__file__).with_name(name)
            draw({command: screen(command, Path(folder)) for command in commands}, path)
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
