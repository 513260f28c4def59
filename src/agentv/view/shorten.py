"""Short names for the variables of modules that become one scope.

A name that a module declares or imports has one new name in all of it. Every other variable is declared in a function
or block, and its declaration is one of its occurrences. So declarations do not have to be found: if a name occurs
directly in a region (a function, a block, the arguments of a call), all its occurrences in that region are one
variable, and otherwise those in separate regions are separate variables. Variables can share a short name if none is
used where the other is declared. Properties, and names that the browser defines (`GLOBALS`), are kept.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from agentv.view.javascript import Token

_LANGUAGE = """
    arguments as async await break case catch class const constructor continue debugger default delete do else enum
    export extends false finally for from function get if implements import in instanceof interface let new null of
    package private protected public return set static super switch this throw true try typeof undefined var void while
    with yield
    """
KEYWORDS = frozenset(_LANGUAGE.split())
_BROWSER = """
    AbortController AbortSignal Array ArrayBuffer BigUint64Array Blob Boolean CSS DataView Date DecompressionStream
    DocumentFragment Element Error Event EventSource Float64Array HTMLDetailsElement HTMLElement HashChangeEvent
    Infinity Int16Array Int32Array Int8Array JSON KeyboardEvent Map Math MouseEvent NaN Node Number Object Promise
    RegExp ResizeObserver Response SVGElement Set String Text TextDecoder TextDecoderStream TextEncoder TypeError
    URL Uint16Array Uint32Array Uint8Array WeakMap addEventListener alert atob blur cancelAnimationFrame
    clearTimeout close closed console crypto decodeURIComponent dispatchEvent document encodeURIComponent event
    fence fetch find focus frames getSelection globalThis history innerHeight innerWidth isFinite isNaN length
    localStorage location matchMedia name navigator open origin parent parseInt performance print prompt
    removeEventListener requestAnimationFrame screen scroll scrollTo scrollY setTimeout status stop top when window
    """
GLOBALS = frozenset(_BROWSER.split())
"""Names of the browser, as far as they occur in our modules. A test asks a browser whether one is missing."""

_LETTERS = "etnsraiolcdhupmgfbvywxkqjzSTCRMAPEDLINOHFUBVWGKYJXQZ_$"
"""The letters of names, those first that are frequent in the rest of the code: so it compresses better."""
_DECLARING = frozenset(("const", "let", "function", "class"))
_BLOCK_AFTER = frozenset((")", "=>", "else", "try", "finally", "do", "catch", "{", "}", ";", ""))
_BEFORE_MEMBER = frozenset(("{", "}", ";", "get", "set", "async", "static", "*"))


@dataclass(slots=True, eq=False)
class _Region:
    """A part of a module in which variables can be declared: a function with its parameters, a block, or arguments."""

    start: int
    outer: _Region | None = None
    end: int = 0
    declares: bool = True
    """False for parameters of a function whose body has no braces: they are declared for what surrounds them."""

    def scope(self) -> _Region:
        return self if self.declares or self.outer is None else self.outer.scope()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A token, or the space before one."""

    place: int
    token: Token
    role: str
    """`variable`, `shorthand` (a property with the name of a variable), or nothing: then it is not renamed."""
    region: _Region


@dataclass(slots=True)
class _Variable:
    """A name in the region that declares it."""

    name: str
    region: _Region
    places: list[int]

    def excludes(self, other: _Variable) -> bool:
        """Whether the two must have different names: they are declared together, or one would hide the other where it
        is used."""
        return self.region is other.region or self._hides(other) or other._hides(self)

    def _hides(self, other: _Variable) -> bool:
        start, end = self.region.start, self.region.end
        return (
            other.region.start <= start
            and end <= other.region.end
            and any(start <= place <= end for place in other.places)
        )


