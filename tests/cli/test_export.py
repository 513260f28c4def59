"""`agentv convert` to JSON Lines, CSV, Parquet and OpenTelemetry, and `agentv eval --otel`."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from agentv.cli.convert import command
from agentv.cli.otel_option import take_telemetry
from agentv.errors import UsageError
from agentv.report.export_parquet import write_rows
from agentv.report.joined import JoinedRun
from agentv.report.row_source import RowSource
from tests.collector import attributes, collector, parsed, parsed_spans
from tests.conftest import Project
from tests.report.rows import error_row, row
from tests.report.sources import write_rows as rows_file

SECRET = "sk-otel-header-0123456789"
JUDGED = '{"score": 0.9, "hits": ["named"], "misses": [], "reasoning": "EXPLAINED"}'


def write_project(project: Project) -> Project:
    """Three cases with a judge and metadata. The last errors, because its judge fails."""
    project.write(
        "agentv.config.yaml",
        f"""\
        targets:
          assistant:
            provider: mock
            model: mock-1
            rules:
              - match: France
                output_messages:
                  - role: assistant
                    content: =ANSWER Paris
                    tool_calls: [{{tool: atlas, id: c1, input: {{country: ARGUMENT}}, output: Paris}}]
                token_usage: {{input: 7, output: 3, cached: 2}}
                cost_usd: 0.002
            response: ANSWER
          strict:
            provider: mock
            rules: [{{match: BROKEN, error: down, status: 400}}]
            response: '{JUDGED}'
        defaults: {{target: assistant, judge_target: strict}}
        """,
    )
    project.write(
        "geo.yaml",
        """\
        execution:
          evaluators:
            - {name: graded, type: llm_judge}
        evalcases:
          - id: france
            input: PROMPT about France?
            expected_outcome: Paris
            metadata: {lang: fr, nested: {a: 1}}
            evaluators+: [{name: says-paris, type: contains, value: Paris}]
          - {id: italy, input: PROMPT about Italy?, expected_outcome: Rome, metadata: {lang: it}}
          - {id: broken, input: PROMPT BROKEN, expected_outcome: nothing}
        """,
    )
    return project


@pytest.fixture
def judged(project: Project) -> Project:
    return write_project(project)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project with one run, which tests only read."""
    root = tmp_path_factory.mktemp("recorded")
    (root / ".git").mkdir()
    project = write_project(Project(root))
    assert project.run("eval", "geo.yaml", "--quiet").returncode == 3
    return project


