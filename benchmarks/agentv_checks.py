"""The cases on which `benchmarks.agentv_peer` compares AgentV (npm) and this project.

A case has an answer, a list of assertions in the spelling of AgentV 4, and the reason if the scores differ by design.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from agentv.suite.yaml import YamlWalk

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Check(NamedTuple):
    """One case; `about` is unique."""

    about: str
    answer: str
    assertions: Sequence[Any]
    why: str = ""
    """Why the scores differ by design."""
    calls: Sequence[Mapping[str, Any]] = ()
    """The tool calls before the answer."""
    reported: Mapping[str, Any] = NOTHING
    """What the target reports besides its messages: token usage, cost, duration."""
    case: Mapping[str, Any] = NOTHING
    """Other keys of the case."""
    suite: str = "checks"
    """The suite of the case; a key of `HEADS`."""
    only_v4: bool = False
    """Whether version 5 has no spelling of it."""


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": name, "input": arguments, "output": "ok"}


def trajectory(mode: str, *expected: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    return {"type": "tool-trajectory", "mode": mode, "expected": list(expected), **options}


def fields(*listed: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    return {"type": "field-accuracy", "fields": list(listed), **options}


def script(reply: str, code: int = 0) -> dict[str, Any]:
    return {"type": "code-grader", "command": f"cat > /dev/null; printf '%s' '{reply}'; exit {code}"}


def composite(aggregator: Mapping[str, Any], *members: Mapping[str, Any]) -> dict[str, Any]:
    named = [{"name": f"m{number}", **member} for number, member in enumerate(members, 1)]
    return {"type": "composite", "aggregator": aggregator, "assertions": named}


HEADS: Mapping[str, Mapping[str, Any]] = {
    "checks": {},
    "alone": {},
    "added": {"assertions": [{"type": "is-json"}, "rubric-1 (yes)", "rubric-2 (no)"]},
    "defaults": {
        "input": [{"role": "system", "content": "Be brief."}],
        "assertions": [{"type": "contains", "value": "Paris"}],
    },
}
"""The heads of the suites."""

PARIS = "The capital of France is Paris."
YES = {"type": "contains", "value": "Paris"}
NO = {"type": "contains", "value": "Rome"}
HALF = {"type": "tool-trajectory", "mode": "any_order", "minimums": {"search": 1, "book": 1}}
SEARCH, BOOK, OPEN = tool("search", q="x", n=2), tool("book", id=7), tool("open")
PERSON = '{"name": "Ada", "age": 36, "born": "1815-12-10", "address": {"city": "London"}, "tags": ["a", "b"]}'
KNOWN = {"expected_output": {"name": "Ada", "age": 37, "born": "10-DEC-1815", "address": {"city": "Paris"}}}
NAME, AGE, BORN, CITY = (
    {"path": "name", "match": "exact"},
    {"path": "age", "match": "numeric_tolerance", "tolerance": 1},
    {"path": "born", "match": "date", "formats": ["YYYY-MM-DD", "DD-MMM-YYYY"]},
    {"path": "address.city", "match": "exact"},
)
SPENT = {"token_usage": {"input": 100, "output": 20, "cached": 5}, "cost_usd": 0.02, "duration_ms": 40}
ANOTHER_ORDER = "another order is not the expected order: 0"
EXTRA = "a call too many is not exact: 0"

STRINGS = (
    Check("`contains`", PARIS, [YES]),
    Check("`contains`, another case", PARIS, [{"type": "contains", "value": "paris"}]),
    Check("`contains`, spaces count", "Paris", [{"type": "contains", "value": " Paris"}]),
    Check("`icontains`", PARIS, [{"type": "icontains", "value": "PARIS"}]),
    Check("`contains-any`, one of two", PARIS, [{"type": "contains-any", "value": ["Rome", "Paris"]}]),
    Check("`contains-any`, none", PARIS, [{"type": "contains-any", "value": ["Rome", "Oslo"]}]),
    Check("`contains-all`, one of two", PARIS, [{"type": "contains-all", "value": ["Rome", "Paris"]}]),
    Check("`contains-all`, both", PARIS, [{"type": "contains-all", "value": ["France", "Paris"]}]),
    Check("`icontains-any`, `icontains-all`", PARIS, [
        {"type": "icontains-any", "value": ["ROME", "paris"]}, {"type": "icontains-all", "value": ["FRANCE", "rome"]}]),
    Check("`equals`, white space around the answer", "\n Paris \n", [{"type": "equals", "value": "Paris"}]),
    Check("`equals`, white space around the value", "Paris", [{"type": "equals", "value": " Paris "}]),
    Check("`equals`, another case", "paris", [{"type": "equals", "value": "Paris"}]),
    Check("`starts-with`, after white space", "  The capital", [{"type": "starts-with", "value": "The"}]),
    Check("`ends-with`, before a line break", "is Paris\n", [{"type": "ends-with", "value": "Paris"}]),
    Check("`regex`", PARIS, [{"type": "regex", "value": "^The .* Paris\\.$"}]),
    Check("`regex`, flag `i`", PARIS, [{"type": "regex", "value": "PARIS", "flags": "i"}]),
    Check("`regex`, `$` and a last line break", "Paris\n", [{"type": "regex", "value": "Paris$"}]),
    Check("`regex`, flag `m`", "Paris\nRome", [{"type": "regex", "value": "Paris$", "flags": "m"}]),
    Check("`regex`, `.` and flag `s`", "a\nb", [
        {"type": "regex", "value": "a.b"}, {"type": "regex", "value": "a.b", "flags": "s"}]),
    Check("`regex`, `\\d` is ASCII", "٣", [{"type": "regex", "value": "\\d"}]),
    Check("`regex`, named group", "10 EUR", [{"type": "regex", "value": "(?<n>\\d+) EUR"}]),
    Check("`is-json`, an object", '{"a": 1}', [{"type": "is-json"}]),
    Check("`is-json`, white space around it", '\n [1, 2] ', [{"type": "is-json"}]),
    Check("`is-json`, text around it", 'Here: {"a": 1}', [{"type": "is-json"}]),
    Check("`is-json`, a number", "42", [{"type": "is-json"}]),
)  # fmt: skip

SCORES = (
    Check("weights 3 and 1", PARIS, [{**YES, "weight": 3}, NO]),
    Check("weight 0", PARIS, [YES, {**NO, "weight": 0}]),
    Check("all weights 0", PARIS, [{**YES, "weight": 0}]),
    Check("three of four", PARIS, [YES, {"type": "contains", "value": "France"},
                                   {"type": "contains", "value": "capital"}, NO]),
    Check("`negate`", PARIS, [{**YES, "negate": True}, {**NO, "negate": True}]),
    Check("`negate` with a partial score", PARIS, [{**HALF, "negate": True}], calls=[SEARCH]),
    Check("`required`, failed", PARIS, [YES, {**NO, "required": True}]),
    Check("`required`, passed", PARIS, [{**YES, "required": True}, NO]),
    Check("`required` with `min_score`, reached", PARIS, [YES, {**HALF, "required": True, "min_score": 0.5}],
          calls=[SEARCH]),
    Check("`required` with `min_score`, not reached", PARIS, [YES, {**HALF, "required": True, "min_score": 0.6}],
          calls=[SEARCH]),
    Check("`required: 0.5`, reached", PARIS, [YES, {**HALF, "required": 0.5}], calls=[SEARCH], only_v4=True),
    Check("`required`, below the threshold", PARIS, [YES, {**HALF, "required": True}], calls=[SEARCH]),
    Check("`min_score` alone", PARIS, [YES, {**HALF, "min_score": 0.9}], calls=[SEARCH]),
    Check("`required` and the threshold of the case", PARIS, [YES, {**HALF, "required": True}], calls=[SEARCH],
          case={"execution": {"threshold": 0.4}}),
    Check("`composite`, `weighted_average`", PARIS, [
        composite({"type": "weighted_average", "weights": {"m1": 3, "m2": 1}}, YES, NO)], only_v4=True),
    Check("`composite` without weights", PARIS, [composite({"type": "weighted_average"}, YES, NO, NO)], only_v4=True),
    Check("`composite`, `threshold` of 0.5, 2 of 3", PARIS, [
        composite({"type": "threshold", "threshold": 0.5}, YES, NO, {"type": "is-json"}, YES)], only_v4=True),
    Check("`composite`, weight of a member", PARIS, [
        composite({"type": "weighted_average"}, {**YES, "weight": 3}, NO)], only_v4=True,
        why="members keep their `weight`"),
    Check("`composite`, `negate` of a member", PARIS, [
        composite({"type": "weighted_average"}, YES, {**NO, "negate": True})], only_v4=True,
        why="members keep `negate`"),
    Check("variables of a case", "It is Rome", [{"type": "equals", "value": "It is Rome"}],
          case={"vars": {"city": "Rome"}, "input": "Where is {{ city }}?"}),
    Check("assertions of the suite", "In Rome", [{"type": "contains", "value": "Rome"}], suite="defaults"),
    Check("the same, `skip_defaults`", "In Rome", [{"type": "contains", "value": "Rome"}], suite="defaults",
          case={"execution": {"skip_defaults": True}}, only_v4=True),
)  # fmt: skip

TRACES = (
    Check("`any_order`, one of two", "x", [HALF], calls=[SEARCH]),
    Check("`any_order`, two of one tool", "x", [{**HALF, "minimums": {"search": 2}}], calls=[SEARCH, SEARCH]),
    Check("`in_order`, a call between", "x", [trajectory("in_order", {"tool": "search"}, {"tool": "open"})],
          calls=[SEARCH, BOOK, OPEN]),
    Check("`in_order`, the second is missing", "x", [trajectory("in_order", {"tool": "search"}, {"tool": "open"})],
          calls=[SEARCH, BOOK]),
    Check("`in_order`, another order", "x", [trajectory("in_order", {"tool": "open"}, {"tool": "search"})],
          calls=[SEARCH, OPEN], why=ANOTHER_ORDER),
    Check("`exact`", "x", [trajectory("exact", {"tool": "search"}, {"tool": "open"})], calls=[SEARCH, OPEN]),
    Check("`exact`, a call too many", "x", [trajectory("exact", {"tool": "search"})], calls=[SEARCH, OPEN], why=EXTRA),
    Check("`exact`, a call is missing", "x", [trajectory("exact", {"tool": "search"}, {"tool": "open"})],
          calls=[SEARCH]),
    Check("`superset`, extra calls", "x", [trajectory("superset", {"tool": "open"}, {"tool": "search"})],
          calls=[SEARCH, BOOK, OPEN]),
    Check("`superset`, one of two", "x", [trajectory("superset", {"tool": "open"}, {"tool": "pay"})],
          calls=[SEARCH, OPEN]),
    Check("`subset`, all allowed", "x", [trajectory("subset", {"tool": "search"}, {"tool": "pay"})],
          calls=[SEARCH, SEARCH]),
    Check("`subset`, one of two allowed", "x", [trajectory("subset", {"tool": "search"})], calls=[SEARCH, OPEN]),
    Check("`subset`, no calls", "x", [trajectory("subset", {"tool": "search"})]),
    Check("arguments are exact by default", "x", [trajectory("in_order", {"tool": "search", "args": {"q": "x"}})],
          calls=[SEARCH]),
    Check("`args_match: superset`", "x", [
        trajectory("in_order", {"tool": "search", "args": {"q": "x"}}, args_match="superset")], calls=[SEARCH]),
    Check("`args_match: subset`", "x", [
        trajectory("in_order", {"tool": "search", "args": {"q": "x", "n": 2, "z": 1}}, args_match="subset")],
        calls=[SEARCH]),
    Check("`args_match: ignore`", "x", [
        trajectory("in_order", {"tool": "search", "args": {"q": "y"}}, args_match="ignore")], calls=[SEARCH]),
    Check("`args_match` with fields", "x", [
        trajectory("in_order", {"tool": "search", "args": {"q": "x", "n": 9}, "args_match": ["q"]})], calls=[SEARCH]),
    Check("`args: any`", "x", [trajectory("in_order", {"tool": "search", "args": "any"})], calls=[SEARCH]),
    Check("no calls", "x", [trajectory("in_order", {"tool": "search"})]),
    Check("`execution-metrics`, one of two", "x", [
        {"type": "execution-metrics", "max_tool_calls": 1, "max_tokens": 500}], calls=[SEARCH, OPEN], reported=SPENT),
    Check("`execution-metrics`, exploration", "x", [
        {"type": "execution-metrics", "target_exploration_ratio": 0.5, "exploration_tolerance": 0.1}],
        calls=[SEARCH, OPEN], reported=SPENT),
    Check("`latency`, `cost`", "x", [{"type": "latency", "threshold": 30}, {"type": "cost", "budget": 0.05}],
          reported=SPENT),
    Check("`token-usage`, cached tokens", "x", [
        {"type": "token-usage", "max_total": 120}, {"type": "token-usage", "max_total": 125}], reported=SPENT),
    Check("`skill-trigger`", "x", [
        {"type": "skill-trigger", "skill": "pay"}, {"type": "skill-trigger", "skill": "ship", "should_trigger": False}],
        calls=[tool("Skill", skill="pay")], only_v4=True),
    Check("`skill-trigger`, part of another name", "x", [{"type": "skill-trigger", "skill": "pay"}],
          calls=[tool("Skill", skill="payroll")], why="names of skills are compared as a whole", only_v4=True),
)  # fmt: skip

FIELDS = (
    Check("`field-accuracy`, 3 of 4", PERSON, [fields(NAME, AGE, BORN, CITY)], case=KNOWN),
    Check("`field-accuracy`, weights", PERSON, [fields({**NAME, "weight": 3}, CITY)], case=KNOWN),
    Check("`field-accuracy`, `all_or_nothing`", PERSON, [fields(NAME, CITY, aggregation="all_or_nothing")], case=KNOWN),
    Check("`field-accuracy`, relative tolerance", PERSON, [fields({**AGE, "tolerance": 0.01, "relative": True})],
          case=KNOWN),
    Check("`field-accuracy`, a missing field", "{}", [fields(NAME, {**CITY, "required": False})], case=KNOWN),
    Check("`field-accuracy`, not JSON", "Ada", [fields(NAME)], case=KNOWN),
    Check("`field-accuracy`, dates in another order", '{"born": "04/03/2025"}',
          [fields({**BORN, "formats": ["DD/MM/YYYY"]})], case={"expected_output": {"born": "2025-03-04"}},
          why="`formats` decide; AgentV reads April 3"),
)  # fmt: skip

SCRIPTS = (
    Check("script: `score`", "x", [script('{"score": 0.25}')]),
    Check("script: `score` out of range", "x", [script('{"score": 7}')], why="a score above 1 is an error"),
    Check(
        "script: `score` and `assertions`",
        "x",
        [script('{"score": 0.5, "assertions": [{"text": "a", "passed": true}]}')],
    ),
    Check(
        "script: `assertions`, one of two",
        "x",
        [script('{"assertions": [{"text": "a", "passed": true}, {"text": "b", "passed": false}]}')],
    ),
    Check("script: text, exit code 0", "x", [script("fine")]),
    Check("script: text, exit code 1", "x", [script("not fine", 1)]),
    Check(
        "script: a list as `command`",
        "x",
        [{"type": "code-grader", "command": ["sh", "-c", "cat > /dev/null; echo '{\"score\": 1}'"]}],
    ),
)

JUDGED = (
    Check("strings: one of two", "x", ["rubric-1 (yes)", "rubric-2 (no)"]),
    Check("strings count as often as they are", "x", [
        "rubric-1 (yes)", "rubric-2 (yes)", "rubric-3 (yes)", {"type": "is-json"}]),
    Check("`rubrics`, weights 3 and 1", "x", [{"type": "rubrics", "criteria": [
        {"id": "a", "outcome": "a (yes)", "weight": 3}, {"id": "b", "outcome": "b (no)"}]}]),
    Check("`rubrics`, `score_ranges`", "x", [{"type": "rubrics", "criteria": [
        {"id": "a", "outcome": "a (8)", "score_ranges": {0: "bad", 5: "fair", 8: "good"}},
        {"id": "b", "outcome": "b (4)", "score_ranges": {0: "bad", 5: "fair", 8: "good"}}]}]),
    Check("`rubrics`, the judge omits one", "x", ["rubric-1 (yes)", "rubric-2 (omitted)"],
          why="a criterion that the judge omits is not satisfied"),
    Check("`rubrics`, `required: true`, not satisfied", "x", [{"type": "rubrics", "criteria": [
        {"id": "a", "outcome": "a (yes)"}, {"id": "b", "outcome": "b (no)", "required": True}]}],
        why="a required criterion that is not satisfied: 0"),
    Check("`llm-grader`", "x", [{"type": "llm-grader", "prompt": "Grade {{ output }}: score (0.6)"}]),
    Check("`criteria` without assertions", "x", [], case={"criteria": "score (0.6)"}, only_v4=True),
)  # fmt: skip

A_AND_B = "assertions: [{name: a, type: contains, value: lamp}, {name: b, type: contains, value: x}]"
LISTS = (
    "{type: contains, value: 40 EUR}",
    "{type: contains, value: 40 eur}",
    "{type: contains-any, value: [x, lamp]}",
    "{type: contains-all, value: [lamp, x]}",
    "{type: icontains-all, value: [LAMP, eur]}",
    "{type: starts-with, value: '  The '}",
    "{type: ends-with, value: Thanks}",
    "{type: equals, value: 'The lamp'}",
    "{type: regex, value: 'EUR\\.$'}",
    "{type: regex, value: 'EUR\\.$', flags: m}",
    "{type: regex, value: 'THANKS$', flags: gi}",
    "{type: regex, value: '^The'}",
    "{type: contains, value: x, negate: true}",
    "{type: latency, threshold: 400}",
    "{type: token-usage, max_total: 17}",
    "{type: execution-metrics, max_tool_calls: 3, max_tokens: 100, max_duration_ms: 100}",
    "{type: execution-metrics, target_exploration_ratio: 0.3, max_tool_calls: 2}",
    "{type: skill-trigger, skill: pay}",
    "{type: skill-trigger, skill: other, should_trigger: false}",
    "{type: tool-trajectory, mode: any_order, minimums: {search: 2, Read: 2}}",
    "{type: tool-trajectory, mode: in_order, expected: [{tool: search, args: {q: 1}}]}",
    "{type: tool-trajectory, mode: in_order, args_match: superset, expected: [{tool: Read, args: {q: 1}}, {tool: z}]}",
    "{type: tool-trajectory, mode: exact, expected: [{tool: search}, {tool: x}, {tool: search, max_duration_ms: 50}]}",
    "{type: tool-trajectory, mode: superset, expected: [{tool: search}, {tool: search}, {tool: search}]}",
    "{type: tool-trajectory, mode: subset, expected: [{tool: search, args: {q: 1}, args_match: superset}, {tool: z}]}",
    "{type: tool-trajectory, mode: in_order, expected: [{tool: search, args: {q: 1, z: 3}, args_match: [q]}]}",
    "{name: c, type: composite, aggregator: {type: threshold, threshold: 0.5}, " + A_AND_B + "}",
    "{name: c, type: composite, aggregator: {type: weighted_average, weights: {a: 3, b: 1}}, " + A_AND_B + "}",
    "{name: c, type: composite, required: true, min_score: 0.5, aggregator: {type: weighted_average}, " + A_AND_B + "}",
    '{name: s, type: code-grader, command: "echo \'{\\"score\\": 0.3}\'"}',
    "rubric-1 (yes), rubric-2 (no), {type: contains, value: x}",
    "{type: contains, value: lamp, weight: 3}, {type: contains, value: x}",
    "{type: contains, value: lamp, weight: 3}, {type: contains, value: x, required: true}",
    "{type: rubrics, criteria: [{outcome: rubric-1 (yes), weight: 3}, {outcome: rubric-2 (no)}]}",
    "{type: rubrics, criteria: [{outcome: rubric-1 (8), weight: 3, score_ranges: {0: x}}, {outcome: rubric-2 (4)}]}",
    "{type: rubrics, weight: 2, criteria: [rubric-1 (yes), rubric-2 (no)], negate: true}, {type: is-json}",
    "{type: llm-grader, prompt: 'Is {{ output }} right? score (0.6)'}",
)
"""Lists of assertions, for one answer."""
SHOP = "  The lamp costs 40 EUR.\nThanks\n"
SHOP_CALLS = (
    {"tool": "search", "input": {"q": 1, "r": 2}, "duration_ms": 40},
    {"tool": "Read", "input": {"file_path": "x/skills/pay/SKILL.md"}, "duration_ms": 10},
    {"tool": "search", "input": {"q": 3}, "duration_ms": 90},
)
SHOP_SPENT = {"duration_ms": 500, "cost_usd": 0.01, "token_usage": {"input": 10, "output": 5, "cached": 2}}


def combined(suite: str) -> tuple[Check, ...]:
    """Every list as a case of a suite."""
    return tuple(
        Check(f"list {number} of `{suite}`", SHOP, YamlWalk(f"[{entries}]").document(), calls=SHOP_CALLS,
              reported=SHOP_SPENT, suite=suite, only_v4="composite" in entries or "skill" in entries)
        for number, entries in enumerate(LISTS, 1)
    )  # fmt: skip


GROUPS: Mapping[str, Sequence[Check]] = {
    "strings": STRINGS,
    "scores of cases": SCORES,
    "tool calls and limits": TRACES,
    "fields": FIELDS,
    "scripts": SCRIPTS,
    "a scripted judge": JUDGED,
    "lists of assertions": combined("alone"),
    "the same, and a list of the suite": combined("added"),
}
