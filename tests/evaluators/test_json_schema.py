from __future__ import annotations

import json
import os
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from jsonschema.validators import Draft202012Validator

from agentv import patterns
from agentv.errors import EvaluatorError
from agentv.evaluators import schemas
from agentv.evaluators.base import Evaluator
from agentv.evaluators.scoring import judge
from tests.evaluators.support import an_answer, an_evaluator, judged, problem_of, without_waiting

PERSON = {
    "type": "object",
    "required": ["name", "age"],
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "additionalProperties": False,
}


async def test_valid_answer_scores_one():
    result = await judged('{"name": "Ada", "age": 36}', "json_schema", schema=PERSON)
    assert (result.score, result.hits, result.misses) == (1.0, ("matches the schema",), ())


async def test_each_violation_is_reported_as_a_miss_with_its_path():
    answer = '{"name": 5, "age": -1, "tall": true}'
    result = await judged(answer, "json_schema", schema=PERSON)
    assert result.score == 0.0
    assert result.misses == (
        "$.name: 5 is not of type 'string'",
        "$.age: -1 is less than the minimum of 0",
        "$: additional properties are not allowed ('tall')",
    )
    assert result.reasoning == "the answer is JSON with 3 violations of the schema"


async def test_violation_path_includes_list_indexes_and_unusual_keys():
    schema = {"properties": {"a b": {"items": {"properties": {"c": {"type": "integer"}}}}}}
    (miss,) = (await judged('{"a b": [{"c": 1}, {"c": "x"}]}', "json_schema", schema=schema)).misses
    assert miss == "$['a b'][1].c: 'x' is not of type 'integer'"


async def test_anyof_violation_reports_the_closest_alternative():
    schema = {"anyOf": [{"type": "string"}, {"properties": {"c": {"type": "integer"}}}]}
    (miss,) = (await judged('{"c": "z"}', "json_schema", schema=schema)).misses
    assert "closest: $.c: 'z' is not of type 'integer'" in miss
    (miss,) = (await judged("5", "json_schema", schema={"anyOf": [{"type": "string"}, {"type": "array"}]})).misses
    assert "(5 is not of type 'string'; 5 is not of type 'array')" in miss


async def test_violations_are_capped_at_twenty():
    schema = {"items": {"type": "integer"}}
    twenty = await judged(json.dumps(["x"] * 20), "json_schema", schema=schema)
    many = await judged(json.dumps(["x"] * 5000), "json_schema", schema=schema)
    assert len(twenty.misses) == 20
    assert many.misses == (*twenty.misses, "... and more")
    assert many.reasoning == "the answer is JSON with more than 20 violations of the schema"


async def test_violation_message_is_short_for_a_huge_value():
    schema = {"properties": {"a": {"type": "integer"}}}
    (miss,) = (await judged(json.dumps({"a": "x" * 100_000}), "json_schema", schema=schema)).misses
    assert miss == "$.a: does not satisfy `type`"


@pytest.mark.parametrize("answer", ["not json", '{"name": "Ada", "age": 36} done', '{"age": 1, "age": 2}', "NaN", ""])
async def test_answer_that_is_not_strict_json_is_a_miss(answer):
    result = await judged(answer, "json_schema", schema=PERSON)
    assert (result.score, result.error) == (0.0, None)
    assert result.misses[0].startswith("is not JSON: ")


@pytest.mark.parametrize(
    ("answer", "unique"),
    [
        ("[1, 1.0]", False),
        ("[1, true]", True),
        ("[0, false]", True),
        ('[{"a": 1, "b": [2]}, {"b": [2], "a": 1}]', False),
        ('[[1, 2], [2, 1], "1"]', True),
        ("[[1], [true]]", True),
    ],
)
async def test_unique_items_compares_json_values(answer, unique):
    assert (await judged(answer, "json_schema", schema={"uniqueItems": True})).score == float(unique)
    assert Draft202012Validator({"uniqueItems": True}).is_valid(json.loads(answer)) is unique


