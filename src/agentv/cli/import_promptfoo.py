"""`agentv import promptfoo`: convert a promptfoo configuration to a suite and targets."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from agentv.cli.import_files import CONFIG, print_notes, rendered, suite_path, write
from agentv.importing.promptfoo import Imported, import_promptfoo
from agentv.text import plural


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--out", default="suite.yaml", metavar="FILE", help="Suite file to write.  [suite.yaml]")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def command(file: str, out: str, force: bool) -> int:
    """Convert a promptfoo configuration to a suite, with agentv.config.yaml next to it.

    Prompts, variables and providers stay separate, so that every prompt can be run with every target. Anything that
    cannot be converted is listed with its line, and in a comment in the suite.

    \b
    Exit codes: 0 everything was converted    1 some parts were left out
                2 FILE is invalid, nothing was written
    """
    return convert(Path(file), suite_path(out), force=force)


def convert(source: Path, target: Path, *, force: bool) -> int:
    """Write the suites and the configuration, and return the exit code."""
    imported = import_promptfoo(source, target.parent)
    contents = _files(imported, source, target)
    write(contents, {target.with_name(name): text for name, text in imported.scripts.items()}, force=force)
    return _print_report(imported, [path for path in contents if path.name != CONFIG])


def _files(imported: Imported, source: Path, out: Path) -> dict[Path, str]:
    """The content of each file to write."""
    left_out = [str(note) for note in imported.notes if note.left_out]
    contents = {}
    for suffix, suite in imported.suites.items():
        path = out.with_name(f"{out.stem}-{suffix}{out.suffix}") if suffix else out
        title = f"Created from {source} by `agentv import promptfoo`."
        contents[path] = rendered(title, suite, {"Left out:": left_out})
    to_fill_in = [f"{name}: {reason}" for name, reason in imported.to_fill_in.items()]
    title = f"Created from the providers in {source}."
    contents[out.with_name(CONFIG)] = rendered(title, imported.config, {"To fill in:": to_fill_in})
    return contents


def _print_report(imported: Imported, suites: Sequence[Path]) -> int:
    left_out = print_notes(imported.notes)
    prompts = {prompt["id"] for suite in imported.suites.values() for prompt in suite["prompts"]}
    cases = sum(len(suite["evalcases"]) for suite in imported.suites.values())
    counts = (plural(len(prompts), "prompt"), plural(cases, "case"), plural(len(imported.targets), "target"))
    click.echo(f"\n{', '.join(counts)}; {left_out} left out")
    have_targets = any("target" in suite.get("execution", {}) for suite in imported.suites.values())
    shown_targets = imported.targets if len(imported.targets) > 1 and not have_targets else ()
    words = ["agentv", "eval", *map(str, suites), *(word for name in shown_targets for word in ("--target", name))]
    if imported.to_fill_in:
        targets = plural(len(imported.to_fill_in), "target")
        click.echo(f"Fill in: {targets} in {suites[0].with_name(CONFIG)}")
    click.echo(f"Run it:  {shlex.join(words)}")
    if any(len(suite["prompts"]) > 1 for suite in imported.suites.values()):
        click.echo("Compare the prompts:  agentv compare latest --by prompt")
    return 1 if left_out else 0
