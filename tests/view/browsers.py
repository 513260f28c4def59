"""Where the browser of the tests is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

NO_BROWSER = "no chromium found; `apt-get install chromium-headless-shell` runs them"
SHELL, WHOLE = "chromium-headless-shell", "chromium"
"""Debian's packages and programs: one engine without and with windows. The first opens a page three times faster."""


def chromium(first: str = SHELL) -> str | None:
    """The path of Debian's chromium, or of the browser in `AGENTV_CHROMIUM`. `first` is preferred if both are there."""
    places = (os.environ.get("AGENTV_CHROMIUM"), *map(shutil.which, (first, SHELL, WHOLE)))
    return next((place for place in places if place), None)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Chromium without a window. Skips the test if there is none."""
    program = chromium()
    if program is None:
        pytest.skip(NO_BROWSER)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--force-color-profile=srgb"]
        )
        yield launched
        launched.close()