async def test_unique_items_is_fast_for_many_objects():
    started = time.monotonic()
    answer = json.dumps([{"id": number} for number in range(20_000)])
    assert (await judged(answer, "json_schema", schema={"uniqueItems": True})).score == 1.0
    assert time.monotonic() - started < 30


async def test_draft_is_selected_by_the_schema():
    tuples = {"items": [{"type": "integer"}]}
    draft7 = {"$schema": "http://json-schema.org/draft-07/schema#", **tuples}
    assert (await judged('["x"]', "json_schema", schema=draft7)).score == 0.0
    assert (await judged('[1, "x"]', "json_schema", schema=draft7)).score == 1.0
    assert problem_of("json_schema", schema=tuples)[0] == ("schema",)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "objec"}, "$.type: 'objec' is not"),
        ({"properties": {"a": {"minimum": "x"}}}, "$.properties.a.minimum: 'x' is not of type 'number'"),
        ({"properties": {"a": {"pattern": "("}}}, "$.properties.a.pattern: '(' is not a 'regex'"),
        ({"patternProperties": {"(": {}}}, "regex"),
        ({"$schema": "https://example.com/mine"}, "is not a known draft"),
        ({"$schema": 7}, "is not a known draft"),
        ({"$ref": "#/$defs/missing"}, "`$ref: #/$defs/missing` does not exist in the schema"),
        ({"$ref": "#"}, "refers to itself endlessly"),
        ({"$ref": "#/parts/a", "parts": {"a": {"type": 5}}}, "not a valid JSON Schema"),
        ({"minimum": float("nan")}, "JSON cannot represent"),
        ({"const": {1, 2}}, "the schema is not JSON"),
    ],
)
def test_invalid_schema_is_rejected_when_the_suite_loads(schema, reason):
    loc, message = problem_of("json_schema", schema=schema)
    assert loc == ("schema",)
    assert reason in message


def test_value_that_is_not_a_schema_is_rejected():
    assert "must not be empty" in problem_of("json_schema", schema=" ")[1]
    assert problem_of("json_schema")[0] == ("schema",)
    assert problem_of("json_schema", schema_={"type": "object"}, schema={})[0] == ("schema_",)


async def test_references_inside_the_schema_are_resolved():
    tree = {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
    }
    assert (await judged('{"next": {"next": {}}}', "json_schema", schema=tree)).score == 1.0
    assert (await judged('{"next": {"next": 5}}', "json_schema", schema=tree)).misses == (
        "$.next.next: 5 is not of type 'object'",
    )
    bundled = {
        "$id": "https://example.com/person",
        "properties": {"address": {"$ref": "address"}},
        "$defs": {"address": {"$id": "https://example.com/address", "type": "string"}},
    }
    assert (await judged('{"address": 5}', "json_schema", schema=bundled)).score == 0.0
    meta = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    assert (await judged('{"type": "objec"}', "json_schema", schema=meta)).score == 0.0


async def test_ref_key_in_data_is_not_resolved():
    schema = {"const": {"$ref": "http://example.com/x"}, "examples": [{"$ref": "other.json"}]}
    assert (await judged('{"$ref": "http://example.com/x"}', "json_schema", schema=schema)).score == 1.0


