"""`agentv convert`: a results file as YAML or CSV."""

from __future__ import annotations

from pathlib import Path

import click

from agentv.cli.out_file import refuse_directory, write_out
from agentv.errors import UsageError
from agentv.record.run_dir import refuse_recorded
from agentv.report.export import csv_rows, yaml_rows
from agentv.report.row_source import find_rows

_SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".csv": "csv"}


@click.command()
@click.argument("results", metavar="IN")
@click.option("--out", "-o", metavar="FILE", help="Where to write; `-` for stdout.  [beside IN]")
@click.option(
    "--to", type=click.Choice(["yaml", "csv"]), help="The format.  [from the suffix of --out: .yaml, .yml, .csv]"
)
@click.option("--force", is_flag=True, help="Overwrite a file that exists.")
def command(results: str, out: str | None, to: str | None, force: bool) -> int:
    """Write the rows of a results file, or of a run, as one YAML document each, or as a CSV table."""
    source = find_rows(results, Path.cwd())
    if source.path.suffix != ".jsonl":
        raise UsageError(f"{results} is not a .jsonl file", next_step="Give a results file, or a run.")
    refuse_directory(out)
    to = to or _format_of(out)
    out = out or str(source.path.with_suffix(f".{to}"))
    if out != "-" and not force and Path(out).is_file():
        raise UsageError(f"{out} exists already", next_step="Overwrite it with --force, or choose another --out.")
    if Path(out).exists() and Path(out).samefile(source.path):
        raise UsageError(f"{out} is the file to convert", next_step="Choose another --out.")
    refuse_recorded(Path(out))
    write_out(out, yaml_rows(source) if to == "yaml" else csv_rows(source))
    if out != "-":
        click.echo(f"wrote {out}")
    return 0


def _format_of(out: str | None) -> str:
    if out is None or out == "-":
        return "yaml"
    found = _SUFFIXES.get(Path(out).suffix.lower())
    if found is None:
        raise UsageError(
            f"--out {out}: its name does not say the format.",
            next_step=f"Use one of the suffixes {', '.join(_SUFFIXES)}, or say the format with --to yaml or --to csv.",
        )
    return found
