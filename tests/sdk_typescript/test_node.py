"""Runs the test files written for the Node test runner, one test per file."""

from __future__ import annotations

import re

import pytest

from tests.sdk_typescript.support import TESTS, check_built, needs_node, run

FILES = sorted(path.name for path in TESTS.glob("*.test.mjs"))


@needs_node
@pytest.mark.parametrize("name", FILES)
def test_node_runs(name):
    check_built()
    done = run("node", "--test-reporter=tap", name)  # without --test: it would outlive a timeout
    counts = {word: int(count) for word, count in re.findall(r"^# (\w+) (\d+)$", done.stdout, re.MULTILINE)}
    failed = re.findall(r"^ *not ok .*?^ *\.\.\.$", done.stdout, re.MULTILINE | re.DOTALL)
    assert done.returncode == 0, "\n".join(failed) or done.stdout[-4000:] + done.stderr[-4000:]
    assert counts["pass"] == counts["tests"] > 5
    assert counts["skipped"] == counts["todo"] == counts["cancelled"] == 0


def test_the_files_are_found():
    names = ("client", "graders", "judge", "proxy", "target", "vectors")
    assert [f"{name}.test.mjs" for name in names] == FILES
