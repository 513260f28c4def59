"""Templates insert values once, report errors with their line, and have limits."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import quote

import pytest

from agentv import templates
from agentv.templates import TemplateError, compile_template, refuse_unknown


def render(text: str, **values: Any) -> str:
    return compile_template(text).render(values)


def error_of(text: str, **values: Any) -> TemplateError:
    with pytest.raises(TemplateError) as caught:
        render(text, **values)
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello {{ name }}!", "Hello Ada!"),
        ("{{ yes }} {{ no }} {{ nothing }}.", "true false ."),
        ("{{ numbers }} {{ person }}", '[1, 2] {"name": "Zoë"}'),
        ("{{ person.name }} {{ numbers[1] }} {{ 1.5 }}", "Zoë 2 1.5"),
        ("{% for n in numbers %}{{ loop.index }}/{{ loop.length }}:{{ n }} {% endfor %}\n", "1/2:1 2/2:2 \n"),
        ("{{ text | tojson }}", '"<b> & \\"x\\""'),
        ("{{ person | tojson(indent=1) }}", '{\n "name": "Zoë"\n}'),
        ("{{ other | default('none') }}{% if other is defined %}x{% endif %}", "none"),
        ("{{ name | upper }}{{ range(3) | list }}", "ADA[0, 1, 2]"),
        ("{% raw %}{{ name }}{% endraw %}", "{{ name }}"),
        ("{{ text }}", '<b> & "x"'),
    ],
)
def test_values_are_inserted(text: str, expected: str) -> None:
    values = {
        "name": "Ada",
        "yes": True,
        "no": False,
        "nothing": None,
        "numbers": [1, 2],
        "person": {"name": "Zoë"},
        "text": '<b> & "x"',
    }
    assert compile_template(text).render(values) == expected


def test_value_is_not_interpreted_again() -> None:
    assert render("{{ a }}{{ b }}", a="{{ b }}", b="{% if %}") == "{{ b }}{% if %}"


@pytest.mark.parametrize("value", [[1, {"a": None}], {"a": 1}, 3, True, None, "text"])
def test_single_expression_keeps_the_type_of_its_value(value: object) -> None:
    template = compile_template("{{ x }}")
    assert template.is_expression
    assert template.value({"x": value}) == value
    assert compile_template(" {{ x }}").value({"x": [1]}) == " [1]"


def test_names_are_the_undeclared_variables() -> None:
    text = "{% for m in messages %}{{ m.role }}{{ loop.index }}{% endfor %}{% set a = range(2) %}{{ a }}{{ prompt }}"
    assert compile_template(text).names == {"messages", "prompt"}


def test_unknown_name_is_reported_before_rendering() -> None:
    with pytest.raises(TemplateError, match=r"unknown variable `promt` \(did you mean `prompt`\?\)"):
        refuse_unknown(compile_template("{{ promt }}"), ["prompt", "messages"])


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a\n{{ nam }}", "unknown variable `nam` (did you mean `name`?)", 2),
        ("a\n\n{{ person.nme }}", "there is no `nme` in the value (did you mean `name`?)", 3),
        ("{{ numbers[7] }}", "there is no `7` in the value", 1),
        ("{{ [nam] | tojson }}", "unknown variable `nam` (did you mean `name`?)", 1),
        ("\n{{ 1 / 0 }}", "division by zero", 2),
        ("{% for x in y %}{% endfor %}", "unknown variable `y`", 1),
    ],
)
def test_rendering_error_has_its_line(text: str, message: str, line: int) -> None:
    error = error_of(text, name="Ada", person={"name": "Zoë"}, numbers=[1])
    assert (error.message, error.line) == (message, line)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("a\n{{ name", "unexpected end of template", 2),
        ("{% if x %}", "unexpected end of template", 1),
        ("\n{{ x | nofilter }}", "no filter named 'nofilter'", 2),
        ("{{ x | random }}", "no filter named 'random'", 1),
        ("a\n{% include 'b' %}", "`{% include %}` is not supported", 2),
        ("{% from 'b' import c %}", "`{% from ... import %}` is not supported", 1),
    ],
)
def test_syntax_error_has_its_line(text: str, message: str, line: int) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(text)
    assert message in caught.value.message
    assert caught.value.line == line


@pytest.mark.parametrize(
    "text",
    [
        "{% for i in range(1000000) %}{% endfor %}",
        "{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}",
        "{% for i in letters %}{% for j in letters %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
        "{{ 'x' * 100000000 }}",
        "{{ 10 ** 100000000 }}",
        "{% set n = namespace(x=3) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x='x') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x='x') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x='x') %}{% for i in range(99) %}{% set n.x %}{{ n.x }}{{ n.x }}{% endset %}{% endfor %}",
        "{{ 'x' | center(1000000000) }}",
        "{{ 'x'.center(1000000000) }}",
        "{{ letters | replace('x', '\\n.') | indent(1000000) }}",
        "{{ letters | wordwrap(1, wrapstring=letters) }}",
        "{{ '%999999999d' | format(1) }}",
        "{{ '%*d' % (999999999, 1) }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ letters | replace('x', letters) }}",
        "{{ letters | list | join(letters) }}",
        "{{ letters | batch(1000000000, 'x') | list | length }}",
        "{{ [1] | slice(1000000000) | list | length }}",
        "{{ [[1]] | map('join', 'x') | map('center', 1000000000) | list | length }}",
        "{{ {'a': [1]} | tojson(indent=1000000000) }}",
    ],
)
def test_endless_work_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "WORKER_SECONDS", 1.0)
    error = error_of(f"a\n{text}", letters="x" * 5_000)
    assert error.message
    assert error.line == 2 or "to render" in error.message


async def test_long_rendering_does_not_block_the_event_loop() -> None:
    slow = "{% for i in range(100) %}{% set x = text | replace('a', 'b') | wordcount %}{% endfor %}{{ text | length }}"
    pauses: list[float] = []

    async def measure() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0)
            pauses.append(time.perf_counter() - before)

    measuring = asyncio.create_task(measure())
    assert await compile_template(slow).rendered({"text": "a " * 30_000}) == "60000"
    measuring.cancel()
    assert max(pauses) < 0.25
    with pytest.raises(TemplateError, match=r"takes longer than 5 s|has more than"):
        await compile_template("{{ text | replace('a', text) | replace('a', text) }}").rendered({"text": "a" * 20_000})


def test_large_values_can_be_processed() -> None:
    words = "word " * 100_000
    assert render("{{ x | replace('word', 'w') | length }} {{ x | truncate(9) }}", x=words) == "200000 word..."
    assert (
        compile_template("{{ words_list | map('trim') }}").value({"words_list": (words, words)}) == [words.strip()] * 2
    )
    assert render("{{ words_list | map('upper') }}", words_list=["a"]) == '["A"]'


def test_output_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "LONGEST_VALUE", 1_000)
    assert render("{{ x }}", x="a" * 1_000) == "a" * 1_000
    assert error_of("{{ x }}{{ x }}", x="a" * 600).message == "the output is longer than 1,000 characters"


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ numbers.append(3) }}",
        "{{ render.__globals__ }}",
        "{{ x.__init__ }}",
        "{{ cycler.__init__.__globals__ }}",
    ],
)
def test_template_cannot_leave_the_sandbox(text: str) -> None:
    numbers = [1]
    assert error_of(text, numbers=numbers, render=render, x=object()).message
    assert numbers == [1]


def test_escape_is_applied_to_values_only() -> None:
    template = compile_template("http://h/{{ a }}?q={{ b }}", escape=lambda text: quote(text, safe=""))
    assert template.render({"a": "x/../y", "b": [1]}) == "http://h/x%2F..%2Fy?q=%5B1%5D"
