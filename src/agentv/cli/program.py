"""The command table, and the one place where errors become exit codes."""

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
    "compare": ("agentv.cli.compare:command", "Compare two runs case by case: better, worse, or too few to tell."),
    "convert": ("agentv.cli.convert:command", "Write the rows of a run as YAML or CSV."),
    "eval": ("agentv.cli.evaluate:command", "Run suites and record the results."),
    "generate": ("agentv.cli.generate:command", "Let a model write parts of a suite: rubrics."),
    "import": ("agentv.cli.import_suites:command", "Make a suite from the files of another tool: promptfoo."),
    "init": ("agentv.cli.init:command", "Write a small suite and configuration that pass at once, offline."),
    "judge": (
        "agentv.cli.judge.command:command",
        "Write judge scripts: start one, run it on a case, ask the judge by hand.",
    ),
    "report": ("agentv.cli.report:command", "Report on a run: Markdown, JUnit XML, GitHub annotations."),
    "schema": ("agentv.cli.schema:command", "Print the JSON Schema of both files, for editors."),
    "targets": (
        "agentv.cli.targets:command",
        "Show each target: provider, model, ready or not, and who judges it.",
    ),
    "validate": (
        "agentv.cli.validate:command",
        "Check suites and their configuration without running anything.",
    ),
}
"""name -> (where the command is, one line of help). A new command is one file and one line here."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""What a stream says that cannot be written; a file has its own words for that."""
BUG = "This is a bug in agentv, not in your suite. Please report it with the lines above."


@click.group(cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="agentv %(version)s")
def program() -> None:
    """Evaluate agents and LLM applications, and prove the result.

    \b
    Start with:
      agentv init
      agentv eval evals/
    """


def run(arguments: Sequence[str]) -> int:
    """Run the program; the exit code."""
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
        # Whoever read our output has left; writing more to them would only fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            return _bug()
        click.echo(f"agentv: the output cannot be written: {error.strerror}", err=True)
        return 3
    except Exception:
        return _bug()
    return result if isinstance(result, int) else 0


def _bug() -> int:
    click.echo(clean_lines(traceback.format_exc()), err=True)
    click.echo(BUG, err=True)
    return 3


def show_error(error: AgentVError) -> None:
    """An error as a person wants to read it, on stderr."""
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
    """Text without anything a terminal would obey."""
    return "\n".join(clean(line) for line in text.split("\n"))