def shortened(code: list[Token], imported: Mapping[str, str], new: Iterator[str]) -> tuple[str, dict[str, str]]:
    """The code of a module, and the names of what it declares in the script. `imported` has those of what it imports,
    and `new` are names that no other module has."""
    own = _declarations(code)
    statements = list(_statements(code, own | set(imported)))
    declared = dict.fromkeys(chain.from_iterable(_declared(statement) for statement in statements))
    made = {each: next(new) for each in declared if each not in imported}
    renamed = chain.from_iterable(_renamed(statement, {**imported, **made}) for statement in statements)
    return "".join(renamed), {each: made.get(each, each) for each in own}


def global_names() -> Iterator[str]:
    """Names for what modules declare. Single letters are left to the variables inside of functions."""
    return (name for name in _names() if len(name) > 1)


def variables(code: list[Token]) -> set[str]:
    """The names that would be replaced, except those that the module declares."""
    own = _declarations(code)
    return {piece.token.text for statement in _statements(code, own) for piece in statement if piece.role} - own


def _declarations(code: list[Token]) -> set[str]:
    """The names after `const`, `let`, `function` and `class` outside of brackets."""
    outside = [each for each in code if each.depth == 0 and not each.is_space]
    texts = ["", *(each.text for each in outside)]
    return {
        each.text
        for at, each in enumerate(outside)
        if each.kind == "word" and (texts[at] in _DECLARING or texts[at - 1 : at + 1] == ["function", "*"])
    }


def _declared(statement: list[_Piece]) -> Iterator[str]:
    """The names that a statement declares in its module, and perhaps some that it only uses."""
    in_pattern = bool(statement) and statement[0].token.text in {"const", "let"}
    for piece in statement:
        in_pattern = in_pattern and (piece.token.text != "=" or piece.token.depth > 0)
        if piece.role and (piece.token.depth == 0 or in_pattern):
            yield piece.token.text


def _statements(code: list[Token], own: Collection[str]) -> Iterator[list[_Piece]]:
    """The statements of a module. `own` are names of the browser that mean something else in this module."""
    statement: list[_Piece] = []
    last = ""
    for piece in _Reader(own).pieces(code):
        token = piece.token
        starts = token.text in _DECLARING or token.text == "async"
        if not token.is_space and token.depth == 0 and (last == ";" or (last == "}" and starts)):
            yield statement
            statement = []
        statement.append(piece)
        last = last if token.is_space else token.text
    yield statement


