"""Data is written as YAML with the comments and the order of the file that it came from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from agentv.importing.commented import CommentedWriter, Source
from agentv.suite.yaml import NodePath, YamlWalk

ODD = """\
%YAML 1.2
---   # the start
# first
"quoted # key": 'a # b'   # beside
plain: one # two
url: http://x/#y
folded: >-   # of a block
  text # in it

  # in it, too
# between
flow: {a: [1, 2], # inside
  b: "x"}  # after
list:   # of a list

  - # of an item
    k: v
  - - nested  # deep
    # before two
    - two
  -   |
    # text
   # not text
many: words
  on # some lines
base: &base {x: 1}   # anchor
more:
  <<: *base   # merged
  y: 2
empty: {}  # nothing
none:   # null
last: [a,
  # inside
  b]
# end

# of the end
"""
ROOT = Path(__file__).parent.parent.parent
FILES = [*sorted((ROOT / "examples").rglob("*.yaml")), *sorted((ROOT / ".github").rglob("*.yml"))]


def words(source: Source) -> Counter[str]:
    comments = [*source.above.values(), *source.beside.values(), source.last]
    return Counter(" ".join(comment for listed in comments for comment in listed if comment).split())


def same(node: NodePath) -> NodePath:
    return node


@pytest.mark.parametrize("text", [ODD, *(path.read_text(encoding="utf-8") for path in FILES)])
def test_data_and_comments_are_the_same_when_they_are_written_again(text: str) -> None:
    data, source = YamlWalk(text).document(), Source.of(text)
    written = CommentedWriter(source, same).text(data)
    assert YamlWalk(written).document() == data
    assert words(Source.of(written)) == words(source)


def test_every_comment_of_odd_places_is_found() -> None:
    expected = ["start", "first", "beside", "two", "block", "between", "inside", "after", "list", "item", "deep"]
    expected += ["two", "text", "lines", "anchor", "merged", "nothing", "null", "inside", "end", "end"]
    assert Counter(word for word in words(Source.of(ODD)).elements() if word in expected) == Counter(expected)


def test_comments_of_nodes_that_are_gone_move_above_the_next_node() -> None:
    text = "# about a\na: 1  # one\n# about b\nb: 2\nc: {x: 1}  # gone, too\n"
    written = CommentedWriter(Source.of(text), lambda node: ("b",) if node == ("z",) else node)
    assert written.text({"z": 3}) == "# about a\n# one\n# about b\nz: 3\n# gone, too\n"
