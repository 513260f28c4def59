"""Where the run of a pytest session is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from agentv.pytest_suites.session_run import SessionRun

SESSION_RUN: pytest.StashKey[SessionRun] = pytest.StashKey()
"""Set when the first suite is collected."""
