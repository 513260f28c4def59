"""`agentv convert`: write the rows of a run in another format, or send them to a collector as spans."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from agentv.cli.out_file import refuse_directory, write_out
from agentv.errors import UsageError
from agentv.http.otlp import OtlpEndpoint, captures_content
from agentv.record.run_dir import refuse_recorded
from agentv.regular_files import kind_of
from agentv.report.agentv_rows import AgentvRows
from agentv.report.export import csv_rows, joined_rows, yaml_rows
from agentv.report.joined import JoinedRun
from agentv.report.row_source import RowSource, find_rows
from agentv.text import plural

_SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl"}
_FORMATS = {
    "yaml": ".yaml",
    "csv": ".csv",
    "jsonl": ".joined.jsonl",
    "parquet": ".parquet",
    "otel": ".otlp.jsonl",
    "agentv": ".agentv.jsonl",
}
"""The formats, and how the file next to the results ends."""
_WITH_CALLS = ("jsonl", "parquet")
JUDGE_CALLS = "judge-calls"


@click.command()
@click.argument("results", metavar="RUN")
@click.option("--out", "-o", metavar="FILE", help="Output file; `-` for stdout.  [next to the results]")
@click.option("--to", type=click.Choice(list(_FORMATS)), help="Output format.  [from the suffix of --out, else yaml]")
@click.option("--with", "extra", type=click.Choice([JUDGE_CALLS]), help="With jsonl or parquet: include judge calls.")
@click.option("--endpoint", metavar="URL", help="With otel: send the spans to this collector (OTLP over HTTP).")
@click.option("--otel-content", is_flag=True, help="With otel: include prompts and answers in the spans.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(
    *,
    results: str,
    out: str | None,
    to: str | None,
    extra: str | None,
    endpoint: str | None,
    otel_content: bool,
    force: bool,
) -> int:
    """Write the rows of a run or a results file as YAML, CSV, JSON Lines, Parquet, spans, or rows of AgentV."""
    source = find_rows(results, Path.cwd())
    if source.path.suffix != ".jsonl":
        raise UsageError(f"{results} is not a .jsonl file", next_step="Pass a results file or a run.")
    refuse_directory(out)
    to = to or _format_of(out)
    if extra is not None and to not in _WITH_CALLS:
        raise UsageError(f"--with {extra} can only be used with --to {' or --to '.join(_WITH_CALLS)}.")
    if to != "otel" and (endpoint is not None or otel_content):
        raise UsageError(f"--{'endpoint' if endpoint is not None else 'otel-content'} can only be used with --to otel.")
    if to == "otel":
        if endpoint is not None and out is not None:
            raise UsageError("--endpoint and --out cannot be used together.", next_step="Remove one of them.")
        collector = OtlpEndpoint.of(endpoint, os.environ) if out is None else None
        if collector is not None:
            return _send(source, collector, content=otel_content)
    path = _out_path(source, out, to, force=force)
    if to == "parquet":
        _write_parquet(source, path, calls=extra is not None, force=force)
        left_out: Iterable[str] = ()
    elif to == "agentv":
        rows = AgentvRows()
        write_out(path, rows.lines(source.rows()))
        left_out = rows.left_out
    else:
        write_out(path, _pieces(source, to, calls=extra is not None, content=otel_content))
        left_out = ()
    if path != "-":
        click.echo(f"wrote {path}")
    if left_out:
        click.echo(f"not in rows of AgentV, so left out: {', '.join(left_out)}", err=True)
    return 0


def _out_path(source: RowSource, out: str | None, to: str, *, force: bool) -> str:
    """The file to write. Raises UsageError if it must not be overwritten."""
    path = out or str(source.path.with_suffix(_FORMATS[to]))
    if out is None and os.path.lexists(path) and kind_of(Path(path).lstat().st_mode) is not None:
        raise UsageError(f"{path} exists and is not a regular file", next_step="Choose the output file with --out.")
    if path != "-" and not force and Path(path).is_file():
        raise UsageError(f"{path} already exists", next_step="Overwrite it with --force, or choose another --out.")
    if Path(path).exists() and Path(path).samefile(source.path):
        raise UsageError(f"--out {path} is the file to convert", next_step="Choose another --out.")
    refuse_recorded(Path(path))
    return path


def _pieces(source: RowSource, to: str, *, calls: bool, content: bool) -> Iterator[str]:
    if to == "yaml":
        return yaml_rows(source)
    if to == "csv":
        return csv_rows(JoinedRun.of(source))
    if to == "jsonl":
        return joined_rows(JoinedRun.of(source, with_calls=calls), with_calls=calls)
    return (f"{body}\n" for body, _ in _messages(source, content=content))


def _write_parquet(source: RowSource, out: str, *, calls: bool, force: bool) -> None:
    from agentv.report.export_parquet import refuse_without_pyarrow, write_calls, write_rows  # noqa: PLC0415

    refuse_without_pyarrow()
    if out == "-" or (Path(out).exists() and not Path(out).is_file()):
        raise UsageError("--to parquet must be written to a regular file.", next_step="Set one with --out FILE.parquet")
    run = JoinedRun.of(source, with_calls=calls)
    if calls:
        beside = _out_path(source, str(Path(out).with_suffix(".judge_calls.parquet")), "parquet", force=force)
        write_calls(run, Path(beside))
        click.echo(f"wrote {beside}")
    write_rows(run, Path(out))


def _messages(source: RowSource, *, content: bool) -> Iterator[tuple[str, int]]:
    """The spans of all rows in OTLP messages, each with its number of traces."""
    from agentv.report.otlp import batches  # noqa: PLC0415
    from agentv.report.spans import RunSpans  # noqa: PLC0415

    content = captures_content(os.environ, wanted=content)
    spans = RunSpans.of(source.manifest, os.environ, content=content)
    run = JoinedRun.of(source, with_calls=True)
    return batches(spans, (spans.of_row(row, run.case(row), run.calls(row)) for row in source.rows()))


def _send(source: RowSource, collector: OtlpEndpoint, *, content: bool) -> int:
    from agentv.report.otlp import send_all  # noqa: PLC0415

    sent = asyncio.run(send_all(collector, _messages(source, content=content)))
    click.echo(f"sent {plural(sent, 'trace')} to {collector.shown}")
    return 0


def _format_of(out: str | None) -> str:
    if out is None or out == "-":
        return "yaml"
    format_name = _SUFFIXES.get(Path(out).suffix.lower())
    if format_name is None:
        raise UsageError(
            f"--out {out}: cannot infer the format from the file name.",
            next_step=f"Use one of the suffixes {', '.join(_SUFFIXES)}, or set the format with --to, such as --to csv.",
        )
    return format_name
