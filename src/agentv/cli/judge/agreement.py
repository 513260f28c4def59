"""`agentv judge agreement`: how far the verdicts of a run agree with labels of people."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from agentv.cli.runs import json_text
from agentv.errors import UsageError
from agentv.record.run_dir import find_run
from agentv.report.agreement_console import render_agreement
from agentv.report.terminal import Look, can_print_unicode, terminal_width, wants_color
from agentv.view.open_run import OpenRun


@click.command()
@click.argument("run", default="latest")
@click.option("--labels", metavar="RUN", help="Run with labels of the same answers.  [RUN itself]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(*, run: str, labels: str | None, as_json: bool) -> int:
    """Compare the verdicts of a run with labels of people, which `agentv view` saves in labels.jsonl.

    To try another judge on answers that are labelled, grade them again with `agentv eval --outputs`, and use the
    labels of the first run with --labels. A label counts only for the answer that it was given to.

    \b
    Exit codes: 0 the agreement was shown
                2 there are no labels of these answers, or the run cannot be read
    """
    directory = find_run(run, Path.cwd())
    labelled = directory if labels is None else find_run(labels, Path.cwd())
    opened = OpenRun(directory)
    judges = opened.judges(labelled)
    if judges["labels"] is None:
        why = f" ({' '.join(judges['notes'])})" if judges["notes"] else ""
        raise UsageError(
            f"{labelled.name} has no labels that can be compared with verdicts of {directory.name}{why}.",
            next_step=f"Label some answers: agentv view {labelled.name}, then open the page Review.",
        )
    if as_json:
        found = {"labels": judges["labels"], "people": judges["people"], "notes": judges["notes"]}
        evaluators = [{"name": one["name"], **one["labels"]} for one in judges["evaluators"] if one["labels"]]
        click.echo(json_text({**found, "evaluators": evaluators}))
        return 0
    look = Look(wants_color(sys.stdout, os.environ), terminal_width(), can_print_unicode(sys.stdout))
    passed = [outcome == 0 for outcome in opened.store.columns()["outcome"]]
    click.echo(render_agreement(judges, opened.store.keys(), passed, look), color=True)
    return 0