def read_jsonl(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_run_is_exported_as_csv_jsonl_and_parquet(recorded: Project):
    judged = recorded
    run = judged.run_dirs()[-1].name
    done = judged.run("convert", run, "--to", "csv", "-o", "-")
    lines = {line["eval_id"]: line for line in csv.DictReader(io.StringIO(done.stdout))}
    france = lines["france"]
    assert (france["metadata.lang"], france["metadata.nested"], france["metadata.lang"]) == ("fr", '{"a":1}', "fr")
    assert (france["candidate_answer"], france["score: says-paris"]) == ("'=ANSWER Paris", "1.0")
    assert (france["threshold"], france["cached_tokens"], france["judge_calls"]) == ("0.8", "2", "1")
    assert (lines["broken"]["score"], lines["broken"]["error_stage"]) == ("", "evaluator")
    assert (france["question"], france["expected_outcome"]) == ("PROMPT about France?", "Paris")

    assert judged.run("convert", run, "--to", "jsonl", "--with", "judge-calls", "-o", "rows.jsonl").returncode == 0
    rows = {row["eval_id"]: row for row in read_jsonl(judged.root / "rows.jsonl")}
    assert rows["france"]["scores"] == {"graded": 0.9, "says-paris": 1.0}
    assert rows["broken"]["scores"] == {}
    calls = rows["france"]["judge_calls"]
    assert isinstance(calls, list)
    assert (calls[0]["evaluator"], calls[0]["reply"]["rawText"]) == ("graded", JUDGED)

    done = judged.run("convert", run, "--with", "judge-calls", "-o", "rows.parquet")
    assert done.returncode == 0, done.stderr
    table = {row["eval_id"]: row for row in pq.read_table(judged.root / "rows.parquet").to_pylist()}
    assert table["france"]["evaluator_results"][0]["name"] == "graded"
    assert table["broken"]["score"] is None
    assert table["broken"]["evaluator_results"][0]["score"] is None
    assert (table["italy"]["metadata"], table["italy"]["judge_calls"]) == ('{"lang":"it"}', 1)
    assert table["italy"]["started_at"].tzinfo is not None
    calls = pq.read_table(judged.root / "rows.judge_calls.parquet").to_pylist()
    assert {(call["eval_id"], call["status"]) for call in calls} >= {("france", "ok"), ("broken", "failed")}


def test_parquet_has_the_same_schema_for_every_run(tmp_path: Path):
    schemas = []
    for name, rows in (("a", [row("x", metadata={"k": 1})]), ("b", [error_row("y", "down")]), ("c", [])):
        write_rows(JoinedRun.of(RowSource(name, rows_file(tmp_path / f"{name}.jsonl", rows))), tmp_path / f"{name}.pq")
        schemas.append(pq.read_schema(tmp_path / f"{name}.pq"))
    assert schemas[0] == schemas[1] == schemas[2]


def test_parquet_without_pyarrow_names_the_extra(project: Project):
    project.write("rows.jsonl", "")
    project.write("hidden/pyarrow/__init__.py", "raise ImportError('hidden')\n")
    done = project.run("convert", "rows.jsonl", "--to", "parquet", env={"PYTHONPATH": str(project.root / "hidden")})
    assert done.returncode == 2
    assert "pip install 'agentv[parquet]'" in done.stderr


def test_spans_in_a_file_follow_the_conventions_and_have_stable_ids(recorded: Project):
    judged = recorded
    run = judged.run_dirs()[-1].name
    assert judged.run("convert", run, "--to", "otel", "-o", "spans.jsonl").returncode == 0
    text = (judged.root / "spans.jsonl").read_text(encoding="utf-8")
    for content in ("PROMPT", "ANSWER", "ARGUMENT", "EXPLAINED"):
        assert content not in text
    spans = [span for line in text.splitlines() for span in parsed_spans(line)]
    assert len({span.span_id for span in spans}) == len(spans)
    assert len({span.trace_id for span in spans}) == 3
    assert attributes(parsed(text.splitlines()[0]).resource_spans[0].resource)["service.name"] == "agentv"

    france = next(span for span in spans if span.name == "case france")
    trace = {span.name: span for span in spans if span.trace_id == france.trace_id}
    assert attributes(france)["agentv.score"] == pytest.approx(0.95)
    assert [attributes(event)["gen_ai.evaluation.name"] for event in france.events] == ["graded", "says-paris"]
    assert attributes(france.events[0])["gen_ai.evaluation.score.value"] == 0.9
    target, tool = trace["chat mock-1"], trace["execute_tool atlas"]
    assert attributes(target)["gen_ai.usage.input_tokens"] == 9  # cached tokens are included
    assert attributes(target)["gen_ai.usage.cache_read.input_tokens"] == 2
    assert (target.parent_span_id, tool.parent_span_id) == (france.span_id, target.span_id)
    judge = trace["chat strict"]
    assert judge.parent_span_id == trace["evaluate graded"].span_id
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano > 10**18 for span in spans)
    broken = next(span for span in spans if span.name == "case broken")
    assert (broken.status.code, attributes(broken)["error.type"]) == (2, "evaluator")

    judged.run("convert", run, "--to", "otel", "-o", "again.jsonl", "--otel-content")
    again = (judged.root / "again.jsonl").read_text(encoding="utf-8")
    assert {span.span_id for line in again.splitlines() for span in parsed_spans(line)} == {s.span_id for s in spans}
    for content in ("ANSWER", "ARGUMENT", "EXPLAINED"):
        assert content in again


