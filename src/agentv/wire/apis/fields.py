"""Reads the fields of a request to an API. Every problem is an `ApiRequestError` that names the field."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Self

from agentv.jsonio import JsonError, read
from agentv.text import kind_of, short_or_described
from agentv.wire.apis.api import UNSUPPORTED, ApiRequestError
from agentv.wire.judge import InvalidRequestError, json_problem

LONGEST_NAME = 200
LONGEST_PARAMETER = 60
_MISSING: Any = object()


class Fields:
    """The fields of one object. Reading a field also marks it as known; `end` rejects the others.

    `null` is the same as absent.
    """

    def __init__(self, data: Any, where: str = "") -> None:
        self.where = where
        if not isinstance(data, Mapping):
            raise ApiRequestError(f"{f'`{where}`' if where else 'the body'} must be an object, got {kind_of(data)}")
        self._data = data
        self._known: set[str] = set()

    @classmethod
    def of_body(cls, body: bytes) -> Self:
        try:
            return cls(read(body))
        except JsonError as error:
            raise InvalidRequestError(json_problem(error)) from None

    def named(self, name: str) -> str:
        """The field as messages name it."""
        return f"{self.where}.{name}" if self.where else name

    def wrong(self, name: str, expected: str, value: Any = _MISSING) -> ApiRequestError:
        shown = self._data.get(name) if value is _MISSING else value
        is_number = isinstance(shown, int | float) and not isinstance(shown, bool)
        got = repr(shown) if is_number or isinstance(value, str) else kind_of(shown)
        where = self.named(name)
        return ApiRequestError(f"`{where}` must be {expected}, got {got[:LONGEST_PARAMETER]}", parameter=where)

    def unsupported(self, name: str, instead: str) -> ApiRequestError:
        where = self.named(name)
        return ApiRequestError(f"`{where}` {instead}", parameter=where, code=UNSUPPORTED)

    def raw(self, name: str) -> Any:
        self._known.add(name)
        return self._data.get(name)

    def text(self, name: str) -> str | None:
        value = self.raw(name)
        if not isinstance(value, str | None):
            raise self.wrong(name, "a string")
        return value

    def required(self, name: str, expected: str, *, most: int | None = LONGEST_NAME) -> str:
        value = self.text(name)
        if not value:
            where = self.named(name)
            raise ApiRequestError(f"`{where}` is missing; send {expected}", parameter=where)
        if most is not None and len(value) > most:
            raise self.wrong(name, f"a string of at most {most} characters")
        return value

    def flag(self, name: str) -> bool:
        value = self.raw(name)
        if not isinstance(value, bool | None):
            raise self.wrong(name, "true or false")
        return bool(value)

    def number(self, name: str, low: float, high: float) -> float | None:
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.wrong(name, f"a number from {low:g} to {high:g}")
        return float(value)

    def whole(self, name: str, low: int, high: int) -> int | None:
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(name, f"a whole number from {low} to {high}")
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """A list of strings, or one string."""
        value = self.raw(name)
        values = [value] if isinstance(value, str) else [] if value is None else value
        if not isinstance(values, list) or not all(isinstance(word, str) for word in values):
            raise self.wrong(name, "a string or a list of strings")
        return tuple(values)

    def items(self, name: str) -> list[Any]:
        value = self.raw(name)
        if not isinstance(value, list | None):
            raise self.wrong(name, "a list")
        return value or []

    def objects(self, name: str) -> Iterator[Self]:
        """The objects of a list."""
        for index, item in enumerate(self.items(name)):
            yield type(self)(item, f"{self.named(name)}[{index}]")

    def object(self, name: str) -> Self | None:
        value = self.raw(name)
        return None if value is None else type(self)(value, self.named(name))

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        """An object whose fields are data."""
        value = self.raw(name)
        if not isinstance(value, Mapping | None):
            raise self.wrong(name, "an object")
        return value

    def accept(self, *names: str) -> None:
        """Accept fields that do not change what a model writes."""
        self._known.update(names)

    def unused(self, *names: str) -> tuple[str, ...]:
        """Accept fields that no target gets. Returns those that are set."""
        self._known.update(names)
        return tuple(name for name in names if self._data.get(name) not in (None, 0, {}, []))

    def end(self) -> None:
        """Reject fields that were not read."""
        for name in self._data:
            if name not in self._known:
                shown = short_or_described(name, LONGEST_PARAMETER)
                where = self.named(shown)
                raise ApiRequestError(f"unsupported parameter `{where}`; remove it", parameter=where, code=UNSUPPORTED)
