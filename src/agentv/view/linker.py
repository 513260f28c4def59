"""Join the ES modules of the viewer into one classic script, as the HTML file needs it.

There is no bundler: each module becomes a function, and what it exports becomes variables of the script. Comments and
space that means nothing are removed, and variables get short names (`shorten.py`). Everything that this cannot join
safely is a `LinkError` with file and line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from agentv.view.javascript import LinkError, Token, error_at, tokens
from agentv.view.shorten import global_names, shortened

_IMPORT = re.compile(r'import \{ ([\w$]+(?: as [\w$]+)?(?:, [\w$]+(?: as [\w$]+)?)*),? \} from "\./(\w+\.js)";')
_EXPORT = re.compile(r"export (?=(?:(?:async )?function\*? ?|class |const )([\w$]+))")
_NOTHING_EXPORTED = re.compile(r"export \{\};")
_CLOSING = frozenset(")]}")
_ENDS_ELEMENT = re.compile(r"</(?:script|style)|<!--|<script", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Module:
    """A module without its imports and exports."""

    name: str
    tokens: list[Token]
    imports: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Module -> names there and here."""
    exports: list[str] = field(default_factory=list)

    @property
    def code(self) -> str:
        return "".join(token.text for token in self.tokens)


def link(entry: str, read: Callable[[str], str]) -> str:
    """The module `entry` and everything it imports as one classic script. `read` returns the text of a module."""
    declared: dict[str, dict[str, str]] = {}
    script = ""
    new = global_names()
    for module in modules_of(entry, read):
        imported = {here: declared[other][there] for other, names in module.imports.items() for there, here in names}
        code, declared[module.name] = shortened(module.tokens, imported, new)
        script += f"{code}\n"
    if (found := _ENDS_ELEMENT.search(script)) is not None:
        raise LinkError(f"{entry}: {found.group()!r} cannot be in an inline script; split the string")
    return f'(()=>{{"use strict";\n{script}}})();\n'


_IMPORT_LINE = re.compile(rf"^{_IMPORT.pattern}", re.MULTILINE)
_EXPORT_LINE = re.compile(rf"^{_EXPORT.pattern}", re.MULTILINE)


def joined(entry: str, read: Callable[[str], str]) -> str:
    """The same modules as one script for the server: quickly, with their names and comments.

    Imports and exports are found by their lines. A test compares them with those that the linker finds.
    """
    functions: dict[str, str] = {}

    def add(name: str) -> None:
        if name in functions:
            return
        source, functions[name] = read(name), ""
        for found in _IMPORT_LINE.finditer(source):
            add(found.group(2))
        exports = ", ".join(found.group(1) for found in _EXPORT_LINE.finditer(source))
        code = _EXPORT_LINE.sub("", _IMPORT_LINE.sub(_taken, source))
        del functions[name]  # it goes after what it imports
        functions[name] = f"const {_variable(name)} = (() => {{\n{code}\nreturn {{ {exports} }};\n}})();\n"

    add(entry)
    return f'(() => {{\n"use strict";\n{"".join(functions.values())}}})();\n'


def _taken(imported: re.Match[str]) -> str:
    names = imported.group(1).replace(" as ", ": ")
    return f"const {{ {names} }} = {_variable(imported.group(2))};"


def _variable(module: str) -> str:
    return f"${module.removesuffix('.js')}"


def modules_of(entry: str, read: Callable[[str], str]) -> list[Module]:
    """The module `entry` and everything it imports, each after what it imports. `read` raises KeyError for a module
    that does not exist."""
    modules: dict[str, Module] = {}
    opened: list[str] = []

    def add(name: str) -> Module:
        if name in opened:
            raise LinkError(f"circular import: {' -> '.join([*opened[opened.index(name) :], name])}")
        if name not in modules:
            try:
                source = read(name)
            except KeyError:
                raise LinkError(
                    f"{opened[-1] if opened else 'the page'} imports {name}, which does not exist"
                ) from None
            opened.append(name)
            module = parse(name, source)
            for other, names in module.imports.items():
                exported = add(other).exports
                for there, _ in names:
                    if there not in exported:
                        raise LinkError(f"{name} imports {there} from {other}, which does not export it")
            modules[opened.pop()] = module
        return modules[name]

    add(entry)
    return list(modules.values())


