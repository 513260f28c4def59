"""JSON correctness: is the answer JSON, and does it match the schema?

Needs: the answer; the option `schema` (a JSON Schema, or a file with one) unless any JSON is correct
Judge calls: none
Formula: 1 if the whole answer is one strict JSON value that matches the schema, else 0

Like the evaluators `is_json` and `json_schema`, which run without a script, as a script to start from.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jsonschema.validators import validator_for
from referencing import Registry

from agentv.metrics.support import option, short
from agentv_eval import code_judge

if TYPE_CHECKING:
    from agentv_eval import CodeJudgeInput

MAX_VIOLATIONS = 20


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object has a duplicate key")
    return value


def not_json(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


@code_judge
def json_correctness(case: CodeJudgeInput) -> dict[str, Any]:
    try:
        value = json.loads(case.candidate_answer or "", object_pairs_hook=unique_keys, parse_constant=not_json)
    except (ValueError, RecursionError) as error:
        return {"score": 0.0, "misses": [f"is not JSON: {error}"], "reasoning": "the answer is not JSON"}
    schema = option(case, "schema")
    if schema is None:
        return {"score": 1.0, "hits": ["is JSON"], "reasoning": "the answer is JSON"}
    # An empty registry: a schema is never fetched from the network.
    validator = validator_for(schema)(schema, registry=Registry())
    misses = [f"{error.json_path}: {short(error.message)}" for error in validator.iter_errors(value)]
    if not misses:
        return {"score": 1.0, "hits": ["matches the schema"], "reasoning": "the answer is JSON that matches the schema"}
    return {
        "score": 0.0,
        "misses": misses[:MAX_VIOLATIONS],
        "reasoning": f"the answer is JSON that violates the schema {len(misses)} times",
    }
