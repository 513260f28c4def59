"""`python -m benchmarks.viewers`: the same results in the viewers of several tools, in one browser.

Installs each tool temporarily, which needs network access. The measurement runs in a network namespace that has
loopback only (`unshare`, Linux), so that no viewer can reach another machine or be reached from one.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.browsing import TooSlowError, browser
from benchmarks.measure import RESULTS, ROOT
from benchmarks.peers.running import QUIET, NotRunError, install
from benchmarks.report import machine
from benchmarks.viewers.measuring import compressed, measure, write_samples
from benchmarks.viewers.table import table
from benchmarks.viewers.tools import VIEWERS, Viewer

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- viewers: begin -->", "<!-- viewers: end -->"
_ALONE = "AGENTV_BENCH_ALONE"
_SIOCSIFFLAGS, _UP_AND_RUNNING = 0x8914, 0x41


def main(arguments: Sequence[str] | None = None) -> int:
    keys = [viewer.key for viewer in VIEWERS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.viewers", description="The same results in several viewers."
    )
    parser.add_argument("--viewers", metavar="NAMES", default=",".join(keys), help=f"{','.join(keys)}; all by default")
    parser.add_argument(
        "--sizes", metavar="NUMBERS", default="1000,10000", help="numbers of results (default: 1000,10000)"
    )
    parser.add_argument(
        "--turns", type=int, default=3, metavar="N", help="how often each viewer is opened (default: 3)"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="directory to keep and reuse installations")
    parser.add_argument("--results", type=Path, default=RESULTS / "viewers.json", metavar="FILE", help="the figures")
    parser.add_argument("--from", type=Path, dest="measured", metavar="FILE", help="read figures instead of measuring")
    parser.add_argument("--write", action="store_true", help="write the table to docs/performance.md")
    args = parser.parse_args(arguments)
    if unknown := [name for name in args.viewers.split(",") if name not in keys]:
        parser.error(f"unknown viewer '{unknown[0]}'; available: {', '.join(keys)}")
    chosen = [viewer for viewer in VIEWERS if viewer.key in args.viewers.split(",")]
    if args.measured is not None:
        data = json.loads(args.measured.read_text(encoding="utf-8"))
    else:
        with tempfile.TemporaryDirectory(prefix="agentv-viewers-installed-") as moment:
            keep = (args.keep or Path(moment)).resolve()
            if _ALONE not in os.environ:
                _install_all(chosen, keep)
                return _alone([*(arguments or sys.argv[1:]), "--keep", str(keep)])
            _use_loopback()
            args.results.parent.mkdir(parents=True, exist_ok=True)
            data = contest(chosen, [int(size) for size in args.sizes.split(",")], args.turns, keep, args.results)
    print(table(data))
    if args.write:
        write(data, PAGE)
    return 0


def _install_all(viewers: Sequence[Viewer], keep: Path) -> None:
    for viewer in viewers:
        try:
            install(viewer.tool, keep)
        except NotRunError as error:
            _say(f"{viewer.key} could not be installed: {error}")


def _alone(arguments: Sequence[str]) -> int:
    """Run this command again in a namespace without a network."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", *as_root, "--net", sys.executable, "-m", "benchmarks.viewers", *arguments]
    try:
        return subprocess.run(command, env={**os.environ, **QUIET, _ALONE: "1"}, check=False).returncode
    except FileNotFoundError:
        sys.exit("`unshare` is not installed. The viewers are only run without a network.")


def _use_loopback() -> None:
    """Turn on the loopback device of the namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))


def contest(viewers: Sequence[Viewer], sizes: Sequence[int], turns: int, keep: Path, results: Path) -> dict[str, Any]:
    """Measure all viewers with all sizes. A viewer that was too slow is not measured with more results."""
    rows: dict[str, dict[str, Any]] = {viewer.key: {"name": viewer.name, "sizes": {}} for viewer in viewers}
    about = {"measured_at": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine(), "turns": turns}
    data = {**about, "sizes": list(sizes), "viewers": rows}
    with tempfile.TemporaryDirectory(prefix="agentv-viewers-") as temporary, browser() as launched:
        scratch = Path(temporary)
        os.environ["HOME"] = str(scratch)
        os.environ["PROMPTFOO_CONFIG_DIR"] = str(scratch / "promptfoo")
        data["browser"] = launched.version
        for size in sizes:
            directory = scratch / f"20260101-000000-{size:09x}"
            write_samples(directory, size)
            for viewer in viewers:
                row = rows[viewer.key]
                if "error" in row:
                    continue
                to = scratch / f"{viewer.key}-{size}"
                to.mkdir()
                _say(f"{viewer.key}: preparing {size:,} results")
                try:
                    installed = install(viewer.tool, keep)
                    row["version"] = installed.version
                    row["interface_bytes"] = compressed(viewer.interface(keep / "".join(viewer.tool.packages[:1])))
                    row["sizes"][str(size)] = measure(launched, viewer, installed, directory, to, turns, _say)
                except (NotRunError, TooSlowError) as error:
                    row["error"] = f"{size:,} results: {error}"
                    _say(f"{viewer.key}: {row['error']}")
                results.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    return data


def write(data: dict[str, Any], page: Path) -> None:
    """Replace the text between the markers of the page."""
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SystemExit(f"{page} must have one line `{BEGIN}` and one line `{END}`; the table goes between them.")
    before, _, rest = text.partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{table(data)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
