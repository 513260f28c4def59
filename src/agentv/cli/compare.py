"""`agentv compare`: compare two runs case by case."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource

from agentv.cli.html_file import write_html
from agentv.cli.parameters import FiniteRange
from agentv.errors import UsageError
from agentv.report.compare import Comparison, Decision, compare, decide
from agentv.report.compared_run import By, ComparedRun, read_compared_run, read_variants
from agentv.report.row_source import RowSource, find_rows
from agentv.report.terminal import Look, can_print_unicode, terminal_width, wants_color
from agentv.text import all_of, did_you_mean


@click.command()
@click.argument("baseline", metavar="A")
@click.argument("candidate", metavar="[B]", required=False)
@click.option("--by", type=click.Choice(["prompt", "target"]), help="Compare the prompts or the targets of one run.")
@click.option("--prompt-a", metavar="ID", help="With --by prompt: the baseline.  [the first]")
@click.option("--prompt-b", metavar="ID", help="With --by prompt: the candidate.  [the second, of two]")
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
@click.option("--html", metavar="FILE", help="Also write both runs and their comparison as one HTML file.")
def command(
    *,
    baseline: str,
    candidate: str | None,
    by: By | None,
    prompt_a: str | None,
    prompt_b: str | None,
    target_a: str | None,
    target_b: str | None,
    threshold: float,
    confidence: float,
    max_drop: float | None,
    allow_errors: bool,
    shape: str,
    as_json: bool,
    html: str | None,
) -> int:
    """Compare run B (the candidate) with run A (the baseline).

    A and B are runs (id, name, `latest`, directory) or results files. Cases are paired by suite and id, and also
    by target if a run has several targets. With --by, the prompts or the targets of A are compared with each other.

    \b
    Exit codes: 0 no regression
                1 statistically significant regression, or a drop of more
                  than --max-drop
                2 invalid options or files, nothing was compared
                3 cases that were scored in A errored in B
    """
    if html is not None:
        _refuse_other_numbers()
    cwd = Path.cwd()
    shape = "json" if as_json else shape
    if by is not None:
        if candidate is not None or html is not None:
            raise UsageError("--by compares the variants of one run: omit B and --html.")
        chosen, others = ((prompt_a, prompt_b), (target_a, target_b))
        if by == "target":
            chosen, others = others, chosen
        if others != (None, None):
            kind = "target" if by == "prompt" else "prompt"
            raise UsageError(f"--{kind}-a and --{kind}-b cannot be used with --by {by}.")
        sides = _variants(find_rows(baseline, cwd), by, chosen)
        if sides is None:
            return _echo(_all_variants(find_rows(baseline, cwd), by, confidence, shape))
    elif candidate is None:
        raise UsageError("compare needs two runs, or --by prompt or --by target for the variants of one run.")
    elif prompt_a is not None or prompt_b is not None:
        raise UsageError("--prompt-a and --prompt-b can only be used with --by prompt.")
    else:
        sides = (
            read_compared_run(find_rows(baseline, cwd), target_a),
            read_compared_run(find_rows(candidate, cwd), target_b),
        )
    comparison = compare(*sides, threshold=threshold, confidence=confidence)
    if by is None:
        from agentv.report.run_changes import changed_measurement  # noqa: PLC0415 - only for two runs

        comparison = replace(comparison, changes=changed_measurement(comparison))
    decision = decide(comparison, max_drop=max_drop, allow_errors=allow_errors)
    if html is not None and candidate is not None:
        write_html(candidate, html, option="--html", baseline=baseline, at_comparison=True)
    _echo(_rendered(comparison, decision, shape))
    return decision.exit_code


def _echo(text: str) -> int:
    # Whether to use color has been decided; without this, click would strip it from piped output.
    click.echo(text, color=True)
    return 0


def _variants(
    source: RowSource, by: By, chosen: tuple[str | None, str | None]
) -> tuple[ComparedRun, ComparedRun] | None:
    """The two variants to compare; None if there are more and none was chosen."""
    sides = read_variants(source, by)
    names = list(sides)
    for name in chosen:
        if name is not None and name not in sides:
            raise UsageError(
                f"{source.name} has no {by} '{name}'{did_you_mean(name, names)}.", next_step=f"It has {all_of(names)}."
            )
    if chosen == (None, None) and len(names) > 2:
        return None
    first = chosen[0] or next(name for name in names if name != chosen[1])
    second = chosen[1] or next(name for name in names if name != first)
    return sides[first], sides[second]


def _all_variants(source: RowSource, by: By, confidence: float, shape: str) -> str:
    from agentv.report.variants import VariantScores  # noqa: PLC0415 - only for three or more variants

    scores = VariantScores(source.manifest, by)
    for row in source.rows():
        scores.add(row)
    variants = scores.compared(confidence)
    if shape == "json":
        return json.dumps({"by": by, **variants.to_dict()}, indent=2).replace("##", "\\u0023#")
    if shape == "markdown":
        from agentv.report.markdown import variants_markdown  # noqa: PLC0415 - only for this format

        return "\n".join(variants_markdown(variants))
    from agentv.report.console import variant_lines  # noqa: PLC0415 - only for this format

    return "\n".join(variant_lines(variants, _look()))


def _refuse_other_numbers() -> None:
    """The page compares whole runs, with the default options. It must not contradict what is printed."""
    source = click.get_current_context().get_parameter_source
    for name in ("target_a", "target_b", "threshold", "confidence"):
        if source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"--html and --{name.replace('_', '-')} cannot be used together.")


def _rendered(comparison: Comparison, decision: Decision, shape: str) -> str:
    if shape == "json":
        data = {**comparison.to_dict(), **decision.to_dict()}
        # CI systems run `##[command]` anywhere in a log. Escaping the first `#` prevents that and keeps the JSON equal.
        return json.dumps(data, indent=2).replace("##", "\\u0023#")
    if shape == "markdown":
        from agentv.report.markdown import render_comparison_markdown  # noqa: PLC0415 - only for this format

        return render_comparison_markdown(comparison, decision).rstrip("\n")
    from agentv.report.comparison_console import render_comparison  # noqa: PLC0415 - only for this format

    return render_comparison(comparison, decision, _look())


def _look() -> Look:
    return Look(
        color=wants_color(sys.stdout, os.environ),
        width=terminal_width(),
        unicode=can_print_unicode(sys.stdout),
    )
