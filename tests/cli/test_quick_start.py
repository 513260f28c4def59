"""Code compiled on first use behaves like code compiled at import."""

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
from __future__ import annotations
import copy, dataclasses, pickle, sys
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from typing import ClassVar

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

@dataclass
class Special:
    "Everything a field can be."
    shared: ClassVar[int] = 7
    start: InitVar[int]
    total: int = field(init=False)
    seen: list = field(init=False, default_factory=list)
    _: KW_ONLY
    scale: int = 2
    def __post_init__(self, start):
        self.total = start * self.scale

@dataclass
class Keyed:
    "Fields with and without names."
    first: int
    ready: bool = field(init=False, default=True)
    later: list = field(init=False)
    _: KW_ONLY
    second: int
    third: list = field(default_factory=list)

@dataclass
class Watched:
    "Sees every change."
    x: int
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value + 1)

@dataclass(unsafe_hash=True)
class Hashed:
    "A part of it is hashed."
    x: int
    y: int = field(default=1, hash=False)

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
    lambda: (Special(3), Special(3, scale=5), Special.shared, Special(1).seen),
    lambda: Special(3, 5),
    lambda: (Keyed(1, second=2).third, Keyed(1, second=2, third=[3]).ready),
    lambda: Keyed(1, 2),
    lambda: Keyed(1, first=1, second=2),
    lambda: Keyed(1, second=2, ready=False),
    lambda: Keyed(1),
    lambda: Watched(1),
    lambda: (hash(Hashed(1, 2)) == hash(Hashed(1, 3)), hash(Hashed(1)) == hash((1,))),
    lambda: [Point(n, y=n) for n in range(100)],
    lambda: len({Point(n) for n in range(100)} | {Point(n) for n in range(100)}),
    lambda: Point(),
    lambda: Point.__init__.__qualname__,
):
    print(outcome(action))
"""


def test_deferred_dataclasses_behave_the_same(tmp_path: Path) -> None:
    quick = "from agentv.cli import quick_start\nquick_start.begin()\nimport copy"
    usual = run_python(CLASSES, tmp_path)
    assert run_python(CLASSES.replace("import copy", quick), tmp_path) == usual
    assert usual.startswith("Point(x=1, y=0)\nTrue\nFalse\nTrue\nTrue\nTypeError: ")


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Python compiles all methods together")
def test_dataclass_methods_are_compiled_after_many_calls(tmp_path: Path) -> None:
    code = """
from agentv.cli import quick_start
quick_start.begin()
from dataclasses import dataclass
@dataclass(slots=True)
class Point:
    "A point."
    x: int
names = set()
for n in range(quick_start.CALLS_WORTH_COMPILING + 1):
    Point(n)
    names.add(vars(Point)["__init__"].__code__.co_varnames[:2])
    assert n or ("self", "x") not in names
print(("self", "x") in names)
"""
    assert run_python(code, tmp_path) == "True\n"


def test_deferred_patterns_behave_the_same(tmp_path: Path) -> None:
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


def test_deferred_annotations_can_be_resolved(tmp_path: Path) -> None:
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


def test_patches_are_removed_after_import(tmp_path: Path) -> None:
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
