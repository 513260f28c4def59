"""Jinja2 templates: `{{ name }}`, filters, `{% if %}` and `{% for %}`, in a sandbox and with limits.

A value is inserted once and never interpreted again. `true` and `false` are written as in JSON, lists and mappings as
JSON, and None as nothing. A variable without a value is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from agentv.template_limits import (
    LONGEST_VALUE,
    MOST_STEPS,
    Budget,
    LimitError,
    NeedsWorkerError,
    refuse_large_power,
)
from agentv.text import did_you_mean

if TYPE_CHECKING:
    import jinja2
    from jinja2 import nodes
    from jinja2.runtime import Context
    from jinja2.sandbox import SandboxedEnvironment

WORKER_SECONDS = 5.0
"""How long a template may take to render."""
_BUDGET = " budget"
"""The variable with what is left of the limits. No template can name it."""
_NO_RANDOM = "random"
_ELSEWHERE = {
    "Include": "{% include %}",
    "Import": "{% import %}",
    "FromImport": "{% from ... import %}",
    "Extends": "{% extends %}",
}


class TemplateError(ValueError):
    """A template is invalid or cannot be rendered: what is wrong, and the line of the template (from 1)."""

    def __init__(self, message: str, line: int = 1, *, name: str | None = None, is_part: bool = False) -> None:
        super().__init__(message)
        self.message, self.line = message, line
        self.name = name
        """The variable, or the part of its value, that is not defined."""
        self.is_part = is_part
        """Whether the variable is defined, but a part of its value is not."""


class Template(Protocol):
    """A compiled template. Use `compile_template`."""

    names: frozenset[str]
    """The variables that the template uses, including those it tests with `is defined`."""

    @property
    def is_expression(self) -> bool:
        """Whether the template is exactly one `{{ expression }}`, without other text."""

    @property
    def is_constant(self) -> bool:
        """Whether no variable can change the output."""

    def render(self, values: Mapping[str, Any], /) -> str:
        """The template with these values. Raises `TemplateError`, also for a variable without a value.

        A rendering that takes long waits for a worker: in an event loop, use `rendered`.
        """

    def value(self, values: Mapping[str, Any], /) -> Any:
        """Like `render`, but a template that is exactly one `{{ expression }}` keeps the type of its value."""

    async def rendered(self, values: Mapping[str, Any], /, *, typed: bool = False) -> Any:
        """Like `render`, or with `typed` like `value`, without blocking the event loop."""


class _JinjaTemplate:
    """A template that Jinja2 renders."""

    def __init__(
        self,
        text: str,
        escape: Callable[[str], str] | None,
        source: jinja2.Template,
        names: frozenset[str],
        expression: jinja2.Template | None,
    ) -> None:
        self._text, self._escape = text, escape
        self._source, self._expression = source, expression
        self.names = names

    @property
    def is_expression(self) -> bool:
        return self._expression is not None

    @property
    def is_constant(self) -> bool:
        return not self.names

    def render(self, values: Mapping[str, Any]) -> str:
        text: str = self._in_place_or_blocking(values, typed=False)
        return text

    def value(self, values: Mapping[str, Any]) -> Any:
        return self._in_place_or_blocking(values, typed=True)

    def _in_place_or_blocking(self, values: Mapping[str, Any], *, typed: bool) -> Any:
        try:
            return self.evaluate(values, typed=typed, in_place=True)
        except NeedsWorkerError:
            from agentv import workers  # noqa: PLC0415 - hardly any template needs one

            with _ReportingWorker():
                return workers.call_blocking(_in_worker, *self._job(values, typed), seconds=WORKER_SECONDS)

    async def rendered(self, values: Mapping[str, Any], *, typed: bool = False) -> Any:
        try:
            return self.evaluate(values, typed=typed, in_place=True)
        except NeedsWorkerError:
            from agentv import workers  # noqa: PLC0415 - as above

            with _ReportingWorker():
                return await workers.call(_in_worker, *self._job(values, typed), seconds=WORKER_SECONDS)

    def _job(self, values: Mapping[str, Any], typed: bool) -> tuple[Any, ...]:
        used = {name: _movable(values[name]) for name in self.names if name in values}
        return self._text, self._escape, used, typed

    def evaluate(self, values: Mapping[str, Any], *, typed: bool, in_place: bool) -> Any:
        """Render here. With `in_place`, raises `NeedsWorkerError` if that may take long."""
        with _Reporting(values):
            context = {**values, _BUDGET: Budget(self._text, in_place=in_place)}
            return self._typed(context) if typed and self._expression is not None else self._pieces(context)

    def _pieces(self, context: dict[str, Any]) -> str:
        pieces: list[str] = []
        length = 0
        for piece in self._source.generate(context):
            length += len(piece)
            if length > LONGEST_VALUE:
                raise LimitError(f"the output is longer than {LONGEST_VALUE:,} characters")
            pieces.append(piece)
        return "".join(pieces)

    def _typed(self, values: dict[str, Any]) -> Any:
        from jinja2 import Undefined  # noqa: PLC0415 - as in `_environment`

        assert self._expression is not None  # noqa: S101 - checked by the caller
        context = self._expression.new_context(values)
        for _ in self._expression.root_render_func(context):
            pass
        result = context.vars["result"]
        if isinstance(result, Undefined):
            str(result)  # raises
        return list(result) if isinstance(result, Iterator) else result


def _in_worker(text: str, escape: Callable[[str], str] | None, values: dict[str, Any], typed: bool) -> Any:
    return _compiled(text, escape).evaluate(values, typed=typed, in_place=False)


def _movable(value: Any) -> Any:
    """A value that can be sent to a worker."""
    if isinstance(value, Mapping):
        return {key: _movable(item) for key, item in value.items()}
    return [_movable(item) for item in value] if isinstance(value, list | tuple) else value


class _PlainTemplate:
    """Text with `{{ name }}` in it and nothing else: rendered without Jinja2, which takes a thousand times longer to
    compile. A suite can have another template in each of its cases."""

    def __init__(self, text: str) -> None:
        self._pieces = _NAME.split(text)
        self.names = frozenset(self._pieces[1::2])

    @property
    def is_expression(self) -> bool:
        return len(self._pieces) == 3 and not self._pieces[0] and not self._pieces[2]

    @property
    def is_constant(self) -> bool:
        return not self.names

    def render(self, values: Mapping[str, Any]) -> str:
        pieces, length = list(self._pieces), 0
        for index in range(1, len(pieces), 2):
            pieces[index] = str(as_text(self._look_up(index, values)))
            length += len(pieces[index])
            if length > LONGEST_VALUE:
                raise TemplateError(f"the output is longer than {LONGEST_VALUE:,} characters", self._line(index))
        return "".join(pieces)

    def value(self, values: Mapping[str, Any]) -> Any:
        return self._look_up(1, values) if self.is_expression else self.render(values)

    async def rendered(self, values: Mapping[str, Any], *, typed: bool = False) -> Any:
        return self.value(values) if typed else self.render(values)

    def _look_up(self, index: int, values: Mapping[str, Any]) -> Any:
        name = self._pieces[index]
        if name not in values:
            raise TemplateError(_unknown(name, values), self._line(index), name=name)
        return values[name]

    def _line(self, index: int) -> int:
        return 1 + sum(piece.count("\n") for piece in self._pieces[:index:2])


_NAME = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}")
_MARKS = ("{{", "{%", "{#", "}}", "%}")
_WORDS = frozenset({"true", "false", "none", "True", "False", "None", "not", "self", "loop", "range", "dict"})
"""Names that mean something to Jinja2."""


def has_template(text: str) -> bool:
    """Whether a string contains an expression or a statement of a template."""
    return "{{" in text or "{%" in text


def compile_template(text: str, *, escape: Callable[[str], str] | None = None) -> Template:
    """Parse a template. Raises `TemplateError` with the line of a syntax error.

    `escape` is applied to every value before it is inserted, for example to percent-encode it.
    """
    if escape is None:
        names = _NAME.findall(text)
        rest = _NAME.sub("", text) if names else text
        if not any(mark in rest for mark in _MARKS) and _WORDS.isdisjoint(names):
            return _PlainTemplate(text)
    return _compiled(text, escape)


@lru_cache(maxsize=256)
def _compiled(text: str, escape: Callable[[str], str] | None) -> _JinjaTemplate:
    from jinja2 import TemplateSyntaxError, meta, nodes  # noqa: PLC0415 - as in `_environment`

    environment = _environment(escape)
    try:
        tree = environment.parse(text)
        for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
            tag = _ELSEWHERE[type(node).__name__]
            raise TemplateError(f"`{tag}` is not supported: a template cannot use other files", node.lineno)
        names = frozenset(meta.find_undeclared_variables(tree))
        _count_work(tree)
        only = _only_expression(tree)
        source = environment.from_string(tree)
        expression = None
        if only is not None:
            assigned = nodes.Assign(nodes.Name("result", "store", lineno=1), only, lineno=1)
            expression = environment.from_string(nodes.Template([assigned], lineno=1))
    except TemplateSyntaxError as error:
        raise TemplateError(_first_lower(error.message or "invalid syntax"), error.lineno) from None
    except RecursionError:
        raise TemplateError("nested too deeply") from None
    return _JinjaTemplate(text, escape, source, names, expression)


def _count_work(tree: nodes.Template) -> None:
    """Let loops and `~` go through filters, which check them."""
    from jinja2 import nodes  # noqa: PLC0415 - as in `_environment`
    from jinja2.visitor import NodeTransformer  # noqa: PLC0415 - as above

    def filtered(node: Any, name: str, line: int) -> nodes.Filter:
        return nodes.Filter(node, name, [], [], None, None, lineno=line)

    class Counting(NodeTransformer):
        def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - called by Jinja2
            node.iter = filtered(node.iter, "agentv_steps", node.lineno)
            return self.generic_visit(node)

        def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
            self.generic_visit(node)
            return filtered(nodes.List(node.nodes, lineno=node.lineno), "agentv_joined", node.lineno)

    Counting().visit(tree)


def literal(text: str) -> str:
    """Text for a template that renders as this text."""
    return text.replace("{", "{{ '{' }}")


def refuse_unknown(template: Template, names: Iterable[str]) -> None:
    """Raise `TemplateError` if the template uses a variable that is none of these."""
    known = sorted(names)
    for name in sorted(template.names.difference(known)):
        raise TemplateError(_unknown(name, known), name=name)


def _unknown(name: str, known: Iterable[str]) -> str:
    return f"unknown variable `{name}`{did_you_mean(name, known)}"


def _only_expression(tree: nodes.Template) -> nodes.Expr | None:
    from jinja2 import nodes  # noqa: PLC0415 - as in `_environment`

    match tree.body:
        case [nodes.Output(nodes=[only])] if not isinstance(only, nodes.TemplateData):
            return only
    return None


def _first_lower(message: str) -> str:
    text = message.rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def as_text(value: Any) -> Any:
    """A value as it is inserted into a template. Values of other types are left to Jinja2."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    return as_json(value) if isinstance(value, Mapping | list | tuple) else value


