"""Fixtures of the threat tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.threats.heartbeat import Heartbeat


@pytest.fixture
def heartbeat(tmp_path: Path) -> Heartbeat:
    """Measures how long the event loop is blocked in a process that is started with `env=heartbeat.env`."""
    return Heartbeat(tmp_path)
