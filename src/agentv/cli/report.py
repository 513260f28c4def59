"""`agentv report`: report a recorded run as Markdown, JUnit XML, GitHub annotations or one HTML file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentv.cli.case_lines import CaseLines, repository_root
from agentv.cli.html_file import write_html
from agentv.cli.out_file import write_out
from agentv.errors import UsageError
from agentv.record.run_dir import ANOTHER, refuse_recorded
from agentv.report.row_source import RowSource, find_rows
from agentv.report.trials import RepeatedCases

if TYPE_CHECKING:
    from agentv.view.file import WithDetails


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--format",
    "-f",
    "shape",
    type=click.Choice(["markdown", "junit", "github", "html"]),
    default="markdown",
    help="Markdown, JUnit XML, GitHub Actions annotations, or one HTML file with all cases.  [markdown]",
)
@click.option("--out", "-o", metavar="FILE", help="Output file; replaced if it exists.  [stdout]")
@click.option("--baseline", metavar="RUN", help="With html: the run to compare with; its cases are in the file, too.")
@click.option(
    "--with",
    "details",
    type=click.Choice(["all", "failures"]),
    help="With html: the cases that can be opened.  [all, or failures if the file would exceed 25 MB]",
)
@click.option("--share", is_flag=True, help="With html: mask paths, user names and host names.")
def command(
    *, run: str, shape: str, out: str | None, baseline: str | None, details: WithDetails | None, share: bool
) -> int:
    """Report a run as Markdown, JUnit XML, GitHub annotations or one HTML file.

    RUN is a run (id, name, `latest`, directory) or a results file. The exit code is 0 if the report was written,
    even if cases failed, and 2 otherwise.

    The HTML file contains the pages of `agentv view` and needs no server and no network.
    """
    if shape == "html":
        write_html(run, out, baseline=baseline, details=details, share=share)
        return 0
    for option, value in (("--baseline", baseline), ("--with", details), ("--share", share)):
        if value:
            raise UsageError(f"{option} can only be used with --format html.")
    source = find_rows(run, Path.cwd())
    if out is not None:
        refuse_recorded(Path(out))
        if Path(out).exists() and Path(out).samefile(source.path):
            raise UsageError(f"--out {out} is the file to report on.", next_step=ANOTHER)
    write_out(out, _SHAPES[shape](source))
    return 0


def _markdown(source: RowSource) -> Iterator[str]:
    from agentv.report.markdown import render_markdown  # noqa: PLC0415 - only for this format
    from agentv.report.questions import with_questions  # noqa: PLC0415
    from agentv.report.summary import SummaryBuilder  # noqa: PLC0415

    builder = SummaryBuilder.of(source.manifest)
    for row in source.rows():
        builder.add(row)
    summary = with_questions(builder.build(duration_seconds=source.duration_seconds), source.path)
    gap = source.gap(summary.attempts)
    yield render_markdown(
        summary, name=str(source.manifest.get("run_id") or source.name), notes=[gap] if gap is not None else []
    )


def _junit(source: RowSource) -> Iterator[str]:
    from agentv.report.junit import render_junit  # noqa: PLC0415 - only for this format
    from agentv.report.questions import Questions  # noqa: PLC0415

    properties = {"scripted": "true"} if source.scripted else {}
    if source.replayed is not None:
        properties["replayed"] = source.replayed
    if "run_id" in source.manifest:
        properties["run_id"] = str(source.manifest["run_id"])
    repeated = RepeatedCases.of(source.manifest)
    questions = Questions(source.path)
    yield from render_junit(source.rows(), properties, _places(source), source.gap, questions, repeated=repeated)


def _github(source: RowSource) -> Iterator[str]:
    from agentv.report.annotations import render_annotations  # noqa: PLC0415 - only for this format

    repeated = RepeatedCases.of(source.manifest)
    places = _places(source)
    for line in render_annotations(source.rows(), places, source.gap, scripted=source.scripted, repeated=repeated):
        yield f"{line}\n"


def _places(source: RowSource) -> CaseLines:
    return CaseLines(source.manifest, Path.cwd(), repository_root())


_SHAPES = {"markdown": _markdown, "junit": _junit, "github": _github}