def as_json(value: Any, indent: int | None = None) -> str:
    """A value as JSON: the filter `tojson`. Unlike that of Jinja2, it does not escape for HTML."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "isoformat"):  # dates of YAML
        return value.isoformat()
    str(value)  # raises for an undefined value, with its name
    raise TypeError(f"a value of the type {type(value).__name__} cannot be written as JSON")


# -- limits


def _steps(context: Context, items: Any) -> Iterator[Any]:
    """The items of a loop, counted."""
    budget = _budget_of(context)
    for item in items:
        budget.step()
        yield item


def _range(context: Context, *bounds: int) -> range:
    numbers = range(*bounds)
    _budget_of(context).step(min(len(numbers), MOST_STEPS + 1))
    return numbers


def _budget_of(context: Context) -> Budget:
    budget: Any = context.resolve(_BUDGET)
    return cast("Budget", budget)


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose arguments and result are checked. Jinja2 does not call it while a template is compiled."""
    from jinja2 import pass_context  # noqa: PLC0415 - as in `_environment`
    from jinja2.utils import _PassArg  # noqa: PLC0415 - as above

    wanted = _PassArg.from_obj(function)

    def call(context: Context, *args: Any, **options: Any) -> Any:
        budget = _budget_of(context)
        budget.before(args[0] if args else None, (*args[1:], *options.values()))
        given = {_PassArg.context: context, _PassArg.eval_context: context.eval_ctx}
        first = () if wanted is None else (given.get(wanted, context.environment),)
        return budget.after(function(*first, *args, **options))

    return pass_context(call)


