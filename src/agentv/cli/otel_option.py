"""`--otel [URL]` of `agentv eval`: send spans to a collector while the run runs."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from agentv.errors import UsageError
from agentv.recorded import RecordedRun
from agentv.text import plural

if TYPE_CHECKING:
    from agentv.http.otlp import OtlpEndpoint
    from agentv.report.otlp_live import LiveSpans

DEFAULT = "http://127.0.0.1:4318"
_HOST_AND_PORT = re.compile(r"[\w.-]+:\d+(/.*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Where the spans of a run are sent, and what is in them."""

    endpoint: OtlpEndpoint
    content: bool

    def of(self, run: RecordedRun) -> LiveSpans:
        """The sender for a run. It gets everything from the record, where secrets are masked."""
        from agentv.report.otlp_live import LiveSpans  # noqa: PLC0415 - most runs send nothing
        from agentv.report.spans import RunSpans  # noqa: PLC0415

        spans = RunSpans.of(run.redactor.value(dict(run.manifest)), os.environ, content=self.content)
        return LiveSpans(run.directory, spans, self.endpoint, run.redactor)

    def finish(self, live: LiveSpans, *, quiet: bool) -> None:
        """Send the rest, and report rows that were not sent."""
        outcome = live.finish()
        if outcome.not_sent:
            later = f"agentv convert {live.run_name} --to otel --endpoint {self.endpoint.shown}"
            rows = plural(outcome.not_sent, "row")
            click.echo(f"note: spans of {rows} were not sent: {outcome.problem}\n  Send them with: {later}", err=True)
        elif not quiet:
            click.echo(f"note: sent {plural(outcome.sent, 'trace')} to {self.endpoint.shown}", err=True)


def take_telemetry(arguments: dict[str, Any]) -> Telemetry | None:
    """Remove the options from the arguments. None if nothing is sent.

    The address is optional, so in `--otel suite.yaml` the word after the option is a suite, not an address.
    """
    address, content = arguments.pop("otel"), arguments.pop("otel_content")
    if address is None:
        if content:
            raise UsageError("--otel-content can only be used with --otel.")
        return None
    from agentv.http.otlp import OtlpEndpoint, captures_content  # noqa: PLC0415 - most runs send nothing

    if address and "://" not in address:
        if _HOST_AND_PORT.fullmatch(address):
            raise UsageError(f"--otel must be a URL, got '{address}'.", next_step=f"Write --otel http://{address}")
        arguments["paths"] = (address, *arguments["paths"])
        address = ""
    endpoint = OtlpEndpoint.of(address, os.environ) or OtlpEndpoint.of(DEFAULT, os.environ)
    return None if endpoint is None else Telemetry(endpoint, captures_content(os.environ, wanted=content))
