"""The angle between two embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two vectors of the same length; 0 if one of them is zero."""
    length = math.hypot(*one) * math.hypot(*other)
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / length if length else 0.0
