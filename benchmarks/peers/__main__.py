"""`python -m benchmarks.peers`: the same work in agentv and in other tools, in one run.

Installs each tool temporarily, which needs network access; nothing else does. Takes about 15 minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import RESULTS, ROOT
from benchmarks.peers.contest import contest
from benchmarks.peers.plot import plot
from benchmarks.peers.table import report
from benchmarks.peers.tools import OWN, TOOLS, Tool
from benchmarks.peers.workloads import FULL, QUICK

PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "images" / "peers.svg"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description="The same work in several tools.")
    parser.add_argument("--tools", metavar="NAMES", help=f"{','.join(tool.key for tool in TOOLS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="few cases, one turn; the numbers are meaningless")
    parser.add_argument("--turns", type=int, metavar="N", help="runs of each workload in each tool (default: 3)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="directory to keep and reuse installations")
    parser.add_argument("--results", type=Path, default=RESULTS / "peers.json", metavar="FILE", help="the figures")
    parser.add_argument(
        "--from", type=Path, dest="measured", metavar="FILE", help="read figures from a file instead of measuring"
    )
    parser.add_argument("--write", action="store_true", help="write the table and the picture to docs/")
    args = parser.parse_args(arguments)
    if args.write and args.quick:
        parser.error("--write cannot be combined with --quick, whose numbers are meaningless")
    tools = _chosen(parser, args.tools)
    if args.measured is not None:
        data = json.loads(args.measured.read_text(encoding="utf-8"))
    else:
        with tempfile.TemporaryDirectory(prefix="agentv-peers-installed-") as moment:
            keep = (args.keep or Path(moment)).resolve()
            workloads = QUICK if args.quick else FULL
            args.results.parent.mkdir(parents=True, exist_ok=True)
            for data in contest(tools, workloads, args.turns or (1 if args.quick else 3), keep, _say):
                args.results.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    print(report(data))
    if args.write:
        write(data, PAGE, PICTURE)
    return 0


def _chosen(parser: argparse.ArgumentParser, names: str | None) -> list[Tool]:
    """The selected tools, always with agentv as the baseline."""
    wanted = [name.strip() for name in names.split(",")] if names else [tool.key for tool in TOOLS]
    unknown = [name for name in wanted if name not in {tool.key for tool in TOOLS}]
    if unknown:
        parser.error(f"unknown tool '{unknown[0]}'; available: {', '.join(tool.key for tool in TOOLS)}")
    return [tool for tool in TOOLS if tool.key in {OWN, *wanted}]


def write(data: dict[str, object], page: Path, picture: Path) -> None:
    """Replace the text between the markers of the page, and the picture."""
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SystemExit(f"{page} must have one line `{BEGIN}` and one line `{END}`; the table goes between them.")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{report(data)}\n{END}{after}", encoding="utf-8")
    picture.write_text(plot(data), encoding="utf-8")


def _say(text: str) -> None:
    """Print what is being measured."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
