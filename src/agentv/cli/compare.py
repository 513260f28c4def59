"""`agentv compare`: two runs, case by case."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from agentv.cli.parameters import FiniteRange
from agentv.report.compare import Comparison, Decision, compare, decide
from agentv.report.compared_run import read_compared_run
from agentv.report.row_source import find_rows
from agentv.report.terminal import Look, can_print_unicode, terminal_width, wants_color


@click.command()
@click.argument("baseline", metavar="A")
@click.argument("candidate", metavar="B")
@click.option("--target-a", metavar="NAME", help="Only this target of A.")
@click.option("--target-b", metavar="NAME", help="Only this target of B.")
@click.option(
    "--threshold",
    "-t",
    type=FiniteRange(0, 1),
    default=0.1,
    metavar="S",
    help="A case that changed by less is tied.  [0.1]",
)
@click.option(
    "--confidence",
    type=FiniteRange(0.5, 0.999),
    default=0.95,
    metavar="C",
    help="How sure intervals are, and with them a regression.  [0.95]",
)
@click.option("--max-drop", type=FiniteRange(0, 1), metavar="S", help="Exit with 1 when the mean score fell by more.")
@click.option("--allow-errors", is_flag=True, help="Cases that only B could not judge do not make it exit with 3.")
@click.option(
    "--format",
    "-f",
    "shape",
    type=click.Choice(["table", "json", "markdown"]),
    default="table",
    help="How to print it.  [table]",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(
    *,
    baseline: str,
    candidate: str,
    target_a: str | None,
    target_b: str | None,
    threshold: float,
    confidence: float,
    max_drop: float | None,
    allow_errors: bool,
    shape: str,
    as_json: bool,
) -> int:
    """Compare run B, the candidate, with run A, the baseline.

    Each is a run id, a run directory or a results file. Cases are paired by suite, id and, where a run has several
    targets, by target.

    \b
    Exit code: 0 no regression
               1 a regression beyond chance, or a drop over --max-drop
               2 nothing was compared
               3 B could not judge cases that A judged
    """
    cwd = Path.cwd()
    sides = (
        read_compared_run(find_rows(baseline, cwd), target_a),
        read_compared_run(find_rows(candidate, cwd), target_b),
    )
    comparison = compare(*sides, threshold=threshold, confidence=confidence)
    decision = decide(comparison, max_drop=max_drop, allow_errors=allow_errors)
    # Whether there is colour was decided already; click would take it out of what is piped.
    click.echo(_rendered(comparison, decision, "json" if as_json else shape), color=True)
    return decision.exit_code


def _rendered(comparison: Comparison, decision: Decision, shape: str) -> str:
    if shape == "json":
        data = {**comparison.to_dict(), **decision.to_dict()}
        # The log of a CI system obeys `##[command]` wherever it stands; the same text escaped it does not.
        return json.dumps(data, indent=2).replace("##", "\\u0023#")
    if shape == "markdown":
        from agentv.report.markdown import render_comparison_markdown  # noqa: PLC0415 - only for this format

        return render_comparison_markdown(comparison, decision).rstrip("\n")
    from agentv.report.comparison_console import render_comparison  # noqa: PLC0415 - only for this format

    look = Look(
        color=wants_color(sys.stdout, os.environ),
        width=terminal_width(),
        unicode=can_print_unicode(sys.stdout),
    )
    return render_comparison(comparison, decision, look)
