"""Fixtures of the threat tests, and how often a test that measures the event loop is tried."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from tests.threats.heartbeat import Heartbeat, LoopBlockedError

MEASUREMENTS = 3
"""A busy machine can block any process once. Work that an input causes in the event loop is there every time."""


@pytest.fixture
def heartbeat(tmp_path: Path) -> Heartbeat:
    """Measures how long the event loop is blocked in a process that is started with `env=heartbeat.env`."""
    return Heartbeat(tmp_path)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Function, nextitem: pytest.Item | None) -> bool | None:
    """Repeat a test whose event loop was blocked, with fresh fixtures. The last result counts."""
    if "heartbeat" not in getattr(item, "fixturenames", ()):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for left in reversed(range(MEASUREMENTS)):
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if not left or not any(LoopBlockedError.__name__ in report.longreprtext for report in reports if report.failed):
            break
        item._initrequest()  # as pytest itself does for a new item
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
