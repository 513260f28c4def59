"""The table of commands, and the only place where errors become exit codes."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence

import click

from agentv import __version__
from agentv.cli.lazy_group import LazyGroup
from agentv.errors import AgentVError, InvalidFilesError
from agentv.report.problems import render_problems
from agentv.report.terminal import clean, wants_color

COMMANDS = {
    "compare": ("agentv.cli.compare:command", "Compare two runs case by case."),
    "completion": ("agentv.cli.completion:command", "Print a script that completes words in a shell."),
    "convert": ("agentv.cli.convert:command", "Export results: CSV, JSON Lines, Parquet, OpenTelemetry."),
    "doctor": ("agentv.cli.doctor:command", "Report what this machine offers for runs."),
    "eval": ("agentv.cli.evaluate:command", "Run suites and record the results (alias: run)."),
    "generate": ("agentv.cli.generate:command", "Generate rubrics with a model."),
    "import": ("agentv.cli.import_suites:command", "Convert files of promptfoo, DeepEval and Ragas to suites."),
    "init": ("agentv.cli.init:command", "Create example suites that run offline."),
    "judge": ("agentv.cli.judge.command:command", "Create, run and debug judge scripts."),
    "merge": ("agentv.cli.merge:command", "Join the runs of shards in one run."),
    "report": ("agentv.cli.report:command", "Report a run as Markdown, JUnit, annotations or HTML."),
    "nodes": ("agentv.cli.nodes:command", "Show the nodes that run scripts and commands."),
    "runs": ("agentv.cli.runs:command", "List recorded runs, and remove or annotate them."),
    "schema": ("agentv.cli.schema:command", "Print the JSON Schemas, or set up an editor with them."),
    "show": ("agentv.cli.show:command", "Show a case: question, answer, score, judge calls."),
    "targets": ("agentv.cli.targets:command", "List targets and check that they respond."),
    "trend": ("agentv.cli.trend:command", "Show how mean scores develop over runs."),
    "validate": ("agentv.cli.validate:command", "Check suites and configuration without running them."),
    "view": ("agentv.cli.view:command", "Look at runs in a browser."),
}
"""name -> (`module:attribute`, one line of help). A new command needs one file and one line here."""
ALIASES = {"run": "eval"}

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Errors of writing to stdout or stderr. Errors of writing files are reported where they occur."""
BUG = "This is a bug in agentv, not in your suite. Please report it with the lines above."


@click.group(cls=LazyGroup, table=COMMANDS, aliases=ALIASES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="agentv %(version)s")
def program() -> None:
    """Evaluate agents and LLM applications.

    \b
    Start with:
      agentv init
      agentv eval
    """


def run(arguments: Sequence[str]) -> int:
    """Run the program and return its exit code."""
    try:
        result = program.main(list(arguments), prog_name="agentv", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Stopped.", err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except AgentVError as error:
        show_error(error)
        return error.exit_code
    except BrokenPipeError:
        # The reader of stdout has exited. Flushing at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            return _bug()
        click.echo(f"agentv: cannot write output: {error.strerror}", err=True)
        return 3
    except Exception:
        return _bug()
    return result if isinstance(result, int) else 0


def _bug() -> int:
    click.echo(clean_lines(traceback.format_exc()), err=True)
    click.echo(BUG, err=True)
    return 3


def show_error(error: AgentVError) -> None:
    """Print an error and its next step to stderr."""
    color = wants_color(sys.stderr, os.environ)
    if isinstance(error, InvalidFilesError):
        click.echo(render_problems(error.problems, color=color), err=True)
        if error.next_step:
            click.echo(error.next_step, err=True)
        return
    click.echo(clean_lines(f"agentv: {error.message}"), err=True)
    if error.next_step:
        click.echo(clean_lines(error.next_step), err=True)


def clean_lines(text: str) -> str:
    """Replace control characters and escape sequences in every line."""
    return "\n".join(clean(line) for line in text.split("\n"))
