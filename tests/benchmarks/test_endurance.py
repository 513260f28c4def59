"""The measurement of promises that need many repetitions works, and notices a broken one."""

from __future__ import annotations

from benchmarks.endurance import Measured, measure


async def test_every_promise_is_measured_and_kept() -> None:
    measured: list[Measured] = []
    assert await measure(quick=True, say=measured.append)
    assert len(measured) == 12
    assert all(each.held for each in measured)


def test_broken_promise_is_marked() -> None:
    assert str(Measured("memory", 51, 50, " MB")) == "FAIL  memory: 51 MB (at most 50 MB)"
