"""What targets of a run use together, such as the server of a local model."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

T = TypeVar("T")


class Shared:
    """Objects by key. The first target that needs one creates it; the last one that uses it closes it."""

    def __init__(self) -> None:
        self._objects: dict[Hashable, Any] = {}

    def get(self, key: Hashable, create: Callable[[], T]) -> T:
        """The object with this key, created if there is none."""
        if key not in self._objects:
            self._objects[key] = create()
        return cast("T", self._objects[key])
