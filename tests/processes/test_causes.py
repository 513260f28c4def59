"""The cause of a failure is found in tracebacks of Python and Node, and in other output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentv.processes.causes import cause_of, node_without_typescript

NODE = """\
/work/judges/judge.mjs:3
  throw new TypeError("no chunks");
  ^

TypeError: no chunks
    at Object.<anonymous> (/work/judges/judge.mjs:3:9)

Node.js v20.20.2
"""
TYPESCRIPT = NODE.replace(
    "TypeError: no chunks", 'TypeError [ERR_UNKNOWN_FILE_EXTENSION]: Unknown file extension ".ts"'
)


def _stderr(folder: Path, program: str) -> str:
    (folder / "judge.py").write_text(program)
    done = subprocess.run([sys.executable, "judge.py"], cwd=folder, capture_output=True, text=True, check=False)
    return done.stderr


@pytest.mark.parametrize(
    ("program", "cause"),
    [
        ("def f(d):\n    return d['nope']\n\nf({})\n", "KeyError: 'nope' at judge.py:2"),
        (
            "import json\njson.loads('x')\n",
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0) at judge.py:2",
        ),
        (
            "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('second')\n",
            "ValueError: second at judge.py:4",
        ),
        ("import sys\nprint('log', file=sys.stderr)\nsys.exit('no way')\n", "no way"),
        ("1 +\n", "SyntaxError: invalid syntax"),
        ("", ""),
    ],
)
def test_cause_of_a_python_program(tmp_path: Path, program: str, cause: str) -> None:
    assert cause_of(_stderr(tmp_path, program)) == cause


def test_cause_of_a_node_program() -> None:
    assert cause_of(NODE) == "TypeError: no chunks at judge.mjs:3"


def test_long_lines_are_cut() -> None:
    assert len(cause_of("x" * 100_000)) == 300


def test_old_node_with_typescript_is_recognised() -> None:
    assert node_without_typescript(TYPESCRIPT) == "20.20"
    assert node_without_typescript(TYPESCRIPT.replace("v20.20.2", "v22.18.0")) is None
    assert node_without_typescript(NODE) is None