def test_spans_are_sent_with_headers_and_retries_and_the_headers_stay_secret(recorded: Project):
    judged = recorded
    run = judged.run_dirs()[-1].name
    env = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{SECRET},x-team=evals"}
    with collector(503, 429) as otel:
        done = judged.run("convert", run, "--to", "otel", env={**env, "OTEL_EXPORTER_OTLP_ENDPOINT": otel.url})
        assert (done.returncode, done.stdout) == (0, f"sent 3 traces to {otel.url}/v1/traces\n")
        assert otel.paths == ["/v1/traces"] * 3
        assert otel.headers[0]["authorization"] == f"Bearer {SECRET}"
        assert otel.headers[0]["content-type"] == "application/json"
        assert len({span.trace_id for span in otel.spans()}) == 3
    with collector(400) as otel:
        done = judged.run("convert", run, "--to", "otel", "--endpoint", otel.url, env=env)
        assert done.returncode == 3
        assert "HTTP 400" in done.stderr
        assert len(otel.bodies) == 1
        assert SECRET not in done.stderr


def test_live_spans_are_those_of_convert_and_scripts_do_not_see_the_headers(judged: Project):
    judged.write(
        "judge.py",
        """\
        import json, os, sys
        json.load(sys.stdin)
        leaked = any("otel-header" in value for value in os.environ.values())
        print(json.dumps({"score": 0.0 if leaked else 1.0}))
        """,
    )
    judged.write(
        "scripts.yaml",
        f"""\
        execution:
          evaluators:
            - {{name: no-headers, type: code_judge, script: ['{sys.executable}', judge.py], judge: {{}}}}
        evalcases:
          - {{id: one, input: PROMPT about France?}}
          - {{id: two, input: PROMPT about {SECRET}}}
        """,
    )
    env = {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization={SECRET}", "OTEL_SERVICE_NAME": "shop-evals"}
    with collector() as otel:
        done = judged.run("eval", "scripts.yaml", "geo.yaml", "--otel", otel.url, "--otel-content", env=env)
        assert done.returncode == 3, done.stderr
        assert f"note: sent 5 traces to {otel.url}/v1/traces" in done.stderr
        live = {span.span_id: span for span in otel.spans()}
    assert attributes(parsed(otel.bodies[0]).resource_spans[0].resource)["service.name"] == "shop-evals"
    assert [row["score"] for row in judged.rows() if row["suite"] == "scripts"] == [1.0, 1.0]
    everything = b"".join(otel.bodies)
    assert b"ANSWER" in everything
    assert SECRET.encode() not in everything
    run = judged.run_dirs()[-1].name
    judged.run("convert", run, "--to", "otel", "-o", "spans.jsonl", "--otel-content")
    lines = (judged.root / "spans.jsonl").read_text(encoding="utf-8").splitlines()
    converted = {span.span_id: span for line in lines for span in parsed_spans(line)}
    assert converted == live


def test_live_spans_never_delay_or_fail_a_run(judged: Project):
    with collector(*[500] * 50) as otel:
        done = judged.run("eval", "geo.yaml", "--otel", otel.url, "--json")
    assert (done.returncode, json.loads(done.stdout)["total"]) == (3, 3)
    assert "spans of 3 rows were not sent: could not send spans to" in done.stderr
    assert f"agentv convert {judged.run_dirs()[-1].name} --to otel --endpoint {otel.url}/v1/traces" in done.stderr


def test_word_after_otel_is_a_suite_unless_it_is_a_url(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9/base")
    arguments: dict[str, Any] = {"otel": "geo.yaml", "otel_content": False, "paths": ("b.yaml",)}
    telemetry = take_telemetry(arguments)
    assert telemetry is not None
    assert (telemetry.endpoint.url, arguments) == (
        "http://127.0.0.1:9/base/v1/traces",
        {"paths": ("geo.yaml", "b.yaml")},
    )
    with pytest.raises(UsageError, match="Write --otel http://localhost:4318"):
        take_telemetry({"otel": "localhost:4318", "otel_content": False, "paths": ()})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "csv", "--endpoint", "http://127.0.0.1:1"], "--endpoint can only be used with --to otel"),
        (
            ["--to", "csv", "--with", "judge-calls"],
            "--with judge-calls can only be used with --to jsonl or --to parquet",
        ),
        (["--to", "otel", "--endpoint", "ftp://x"], "must be an http or https URL"),
        (["--to", "otel", "--endpoint", "http://127.0.0.1:1", "-o", "x"], "cannot be used together"),
    ],
    ids=["endpoint", "with", "scheme", "both"],
)
def test_options_of_another_format_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("", encoding="utf-8")
    result = CliRunner().invoke(command, ["rows.jsonl", *arguments])
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)
