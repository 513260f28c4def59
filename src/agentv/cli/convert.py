"""`agentv convert`: write a results file as YAML or CSV."""

from __future__ import annotations

import os
from pathlib import Path

import click

from agentv.cli.out_file import refuse_directory, write_out
from agentv.errors import UsageError
from agentv.record.run_dir import refuse_recorded
from agentv.regular_files import kind_of
from agentv.report.export import csv_rows, yaml_rows
from agentv.report.row_source import find_rows

_SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".csv": "csv"}


@click.command()
@click.argument("results", metavar="IN")
@click.option("--out", "-o", metavar="FILE", help="Output file; `-` for stdout.  [next to IN]")
@click.option("--to", type=click.Choice(["yaml", "csv"]), help="Output format.  [from the suffix of --out, else yaml]")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(results: str, out: str | None, to: str | None, force: bool) -> int:
    """Write the rows of a results file or run as YAML (one document per row) or CSV."""
    source = find_rows(results, Path.cwd())
    if source.path.suffix != ".jsonl":
        raise UsageError(f"{results} is not a .jsonl file", next_step="Pass a results file or a run.")
    refuse_directory(out)
    to = to or _format_of(out)
    given = out is not None
    out = out or str(source.path.with_suffix(f".{to}"))
    if not given and os.path.lexists(out) and kind_of(Path(out).lstat().st_mode) is not None:
        raise UsageError(f"{out} exists and is not a regular file", next_step="Choose the output file with --out.")
    if out != "-" and not force and Path(out).is_file():
        raise UsageError(f"{out} already exists", next_step="Overwrite it with --force, or choose another --out.")
    if Path(out).exists() and Path(out).samefile(source.path):
        raise UsageError(f"--out {out} is the file to convert", next_step="Choose another --out.")
    refuse_recorded(Path(out))
    write_out(out, yaml_rows(source) if to == "yaml" else csv_rows(source))
    if out != "-":
        click.echo(f"wrote {out}")
    return 0


def _format_of(out: str | None) -> str:
    if out is None or out == "-":
        return "yaml"
    format_name = _SUFFIXES.get(Path(out).suffix.lower())
    if format_name is None:
        raise UsageError(
            f"--out {out}: cannot infer the format from the file name.",
            next_step=f"Use one of the suffixes {', '.join(_SUFFIXES)}, or set the format with --to yaml or --to csv.",
        )
    return format_name
