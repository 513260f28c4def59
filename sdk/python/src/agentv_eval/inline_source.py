"""Compiles the code of a `python` evaluator, an expression or a function body, to a function. Nothing is run here."""

from __future__ import annotations

import ast
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

FILE = "<value>"
"""File name of the code, in tracebacks."""
FUNCTION = "check"
NAMES = (
    "answer",
    "output",
    "input",
    "question",
    "reference_answer",
    "expected_outcome",
    "vars",
    "metadata",
    "config",
    "context",
    "judge",
)
"""The names that a check can use: in an expression, and as parameters of a function."""
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_NO_RETURN = "it has statements but no `return`; return True or False, a number from 0 to 1, or a mapping with 'score'"


@lru_cache(maxsize=1024)
def compiled(source: str) -> CodeType:
    """Code that defines the function `check`, with `NAMES` as its parameters. It is `async` if the code awaits.

    Raises SyntaxError with the position in `source`, also for a function body without `return`.
    """
    source = trimmed(source)
    body = _body(source)
    inside = [node for statement in body for node in _own_nodes(statement)]
    form = "async def" if any(_waits(node) for node in inside) else "def"
    tree = ast.parse(f"{form} {FUNCTION}({', '.join(NAMES)}): pass")
    tree.body[0].body = body  # type: ignore[attr-defined]
    if not any(isinstance(node, ast.Return) for node in inside):
        last = body[-1] if body else tree.body[0]
        raise SyntaxError(_NO_RETURN, (FILE, last.lineno, last.col_offset + 1, None))
    return compile(tree, FILE, "exec", dont_inherit=True)


def trimmed(source: str) -> str:
    """The source without surrounding blank lines, and without spaces before and after an expression."""
    return source.strip("\r\n").rstrip() if "\n" in source.strip() else source.strip()


def _body(source: str) -> list[ast.stmt]:
    try:
        expression = ast.parse(source, FILE, "eval").body
    except SyntaxError:
        body = ast.parse(source, FILE).body
        if len(body) == 1 and isinstance(body[0], ast.Expr):
            raise  # an expression that only `eval` rejects
        return body
    return [ast.copy_location(ast.Return(expression), expression)]


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those inside it, without the content of nested functions and classes."""
    yield node
    if not isinstance(node, _NESTED):
        for child in ast.iter_child_nodes(node):
            yield from _own_nodes(child)


def _waits(node: ast.AST) -> bool:
    return isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)) or (
        isinstance(node, ast.comprehension) and bool(node.is_async)
    )
