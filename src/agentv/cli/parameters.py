"""Parameter types of commands, and the run options built from their table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from agentv.plan.options import OPTIONS, RECORD_JUDGE_IO, Option

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class FiniteRange(click.FloatRange):
    """A finite number in a range. `nan` is rejected, because click's range check lets it pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def run_options(function: Decorated) -> Decorated:
    """Add every run option to a command."""
    for name, option in reversed(list(OPTIONS.items())):
        function = _parameter(name, option)(function)
    older = click.option("--record-judge-io", RECORD_JUDGE_IO, is_flag=True, default=None, hidden=True)
    return older(function)


def _parameter(name: str, option: Option) -> Callable[[Decorated], Decorated]:
    if not option.keyword:
        return click.argument(name, nargs=-1)
    text = option.help if not option.default else f"{option.help}  [{option.default}]"
    if option.kind == "switch":
        return click.option(option.flag, name, is_flag=True, help=text)
    if option.kind == "list":
        return click.option(option.flag, name, multiple=True, metavar=option.metavar, help=text)
    kind: click.ParamType[Any] = click.STRING
    if option.kind == "choice":
        kind = click.Choice(option.choices)
    elif option.kind in ("whole", "number"):
        kind = _range(option)
    return click.option(option.flag, name, type=kind, default=option.default, metavar=option.metavar, help=text)


def _range(option: Option) -> click.IntRange | click.FloatRange:
    least, most = (None if math.isinf(bound) else bound for bound in (option.least, option.most))
    if option.kind == "number":
        return FiniteRange(least, most, min_open=option.is_open)
    return click.IntRange(None if least is None else int(least), None if most is None else int(most))
