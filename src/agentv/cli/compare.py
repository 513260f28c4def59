"""`agentv compare`: compare two runs case by case."""

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
@click.option("--target-a", metavar="NAME", help="Use only this target of A.")
@click.option("--target-b", metavar="NAME", help="Use only this target of B.")
@click.option(
    "--threshold",
    "-t",
    type=FiniteRange(0, 1),
    default=0.1,
    metavar="S",
    help="Smallest score change that is not a tie.  [0.1]",
)
@click.option(
    "--confidence",
    type=FiniteRange(0.5, 0.999),
    default=0.95,
    metavar="C",
    help="Confidence level of the intervals.  [0.95]",
)
@click.option("--max-drop", type=FiniteRange(0, 1), metavar="S", help="Exit with 1 if the mean score drops by more.")
@click.option("--allow-errors", is_flag=True, help="Do not exit with 3 if cases errored only in B.")
@click.option(
    "--format",
    "-f",
    "shape",
    type=click.Choice(["table", "json", "markdown"]),
    default="table",
    help="Output format.  [table]",
)
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
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
    """Compare run B (the candidate) with run A (the baseline).

    A and B are runs (id, name, `latest`, directory) or results files. Cases are paired by suite and id, and also
    by target if a run has several targets.

    \b
    Exit codes: 0 no regression
                1 statistically significant regression, or a drop of more
                  than --max-drop
                2 invalid options or files, nothing was compared
                3 cases that were scored in A errored in B
    """
    cwd = Path.cwd()
    sides = (
        read_compared_run(find_rows(baseline, cwd), target_a),
        read_compared_run(find_rows(candidate, cwd), target_b),
    )
    comparison = compare(*sides, threshold=threshold, confidence=confidence)
    decision = decide(comparison, max_drop=max_drop, allow_errors=allow_errors)
    # Color was decided above; without this, click would strip it from piped output.
    click.echo(_rendered(comparison, decision, "json" if as_json else shape), color=True)
    return decision.exit_code


def _rendered(comparison: Comparison, decision: Decision, shape: str) -> str:
    if shape == "json":
        data = {**comparison.to_dict(), **decision.to_dict()}
        # CI systems run `##[command]` anywhere in a log. Escaping the first `#` prevents that and keeps the JSON equal.
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
