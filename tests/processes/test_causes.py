"""The cause of a failure is found in tracebacks of Python and Node, and in other output."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentv.processes.causes import cause_of, node_without_typescript, raised

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
    done = subprocess.run(
        [sys.executable, "judge.py"], cwd=folder, capture_output=True, text=True, check=False, input="{}"
    )
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
        ("1 +\n", "SyntaxError: invalid syntax at judge.py:1"),
        ("raise ValueError('one\\ntwo')\n", "ValueError: one at judge.py:1"),
        (
            "import asyncio\nasync def f(): {}['a']\nasync def main():\n  async with asyncio.TaskGroup() as g:\n"
            "    g.create_task(f())\nasyncio.run(main())\n",
            "KeyError: 'a' at judge.py:2",
        ),
        (
            "import atexit, sys\natexit.register(print, 'INFO done', file=sys.stderr)\n{}['nope']\n",
            "KeyError: 'nope' at judge.py:3",
        ),
        (
            "from agentv_eval import define_code_judge\ndef f(input):\n  try: {}['a']\n"
            "  except KeyError as e: raise ValueError('no chunks') from e\ndefine_code_judge(f)\n",
            "ValueError: no chunks at judge.py:4",
        ),
        (
            "from agentv_eval import define_code_judge\ndefine_code_judge(lambda input: {'score': 'high'})\n",
            'score must be a number from 0 to 1, got "high"',
        ),
        ("", ""),
    ],
)
def test_cause_of_a_python_program(tmp_path: Path, program: str, cause: str) -> None:
    assert cause_of(_stderr(tmp_path, program)) == cause


def test_cause_of_a_traceback_whose_beginning_is_cut_off(tmp_path: Path) -> None:
    error = "raise ValueError('one error for Verdict\\nscore\\n  Field required')"
    program = f"def f(depth):\n  if not depth: {error}\n  f(depth - 1)\n"
    _, _, end = _stderr(tmp_path, program + "f(5)\n").partition("line 3, in f\n")
    assert "Traceback" not in end
    assert cause_of(end) == "ValueError: one error for Verdict at judge.py:2"


OTHERS = {
    "node": (NODE, "TypeError: no chunks at judge.mjs:3"),
    "node: a plain Error with a cause": (
        """\
file:///work/judges/judge.mjs:1
try { JSON.parse("x"); } catch (cause) { throw new Error("no payload", { cause }); }
                                               ^

Error: no payload
    at load (file:///work/node_modules/lib/index.js:1:44)
    at file:///work/judges/judge.mjs:7:44
    at ModuleJob.run (node:internal/modules/esm/module_job:325:25) {
  [cause]: SyntaxError: Unexpected token 'x', "x" is not valid JSON
      at JSON.parse (<anonymous>)
}

Node.js v20.20.2
""",
        "Error: no payload at judge.mjs:7",
    ),
    "node: an assertion": (
        NODE.replace("\nTypeError: no chunks\n", "\nAssertionError [ERR_X]: Expected equal values:\n\n1 !== 2\n\n"),
        "AssertionError [ERR_X]: Expected equal values: 1 !== 2 at judge.mjs:3",
    ),
    "node: a thrown string": (
        "node:internal/run_main:123\n    uncaught(\n    ^\nno chunks\n(Use `node --trace-uncaught ...`)\n\n"
        "Node.js v20.20.2\n",
        "no chunks",
    ),
    "typescript sdk": (
        "TypeError: no b\n    at file:///work/judge.mts:2:69\n@agentv/eval: the judge failed: TypeError: no b\n",
        "TypeError: no b at judge.mts:2",
    ),
    "deno": (
        "error: Uncaught (in promise) TypeError: no length\n    at f (file:///work/judge.ts:2:10)\n",
        "TypeError: no length at judge.ts:2",
    ),
    "bun": (
        "TypeError: no length\n      at f (/work/judge.ts:1:33)\n\nBun v1.1.0 (x64)\n",
        "TypeError: no length at judge.ts:1",
    ),
    "bash": ("starting\njudge.sh: line 3: X: unbound variable\n", "judge.sh: line 3: X: unbound variable"),
    "ruby": (
        "judge.rb:2:in `f': no chunks (RuntimeError)\n\tfrom judge.rb:5:in `<main>'\n",
        "judge.rb:2:in `f': no chunks (RuntimeError)",
    ),
    "perl": ("no chunks at judge.pl line 1.\n", "no chunks at judge.pl line 1."),
    "java": (
        'Exception in thread "main" java.lang.IllegalStateException: no chunks\n\tat Judge.main(Judge.java:5)\n'
        "Caused by: java.lang.NullPointerException\n\t... 1 more\n",
        "java.lang.IllegalStateException: no chunks",
    ),
    "go": (
        "panic: index out of range [3]\n\ngoroutine 1 [running]:\nmain.main()\n\t/judge.go:9 +0x1d\nexit status 2\n",
        "panic: index out of range [3]",
    ),
    "rust": (
        "thread 'main' panicked at src/main.rs:2:5:\nno chunks\nnote: run with `RUST_BACKTRACE=1` to see more\n",
        "no chunks at main.rs:2",
    ),
    "php": (
        "PHP Fatal error:  Uncaught TypeError: no array in /work/judge.php:3\nStack trace:\n#0 {main}\n  thrown in x\n",
        "TypeError: no array in /work/judge.php:3",
    ),
    "a warning": ("judge.py:2: UserWarning: old\n  warnings.warn('old')\n", "judge.py:2: UserWarning: old"),
    "only a remark": ("Node.js v20.20.2\n", "Node.js v20.20.2"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_cause_in_other_languages(kind: str) -> None:
    stderr, cause = OTHERS[kind]
    assert cause_of(stderr) == cause


@pytest.mark.parametrize(
    "text", ["  +-" + "-" * 60_000 + "x", "    at " + "(a:" * 20_000, "thread 'm' panicked at '" * 3000]
)
def test_long_lines_take_no_time(text: str) -> None:
    started = time.perf_counter()
    cause_of(f"{text}\nTraceback (most recent call last):\n{text}\n")
    assert time.perf_counter() - started < 1


def test_exception_inside_agentv_names_the_place_of_the_caller() -> None:
    with pytest.raises(ValueError, match="Expecting") as caught:
        json.loads("x")
    place = f"test_causes.py:{caught.traceback[0].lineno + 1}"
    assert raised(caught.value) == f"JSONDecodeError: Expecting value: line 1 column 1 (char 0) at {place}"


def test_long_lines_are_cut() -> None:
    assert len(cause_of("x" * 100_000)) == 300


def test_old_node_with_typescript_is_recognised() -> None:
    assert node_without_typescript(TYPESCRIPT) == "20.20"
    assert node_without_typescript(TYPESCRIPT.replace("v20.20.2", "v22.18.0")) is None
    assert node_without_typescript(NODE) is None