class _Reader:
    """Finds the role and the region of each token."""

    def __init__(self, own: Collection[str]) -> None:
        self._own = own
        self._regions = [_Region(0)]
        """The region of each open bracket, of which some share one."""
        self._braces = ["block"]
        self._parameters: _Region | None = None
        """The last parenthesis, if a body follows."""
        self._before = self._last = ""
        """The last two tokens; `=>` is one."""
        self._is_class = self._is_case = False

    def pieces(self, scanned: list[Token]) -> Iterator[_Piece]:
        solid = [token.text for token in scanned if not token.is_space]
        at = 0
        for place, token in enumerate(scanned):
            if token.is_space:
                yield _Piece(place, token, "", self._regions[-1])
                continue
            at += 1
            following = solid[at : at + 3]
            role = self._role(token, following[0] if following else "")
            if token.text in {"(", "{"}:
                self._open(token.text, place)
                yield _Piece(place, token, role, self._regions[-1])
            else:
                yield _Piece(place, token, role, self._regions[-1])
                self._other(token, place, following)
            self._remember(token, following[:1])
        self._regions[0].end = len(scanned)

    def _open(self, bracket: str, place: int) -> None:
        region = self._regions[-1]
        if bracket == "(":
            kind = "for(" if self._last == "for" else "("
            region = _Region(place, region)
        else:
            is_block = self._last in _BLOCK_AFTER or (self._is_case and self._last == ":")
            kind = "class" if self._is_class else "block" if is_block else "object"
            if self._parameters is not None:
                region = self._parameters
            elif kind == "block":
                region = _Region(place, region)
            self._is_class = self._is_case = False
        self._parameters = None
        self._braces.append(kind)
        self._regions.append(region)

    def _other(self, token: Token, place: int, following: list[str]) -> None:
        """Brackets other than `(` and `{`."""
        text = token.text
        if token.kind == "template":
            if text.startswith("}"):
                self._close(place)
            if text.endswith("${"):
                self._nest("(")
        elif text == "[":
            self._nest("[")
        elif text == ")":
            kind, region = self._close(place)
            is_arrow = following[:2] == ["=", ">"]
            if following[:1] == ["{"] or (is_arrow and following[2:] == ["{"]):
                self._parameters = region
            elif is_arrow or kind == "for(":
                region.declares = False
        elif text in {"]", "}"}:
            self._close(place)

    def _nest(self, kind: str) -> None:
        self._braces.append(kind)
        self._regions.append(self._regions[-1])

    def _close(self, place: int) -> tuple[str, _Region]:
        region = self._regions.pop()
        region.end = max(region.end, place)
        return self._braces.pop(), region

    def _remember(self, token: Token, following: list[str]) -> None:
        text = token.text
        is_key = self._last == "." or following == [":"]
        self._is_class = self._is_class or (text == "class" and not is_key)
        self._is_case = (text == "case" and not is_key) or (self._is_case and text not in {";", "{", "}"})
        self._before, self._last = self._last, "=>" if text == ">" and self._last == "=" else text

    def _role(self, token: Token, following: str) -> str:
        text, before, last, brace = token.text, self._before, self._last, self._braces[-1]
        is_word = token.kind == "word" and text[0] not in "0123456789#" and text not in KEYWORDS
        if not is_word or (text in GLOBALS and text not in self._own):
            return ""
        if last == "." and before != ".":  # `...name` is a variable
            return ""
        if brace == "class" and last in _BEFORE_MEMBER:
            return ""
        if brace == "object" and (
            last in {"{", ","} or (before in {"{", ","} and last in {"get", "set", "async", "*"})
        ):
            return "shorthand" if following in {",", "}", "="} else ""
        return "variable"


def _renamed(statement: list[_Piece], names: Mapping[str, str]) -> Iterator[str]:
    taken = {names[piece.token.text] for piece in statement if piece.role and piece.token.text in names}
    local = _local_names([piece for piece in statement if piece.role and piece.token.text not in names], taken)
    for piece in statement:
        text = piece.token.text
        if not piece.role:
            yield text
        else:
            short = names.get(text) or local[piece.place]
            yield short if piece.role == "variable" else f"{text}:{short}"


def _local_names(pieces: Iterable[_Piece], taken: Collection[str]) -> dict[int, str]:
    """Place -> new name of the variable there."""
    named: dict[str, list[_Piece]] = {}
    for piece in pieces:
        named.setdefault(piece.token.text, []).append(piece)
    variables = [variable for occurrences in named.values() for variable in _split(occurrences)]
    variables.sort(key=lambda variable: (variable.region.start, -variable.region.end, variable.places[0]))
    given: dict[str, list[_Variable]] = {}
    result: dict[int, str] = {}
    for variable in variables:
        for short in _names():
            others = given.setdefault(short, [])
            if short not in taken and not any(variable.excludes(other) for other in others):
                break
        others.append(variable)
        result.update(dict.fromkeys(variable.places, short))
    return result


def _split(occurrences: list[_Piece]) -> Iterator[_Variable]:
    """The variables with one name: in the order of regions, from the outside."""
    regions = {id(region): region for region in (piece.region.scope() for piece in occurrences)}
    for region in regions.values():
        if not any(id(outer) in regions for outer in _around(region)):
            inside = [piece.place for piece in occurrences if region.start <= piece.place <= region.end]
            yield _Variable(occurrences[0].token.text, region, inside)


def _around(region: _Region) -> Iterator[_Region]:
    while region.outer is not None:
        region = region.outer
        yield region


def _names() -> Iterator[str]:
    return (name for name in _all_names() if name not in KEYWORDS and name not in GLOBALS)


def _all_names() -> Iterator[str]:
    yield from _LETTERS
    for name in _all_names():
        yield from (name + end for end in _LETTERS + string.digits)
