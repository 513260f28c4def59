"""`python -m benchmarks [NAME ...]`: run benchmarks, print tables, write `benchmarks/results/<name>.json`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import (
    clients,
    inline,
    latency,
    llm_judge,
    loading,
    looking,
    masking,
    memory,
    nodes,
    proxy,
    reuse,
    run_list,
    scripts,
    startup,
    throughput,
    viewer,
    warm,
)
from benchmarks.measure import RESULTS, ROOT, SOURCE, FailedError
from benchmarks.options import Options
from benchmarks.report import machine
from benchmarks.workload import warm_up

BENCHMARKS = {
    module.NAME: module.measure
    for module in (
        startup,
        throughput,
        latency,
        memory,
        loading,
        run_list,
        looking,
        viewer,
        scripts,
        warm,
        reuse,
        inline,
        nodes,
        proxy,
        clients,
        llm_judge,
        masking,
    )
}

PAGE = ROOT / "docs" / "performance.md"


def _run_with(source: Path) -> None:
    """Restart this process with that source: about half of the benchmarks run agentv inside it."""
    os.environ[SOURCE] = str(source)
    if os.environ.get("PYTHONPATH") != str(source):
        os.environ["PYTHONPATH"] = str(source)
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks", *sys.argv[1:]])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Ratios, each measured within one run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="run a smoke test; the numbers are meaningless")
    parser.add_argument("--peers", action="store_true", help="also measure the npm package agentv (installs it)")
    parser.add_argument("--check", action="store_true", help="exit with code 1 if a goal is missed")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="directory for the JSON files")
    parser.add_argument("--source", type=Path, metavar="DIR", help="measure the `src` directory of another checkout")
    parser.add_argument(
        "--write", action="store_true", help="write the tables to docs/performance.md, where it has marks"
    )
    args = parser.parse_args(arguments)
    if args.write and args.quick:
        parser.error("--write cannot be combined with --quick, whose numbers are meaningless")
    if args.source is not None:
        _run_with(args.source.resolve(strict=True))
    unknown = [name for name in args.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark '{unknown[0]}'; available: {', '.join(BENCHMARKS)}")
    options = Options(quick=args.quick, peers=args.peers, say=_say)
    print(f"python {machine()['python']}, {machine()['cpus']} CPUs, load {machine()['load']:.1f}\n", flush=True)
    missed = 0
    warm_up()
    for name in args.names or BENCHMARKS:
        report = BENCHMARKS[name](options)
        if args.quick:
            report = report.without_goals()
        _say("")
        report.write(args.results, quick=args.quick)
        print(f"{report.table()}\n", flush=True)
        if args.write and f"<!-- {name}: begin -->" in PAGE.read_text(encoding="utf-8"):
            report.write_to(PAGE)
        missed += sum(figure.met is False for figure in report.figures)
    return 1 if args.check and missed else 0


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FailedError as error:
        sys.exit(f"stopped: the measured command failed: {error}")
