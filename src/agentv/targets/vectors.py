"""Embeddings: the angle between two of them, and how they are stored."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Sequence


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two vectors of the same length; 0 if one of them is zero."""
    length = math.hypot(*one) * math.hypot(*other)
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / length if length else 0.0


def packed(vector: Sequence[float]) -> bytes:
    """The vector as 32-bit floats, little-endian. OverflowError if one of them is too large."""
    floats = array("f", vector)
    if sys.byteorder == "big":
        floats.byteswap()
    return floats.tobytes()
