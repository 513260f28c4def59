"""Spans of a run in progress: what is new in the record is sent, and a collector that hangs is given up."""

from __future__ import annotations

from pathlib import Path

from agentv.http.otlp import OtlpEndpoint
from agentv.record.rows import encode_row
from agentv.record.run_dir import RunDirectory
from agentv.redact import NO_SECRETS
from agentv.report.otlp_live import LiveSpans
from agentv.report.spans import RunSpans
from tests.collector import collector
from tests.report.rows import row


def live(directory: Path, url: str) -> LiveSpans:
    endpoint = OtlpEndpoint.of(url, {})
    assert endpoint is not None
    return LiveSpans(RunDirectory(directory), RunSpans.of({"run_id": "r1"}, {}), endpoint, NO_SECRETS)


def append(directory: Path, *ids: str) -> None:
    with (directory / "results.jsonl").open("ab") as file:
        file.writelines(encode_row(row(eval_id)) for eval_id in ids)


def test_only_rows_of_this_part_of_the_run_are_sent(tmp_path: Path):
    append(tmp_path, "earlier")
    with collector() as otel:
        spans = live(tmp_path, otel.url)
        spans.start()
        append(tmp_path, "a", "b")
        outcome = spans.finish()
        names = [span.name for span in otel.spans() if span.name.startswith("case ")]
    assert (outcome.sent, outcome.not_sent, outcome.problem) == (2, 0, None)
    assert names == ["case a", "case b"]


def test_collector_that_never_replies_is_given_up(tmp_path: Path):
    append(tmp_path)
    with collector(released=False) as otel:
        spans = live(tmp_path, otel.url)
        spans.start()
        append(tmp_path, "a", "b")
        assert otel.arrived.wait(30)
        append(tmp_path, "c")
        outcome = spans.finish(patience=0.1)
    assert (outcome.sent, outcome.not_sent) == (0, 3)
    assert outcome.problem == "the collector did not accept all spans in time"


def test_damaged_row_ends_the_sending_but_nothing_else(tmp_path: Path):
    append(tmp_path)
    with collector() as otel:
        spans = live(tmp_path, otel.url)
        spans.start()
        with (tmp_path / "results.jsonl").open("ab") as file:
            file.write(b'{"run_id": 5}\n')
        outcome = spans.finish()
    assert (outcome.sent, outcome.not_sent) == (0, 1)
    assert outcome.problem is not None