def parse(name: str, source: str) -> Module:
    """A module, with what it imports and exports. Comments and everything else that means nothing are removed."""
    module_imports: dict[str, list[tuple[str, str]]] = {}
    exports: list[str] = []
    kept: list[Token] = []
    skip_to = 0
    before = ""
    line_words: list[str] = []
    for token in tokens(name, source):
        if token.start < skip_to:
            continue
        text = token.text
        if token.is_space:
            if "\n" in text and token.kind == "space" and token.depth == 0:
                line_words = []
            kept.append(token)
            continue
        if token.kind == "word" and before != ".":
            if text == "import":
                imported = _IMPORT.match(source, token.start) if token.depth == 0 else None
                if imported is None:
                    raise error_at(name, source, token.start, 'imports must be `import { a, b as c } from "./x.js";`')
                pairs = [part.split(" as ") for part in imported.group(1).split(", ")]
                module_imports.setdefault(imported.group(2), []).extend((pair[0], pair[-1]) for pair in pairs)
                skip_to, before = imported.end(), ";"
                continue
            if text == "export":
                exported = _EXPORT.match(source, token.start) or _NOTHING_EXPORTED.match(source, token.start)
                if exported is None or token.depth:
                    raise error_at(
                        name, source, token.start, "only functions, classes and `const NAME` can be exported"
                    )
                skip_to, before = exported.end(), ";"
                exports += exported.groups()
                continue
            if text == "await" and token.depth == 0 and "async" not in line_words:
                raise error_at(name, source, token.start, "await must be in a function")
            line_words.append(text)
        kept.append(token)
        before = text
    return Module(name, list(_closely(kept)), module_imports, exports)


_NO_BREAK_AFTER, _NO_BREAK_BEFORE = frozenset("{[(,;=?:&|>"), frozenset(")]}.?:=&|,;")
"""Where a line break cannot end a statement. After `}`, `)`, a word or a string, it can."""


def _closely(pieces: Iterable[Token]) -> Iterator[Token]:
    """The tokens, without the spaces, line breaks, commas and semicolons that mean nothing."""
    last: Token | None = None
    held: Token | None = None
    """A comma or semicolon, which is left out before a closing bracket."""
    between = ""
    for token in pieces:
        if token.is_space:
            between = "\n" if "\n" in token.text or between == "\n" else " "
            continue
        if held is not None:
            if not (token.text == "}" if held.text == ";" else token.text in _CLOSING):
                yield held
                last = held
            held = None
        if last is not None and between and _is_needed(between, last.text[-1:], token.text[:1]):
            yield Token("space", between, token.start, token.depth)
        between = ""
        is_statement = last is not None and last.kind == "condition"  # `while (x);`
        is_gap = last is not None and last.text in {",", "["}  # `[, 1]`
        if (token.text == ";" and not is_statement) or (token.text == "," and not is_gap):
            held = token
        else:
            yield token
            last = token
    if held is not None:
        yield held


def _is_needed(between: str, before: str, after: str) -> bool:
    """Whether two tokens would mean something else without the space or line break between them."""
    if between == "\n":
        return before not in _NO_BREAK_AFTER and after not in _NO_BREAK_BEFORE
    if (before + after).replace("$", "_").replace("#", "_").isidentifier() or before.isdigit():
        return True
    return "/" in (before, after) or (before == after and before in "+-")


def _single_spaces(pieces: list[str]) -> list[str]:
    """The pieces, with at most one space or line break between two of them. Strings are single pieces."""
    joined: list[str] = []
    for piece in pieces:
        if piece in {" ", "\n"} and (not joined or joined[-1] in {" ", "\n"}):
            if joined and piece == "\n":
                joined[-1] = "\n"
            continue
        joined.append(piece)
    return joined[:-1] if joined and joined[-1] in {" ", "\n"} else joined


_STYLE = re.compile(r'(?P<comment>/\*.*?\*/)|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|(?P<space>\s+)', re.DOTALL)


def stripped_style(source: str) -> str:
    """CSS without comments and indentation."""
    pieces: list[str] = []
    position = 0
    for found in _STYLE.finditer(source):
        pieces.append(source[position : found.start()])
        if found.lastgroup is None:
            pieces.append(found.group())
        else:
            pieces.append("\n" if "\n" in found.group() else " ")
        position = found.end()
    pieces.append(source[position:])
    style = "".join(_single_spaces([piece for piece in pieces if piece])) + "\n"
    if (ends := _ENDS_ELEMENT.search(style)) is not None:
        raise LinkError(f"{ends.group()!r} cannot be in an inline style")
    return style