@pytest.fixture
def schema_server() -> Iterator[tuple[str, list[str]]]:
    """URL of a server that returns a schema, and the requested paths."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = b'{"type": "string"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/schema.json", asked
        server.shutdown()
        thread.join()


def test_remote_reference_is_rejected_without_a_request(schema_server):
    url, asked = schema_server
    with urllib.request.urlopen(url) as reply:
        assert json.loads(reply.read()) == {"type": "string"}
    assert asked == ["/schema.json"]
    for schema in (
        {"$ref": url},
        {"properties": {"a": {"items": {"$ref": url + "#/x"}}}},
        {"$id": url.replace("schema.json", "root.json"), "$ref": "schema.json"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"$ref": url}}},
        {"$ref": "#/parts/a", "parts": {"a": {"$ref": url}}},
        {"$dynamicRef": url},
    ):
        loc, message = problem_of("json_schema", schema=schema)
        assert loc == ("schema",)
        assert "points outside the schema" in message
        assert "$defs" in message
    assert asked == ["/schema.json"]


def test_unchecked_remote_reference_is_not_fetched_during_validation(schema_server, monkeypatch):
    url, asked = schema_server
    monkeypatch.setattr(schemas, "_check_inside", lambda dialect, schema, most: None)
    slipped = schemas.compiled(json.dumps({"properties": {"a": {"$ref": url}}}))
    with pytest.raises(EvaluatorError, match="points outside the schema"):
        slipped.violations({"a": 1}, 20)
    assert asked == []


def test_reference_to_another_file_is_rejected_without_reading_it(tmp_path):
    (tmp_path / "other.json").write_text('{"type": "string"}')
    for reference in ("other.json", f"file://{tmp_path}/other.json", str(tmp_path / "other.json")):
        assert "points outside the schema" in problem_of("json_schema", schema={"$ref": reference})[1]
        (tmp_path / "schema.json").write_text(json.dumps({"$ref": reference}))
        with pytest.raises(ValueError, match=r"^schema.json: .*points outside the schema"):
            an_evaluator("json_schema", schema="schema.json").load_files(tmp_path.joinpath)


# -- schemas in files


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("person.json", json.dumps(PERSON)),
        ("person.json", "\ufeff" + json.dumps(PERSON)),
        ("person.yaml", "type: object\nrequired: [name, age]\nproperties:\n  age: {type: integer}\n"),
        ("person.schema", json.dumps(PERSON)),
    ],
)
async def test_schema_is_read_from_a_json_or_yaml_file(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    loaded = an_evaluator("json_schema", schema=name).load_files(tmp_path.joinpath)
    (tmp_path / name).unlink()
    good, bad = an_answer('{"name": "Ada", "age": 36}'), an_answer('{"name": "Ada", "age": "x"}')
    assert (await judge(loaded, good)).score == 1.0
    assert (await judge(loaded, bad)).misses == ("$.age: 'x' is not of type 'integer'",)
    assert loaded.model_dump()["schema"]["type"] == "object"


def test_load_files_does_not_change_an_inline_schema(tmp_path):
    evaluator = an_evaluator("json_schema", schema=PERSON)
    assert evaluator.FILES == ("schema",)
    assert Evaluator.FILES == ()
    assert evaluator.load_files(tmp_path.joinpath) is evaluator


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("s.json", b'{"type": "object",}', "s.json is not JSON: .* line 1, column"),
        ("s.json", b'{"type": "object", "type": "array"}', "occurs twice"),
        ("s.json", b"[]", "does not contain a mapping"),
        ("s.json", b"true", "does not contain a mapping"),
        ("s.json", b"\xff{}", "not UTF-8"),
        ("s.yaml", b"type: [object", r"s.yaml:\d+:\d+: not valid YAML"),
        ("s.yaml", b"type: object\ntype: array", "s.yaml:2:1: the key `type` is already on line 1"),
        ("s.yaml", b"", "does not contain a mapping"),
        ("s.yaml", b"minimum: .inf", "JSON cannot represent"),
        ("s.json", b'{"type": "objec"}', "s.json: not a valid JSON Schema"),
        ("s.json", b"[" * 10_000, "nested more than"),
        ("s.json", b" " * (4 * 1024 * 1024 + 1), "larger than 4 MiB"),
    ],
)
def test_file_without_a_valid_schema_is_rejected_with_the_reason(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=reason):
        an_evaluator("json_schema", schema=name).load_files(tmp_path.joinpath)


def test_missing_file_directory_and_pipe_are_rejected(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    reasons = {"missing.json": "does not exist", "folder": "is a directory", "pipe": "is not a regular file"}
    for name, reason in reasons.items():
        with pytest.raises(ValueError, match=f"{name} {reason}"):
            an_evaluator("json_schema", schema=name).load_files(tmp_path.joinpath)


async def test_schema_file_that_was_not_loaded_is_an_error():
    result = await judged("{}", "json_schema", schema="schema.json")
    assert result.error is not None
    assert "'schema.json' has not been loaded" in result.error


# -- cost


def test_schema_is_compiled_once_for_all_cases(monkeypatch, tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(PERSON))
    evaluators = [
        an_evaluator("json_schema", schema=PERSON),
        an_evaluator("json_schema", schema="s.json").load_files(tmp_path.joinpath),
    ]
    before = schemas.compiled.cache_info().misses
    for evaluator in evaluators:
        for _ in range(100):
            assert without_waiting(evaluator.evaluate(an_answer('{"name": "Ada", "age": 36}'))).score == 1.0
    assert schemas.compiled.cache_info().misses == before
    monkeypatch.setattr("agentv.evaluators.json_schema.compiled", None)
    assert all(without_waiting(evaluator.evaluate(an_answer("{}"))).score == 0.0 for evaluator in evaluators)


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"pattern": "^(?:x|xx)+$"}, "x" * 200 + "y"),
        ({"items": {"pattern": "^(?:x|xx)+$"}}, ["x" * 200 + "y"]),
        ({"patternProperties": {"^(?:x|xx)+$": True}}, {"x" * 200 + "y": 1}),
        ({"additionalProperties": False, "patternProperties": {"^(?:x|xx)+$": {}}}, {"x" * 200 + "y": 1}),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "items": {"$ref": "#"},
                "pattern": "^(?:x|xx)+$",
            },
            ["x" * 200 + "y"],
        ),
    ],
)
async def test_catastrophic_pattern_in_a_schema_is_an_error_with_advice(monkeypatch, schema, answer):
    monkeypatch.setattr(patterns, "TIMEOUT_SECONDS", 0.05)
    started = time.monotonic()
    result = await judged(json.dumps(answer), "json_schema", schema=schema)
    assert time.monotonic() - started < 30
    assert result.error is not None
    assert "'^(?:x|xx)+$' timed out after 0.05 s" in result.error
    assert "Reduce backtracking" in result.error


@pytest.mark.parametrize(("answer", "score"), [({"a": 1, "b": 2}, 1.0), ({"a": 1, "c": 2}, 0.0), ([], 1.0)])
async def test_unevaluated_properties_are_found_behind_references(answer, score):
    schema = {
        "$defs": {"b": {"properties": {"b": {}}}},
        "allOf": [{"$ref": "#/$defs/b"}],
        "properties": {"a": {"type": "integer"}},
        "unevaluatedProperties": False,
    }
    assert (await judged(json.dumps(answer), "json_schema", schema=schema)).score == score


@pytest.mark.parametrize(
    ("answer", "divisor", "score"),
    [("0.3", 0.1, 1.0), ("19.99", 0.01, 1.0), ("19.995", 0.01, 0.0), ("9", 3, 1.0), ("-9", 4, 0.0), ("1.0", 1, 1.0)],
)
async def test_multiple_of_compares_decimals_exactly(answer, divisor, score):
    assert (await judged(answer, "json_schema", schema={"multipleOf": divisor})).score == score


async def test_other_patterns_keep_their_usual_meaning():
    schema = {
        "properties": {"id": {"pattern": "^[a-z]+$"}},
        "patternProperties": {"^n_": {"type": "integer"}},
        "additionalProperties": {"type": "string"},
    }
    assert (await judged('{"id": "ab", "n_1": 1, "other": "x"}', "json_schema", schema=schema)).score == 1.0
    assert (await judged('{"id": "AB", "n_1": "1", "other": 1}', "json_schema", schema=schema)).misses == (
        "$.id: 'AB' does not match '^[a-z]+$'",
        "$.n_1: '1' is not of type 'integer'",
        "$.other: 1 is not of type 'string'",
    )


async def test_answer_nested_too_deeply_for_its_schema_is_an_error_not_a_crash():
    result = await judged("[" * 450 + "]" * 450, "json_schema", schema={"items": {"$ref": "#"}})
    assert result.error is None or "nested too deeply for this schema" in result.error


def test_option_is_named_schema_in_dumps_and_json_schema():
    evaluator = an_evaluator("json_schema", schema={"type": "object"})
    assert evaluator.model_dump()["schema"] == {"type": "object"}
    assert "schema" in type(evaluator).model_json_schema()["properties"]
    assert isinstance(evaluator.load_files(Path), Evaluator)
