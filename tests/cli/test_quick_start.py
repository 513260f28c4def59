"""Code that is compiled by its first use behaves like code that was compiled at import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run_python(code: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


CLASSES = """
import copy, dataclasses, pickle, sys
from dataclasses import dataclass, field, replace

@dataclass(frozen=True, slots=True, order=True)
class Point:
    "A point."
    x: int
    y: int = 0
    tags: list = field(default_factory=list, compare=False, repr=False)

@dataclass(frozen=True, slots=True)
class Named(Point):
    "A point with a name."
    name: str = ""
    def __post_init__(self):
        object.__setattr__(self, "name", self.name.upper())

@dataclass(slots=True)
class Counter:
    "Can be changed."
    count: int = 0

def outcome(action):
    try:
        return repr(action())
    except Exception as error:
        return f"{type(error).__name__}: {error}"

counter = Counter()
counter.count += 1
for action in (
    lambda: Point(1),
    lambda: Point(1, y=2) == Point(1, 2, ["t"]),
    lambda: Point(1) == 1,
    lambda: Point(1) < Point(2) <= Point(2),
    lambda: hash(Point(1)) == hash(Point(1, 0, ["t"])),
    lambda: Point(),
    lambda: Point(1, 2, [], 4),
    lambda: Point(1, z=3),
    lambda: setattr(Point(1), "x", 2),
    lambda: delattr(Point(1), "x"),
    lambda: hash(counter),
    lambda: (counter, counter == Counter(1)),
    lambda: Named(1, 2, name="n"),
    lambda: replace(Named(1, name="n"), x=5),
    lambda: dataclasses.asdict(Named(1, name="n")),
    lambda: pickle.loads(pickle.dumps(Point(1, 2))),
    lambda: copy.deepcopy(Named(1, 2, name="n")),
    lambda: [f.name for f in dataclasses.fields(Named)],
    lambda: Point.__init__.__qualname__,
    lambda: Point(1).tags is Point(1).tags,
):
    print(outcome(action))
"""


def test_dataclasses_behave_the_same(tmp_path: Path) -> None:
    quick = "from agentv.cli import quick_start\nquick_start.begin()\n"
    usual = run_python(CLASSES, tmp_path)
    assert run_python(quick + CLASSES, tmp_path) == usual
    assert usual.startswith("Point(x=1, y=0)\nTrue\nFalse\nTrue\nTrue\nTypeError: ")


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Python compiles all methods together")
def test_methods_of_a_dataclass_are_compiled_by_their_first_call(tmp_path: Path) -> None:
    code = """
from agentv.cli import quick_start
quick_start.begin()
from dataclasses import dataclass
@dataclass(slots=True)
class Point:
    "A point."
    x: int
before = vars(Point)["__init__"]
Point(1)
after = vars(Point)["__init__"]
Point(2)
print(before.__code__.co_filename.endswith("quick_start.py"), after.__code__.co_varnames)
assert vars(Point)["__init__"] is after
"""
    assert run_python(code, tmp_path) == "True ('self', 'x')\n"


def test_patterns_behave_the_same(tmp_path: Path) -> None:
    code = """
from agentv.cli import quick_start
quick_start.begin()
import re
late = re.compile("a(b+)", re.IGNORECASE)
assert type(late) is quick_start.LatePattern
print(late.search("xABB").group(1), late.sub("-", "abc"), late.pattern, late.groups, late.flags == late.flags | re.I)
print(isinstance(late, re.Pattern), re.sub(late, "+", "abb abc"), re.compile(late).fullmatch("ab") is not None)
try:
    re.compile("(").search("")
except re.error as error:
    print(error)
"""
    assert run_python(code, tmp_path).splitlines() == [
        "BB -c a(b+) 1 True",
        "True + +c True",
        "missing ), unterminated subpattern at position 0",
    ]


def test_annotations_can_be_resolved(tmp_path: Path) -> None:
    code = """
from __future__ import annotations
from agentv.cli import quick_start
quick_start.begin()
from typing import TypedDict, get_type_hints
class Row(TypedDict):
    names: list[str] | None
quick_start.end()
class Later(TypedDict):
    row: Row
print(get_type_hints(Row), get_type_hints(Later) == {"row": Row})
"""
    assert run_python(code, tmp_path) == "{'names': list[str] | None} True\n"


def test_python_works_as_usual_once_the_command_is_imported(tmp_path: Path) -> None:
    code = """
import dataclasses, re, sys, typing
before = vars(dataclasses).get("_create_fn"), re.compile, vars(typing).get("compile")
sys.argv = ["agentv", "validate", "--help"]
from agentv import cli
cli._leave = lambda code: None
cli.main()
after = vars(dataclasses).get("_create_fn"), re.compile, vars(typing).get("compile")
print(before == after)
"""
    assert run_python(code, tmp_path).endswith("True\n")