def _joined(items: list[Any]) -> str:
    """What `~` means."""
    return "".join(str(item) for item in items)


# -- errors


class _Reporting:
    """Turns the exceptions of a rendering into `TemplateError`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or not isinstance(error, Exception):
            return
        line = _line_of(error)
        if isinstance(error, NeedsWorkerError):
            return
        if isinstance(error, MemoryError):
            raise TemplateError("a value needs too much memory", line) from None
        if isinstance(error, TemplateError):
            raise TemplateError(error.message, line, name=error.name, is_part=error.is_part) from None
        if isinstance(error, _undefined_error()):
            raise TemplateError(
                *self._undefined(error, line), name=error.name, is_part=error.owner is not None
            ) from None
        if isinstance(error, RecursionError):
            raise TemplateError("the template or a value is nested too deeply", line) from None
        raise TemplateError(_first_lower(str(error)) or type(error).__name__, line) from None

    def _undefined(self, error: Any, line: int) -> tuple[str, int]:
        if error.owner is None:
            return _unknown(error.name, self._values), line
        keys = [key for key in error.owner if isinstance(key, str)] if isinstance(error.owner, Mapping) else []
        shown = error.name if isinstance(error.name, str) else json.dumps(error.name, default=str)
        return f"there is no `{shown}` in the value{did_you_mean(shown, keys)}", line


class _ReportingWorker:
    """Turns the exceptions of a worker that rendered a template into `TemplateError`."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        from pickle import PicklingError  # noqa: PLC0415 - as above

        from agentv import workers  # noqa: PLC0415 - as above

        if isinstance(error, workers.TookTooLongError):
            raise TemplateError(f"the template takes longer than {WORKER_SECONDS:g} s to render") from None
        if isinstance(error, workers.WorkerDiedError):
            raise TemplateError("the template needs too much memory") from None
        if isinstance(error, PicklingError | TypeError | AttributeError):
            raise TemplateError(f"a value of the template is neither text nor JSON: {error}") from None


