"""The text of YAML files that commands write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agentv.report.terminal import clean
from agentv.suite.edit import yaml_lines


def yaml_file(comments: Iterable[str], data: Mapping[str, object]) -> str:
    """A file that begins with comments."""
    lines = [f"# {clean(line)}".rstrip() for line in comments]
    return "\n".join([*lines, "", *yaml_lines(data)]) + "\n"