def _line_of(error: BaseException) -> int:
    """The line of the template at which an error happened. Jinja2 adds it to the traceback."""
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


@cache
def _undefined_error() -> Any:
    from jinja2 import UndefinedError  # noqa: PLC0415 - as in `_environment`

    class UndefinedValueError(UndefinedError):
        """A value that does not exist: its name, and the value that should contain it."""

        def __init__(self, message: str | None, *, name: Any, owner: Any) -> None:
            super().__init__(message)
            self.name, self.owner = name, owner

    return UndefinedValueError


# -- Jinja2


@cache
def _environment(escape: Callable[[str], str] | None) -> SandboxedEnvironment:
    from jinja2 import StrictUndefined, pass_context  # noqa: PLC0415 - most runs have no templates
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415 - as above
    from jinja2.utils import missing  # noqa: PLC0415 - as above

    class Undefined(StrictUndefined):
        __slots__ = ()

        def __init__(self, hint: str | None = None, obj: Any = missing, name: Any = None, exc: Any = None) -> None:
            owner = None if obj is missing else obj
            raising: Any = exc or partial(_undefined_error(), name=name, owner=owner)
            super().__init__(hint, obj, name, raising)

    class Environment(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset({"*", "**", "+", "%"})

        def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
            budget = _budget_of(context)
            if operator == "**":
                refuse_large_power(left, right)
            elif isinstance(right, str | list | tuple):  # `3 * "x"`
                budget.before(right, (left,))
            elif not isinstance(left, int | float):
                budget.before(left, (right,))
            return budget.after(super().call_binop(context, operator, left, right))

        def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
            budget = _budget_of(__context)
            budget.step()
            budget.before(getattr(__obj, "__self__", None), (*args, *kwargs.values()))
            return budget.after(super().call(__context, __obj, *args, **kwargs))

    @pass_context
    def finalize(context: Context, value: Any) -> Any:
        if isinstance(value, Iterator):  # the result of a filter such as `map`
            value = list(value)
        _budget_of(context).insert(value)
        text = as_text(value)
        return text if escape is None else escape(str(text))

    environment = Environment(undefined=Undefined, keep_trailing_newline=True, finalize=finalize, autoescape=False)
    environment.filters |= {"tojson": as_json, "agentv_joined": _joined}
    environment.filters = {name: _checked(function) for name, function in environment.filters.items()}
    environment.filters["agentv_steps"] = pass_context(_steps)
    environment.globals["range"] = pass_context(_range)
    del environment.filters[_NO_RANDOM], environment.globals["lipsum"]  # the same case must give the same prompt
    return environment
