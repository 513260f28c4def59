"""Mask what identifies a machine or its user, for a file that is passed on: paths, user names and host names.

Secrets are masked in the record already. What is masked here is found in `run.json`, in the errors of rows and on this
machine; then it is replaced wherever it occurs, also in answers and judge calls. The same name always gets the same
mask: `[project]/evals/suite.yaml`, `[home]`, `[temp]`, `[dir-1]`, `[host-1]`, `[user]`.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agentv import jsonio
from agentv.errors import RecordError
from agentv.evidence import CaseRecord, EvaluatorRecord, JudgeCallRecord
from agentv.messages import Message, TokenUsage, ToolCall
from agentv.record.files import LONGEST_LINE, open_recorded
from agentv.record.human_labels import HumanLabel
from agentv.record.run_dir import RunDirectory
from agentv.results import CaseError, CaseResult, EvaluatorResult
from agentv.view import assets

MASKED = "Paths, user names and host names were masked (--share)."

_READABLE = re.compile(r"/(?:usr|bin|sbin|lib|lib64|etc|dev|proc|sys|nix|api|v\d\w*)(?:/|$)")
"""Directories that are the same on all machines, and paths of web services."""
_ORDINARY = frozenset(
    word
    for words in (
        "admin app build default docker gitlab guest jenkins localhost node root runner system test ubuntu vscode",
        "assistant borderline broken error fail failed finished interrupted mock pass passed running scripted tool",
        "dir home host project run runs temp unsure user",
    )
    for word in words.split()
)
"""Words that identify nothing, such as service accounts, and words of the record itself."""
_PROPERTY = re.compile(r"@property \{.*\} \[?(\w+)|\b(\w+)\??:")
_KEYS = frozenset(
    word
    for words in (
        "after p agree agreement batch_used before branch cache_hits call_count calls cancelled changes checks",
        "command commit compared confidence decision description dirty distinct error_count event_count exit_code",
        "expected failed_calls files from_record headline histogram input_tokens kappa length llm_call_count",
        "losses matched max_calls mcnemar_p mean1 mean2 member message mode models negate newly_failed",
        "newly_passed noise normalised_gain ok one only_a only_b other outputMessages output_tokens p50_ms p95_ms",
        "p_holm pass_rate1 pass_rate2 path pattern people rate rawText reasons refused refused_calls repaired rho",
        "rubrics ruler satisfied scored_cases script seed sign_test_p source starts stop stop_early threshold_ms",
        "ties timeouts tool_calls_by_name tool_names unjudged usage value waited_p95_ms warm what wins",
        "wrongly_failed wrongly_passed",
    )
    for word in words.split()
)
"""Keys of the data in the file that neither `types.js` nor a record names."""
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"')
_RECORDED = (CaseResult, EvaluatorResult, CaseError, CaseRecord, EvaluatorRecord, JudgeCallRecord, Message, ToolCall)
_HOMES = re.compile(r"/(?:home|Users)/([^/\s\"'\\:%]+)")
_COMPONENT = r"[^\s/\"'`\\:;,<>()|*?\[\]{}$=%]+"
_ABSOLUTE = re.compile(rf"(?:(?<=file://)|(?<![\w.:/~%\])-]))/(?:{_COMPONENT}/)+(?:{_COMPONENT})?")
_URL_HOST = re.compile(
    r"[a-z][a-z0-9+.-]{0,20}://(?:[^/@\s\"']*@)?(\[[0-9a-f:.]+\]|[^/:?#@\s\"'\\<>)\]},]+)", re.IGNORECASE
)
_TEMPORARY = ("/tmp", "/var/tmp", "/private/tmp")  # noqa: S108 - these are masked, not used
_VARIABLE = re.compile(r"\$\{\{\s*(\w+)\s*\}\}")
_LOOPBACK = re.compile(r"localhost|127(?:\.\d+){3}|\[::1\]|0\.0\.0\.0|.*[${].*", re.IGNORECASE)
_HAS_ERROR = re.compile(rb'"error":\s*["{]')
_START = r"(?:(?<![\w.-])|(?<=\\[nrtbf])|(?<=%2[fF]))"
"""The start of a word in JSON text, where a line break is a backslash and a letter."""


@dataclass(frozen=True, slots=True)
class _Rule:
    core: str
    """Lower-case text that everything that this rule masks contains."""
    pattern: re.Pattern[str]
    mask: str
    only_in_strings: bool = False
    """Whether the name looks like a value of JSON outside of strings, such as a number."""


class Masker:
    """Masks names in JSON text."""

    def __init__(self, paths: Mapping[str, str], hosts: Mapping[str, str], users: Mapping[str, str]) -> None:
        """Each mapping is from a name to its mask."""
        longest_first = sorted(paths.items(), key=lambda item: -len(item[0]))
        self._rules = [_path_rule(path, mask) for path, mask in longest_first]
        self._rules += [
            _Rule("home", re.compile(rf"{_escaped('/home/')}{_USER}"), "[home]"),
            _Rule("users", re.compile(rf"{_escaped('/Users/')}{_USER}"), "[home]"),
        ]
        words = [*hosts.items(), *users.items()]
        self._rules += [_word_rule(word, mask) for word, mask in sorted(words, key=lambda item: -len(item[0]))]

    def json(self, text: str) -> str:
        """JSON text with all names masked. The masks contain nothing that JSON escapes."""
        lower = text.lower()
        for rule in self._rules:
            if rule.core not in lower:
                continue
            if rule.only_in_strings:
                text = _STRING.sub(partial(_in_string, rule), text)
            else:
                text = rule.pattern.sub(rule.mask, text)
        return text


def _in_string(rule: _Rule, found: re.Match[str]) -> str:
    return rule.pattern.sub(rule.mask, found[0])


def keys() -> set[str]:
    """The keys of the data in the file, which must not be masked."""
    shapes = _PROPERTY.findall(assets.read("types.js").decode("utf-8"))
    recorded = (field.name for shape in (*_RECORDED, TokenUsage, HumanLabel) for field in fields(shape))
    return {name for names in shapes for name in names if name} | set(recorded) | _KEYS


def masker_of(runs: Iterable[RunDirectory]) -> Masker:
    """What has to be masked in a file with these runs."""
    found = _Found()
    for run in runs:
        found.add_run(run)
    return found.masker()


class _Found:
    def __init__(self) -> None:
        self._projects: set[str] = set()
        self._runs: dict[str, None] = {}
        self._directories: set[str] = set()
        self._hosts: dict[str, None] = {}
        self._users: dict[str, None] = {}
        self._people: dict[str, None] = {}
        """Names in labels: they are masked even if they are short."""
        self._add_project(Path.cwd())
        with suppress(OSError, KeyError):
            self._users[getpass.getuser()] = None

    def _add_project(self, path: Path) -> None:
        self._projects.add(str(path))
        with suppress(OSError, RuntimeError):
            self._projects.add(str(path.resolve()))

    def add_run(self, run: RunDirectory) -> None:
        self._runs[str(run.path.parent)] = None
        try:
            manifest = run.read_manifest()
        except RecordError:
            manifest = {}
        if isinstance(cwd := manifest.get("cwd"), str) and cwd.startswith("/"):
            self._add_project(Path(cwd))
        for text in _strings(manifest):
            if text.startswith("/") and "\n" not in text:
                self._add_directory(text)
            self._add_text(text)
            for variable in _VARIABLE.findall(text):
                self._add_hosts(os.environ.get(variable, ""))
        for text in _recorded_names(run):
            self._add_text(text)
        for data in _lines(run.path / "labels.jsonl"):
            if isinstance(by := data.get("by"), str):
                self._people[by] = None

    def _add_text(self, text: str) -> None:
        self._add_hosts(text)
        for path in _ABSOLUTE.findall(text):
            self._add_directory(path)
        for user in _HOMES.findall(text):
            self._users[user] = None

    def _add_directory(self, path: str) -> None:
        if not _READABLE.match(path) and (directory := path.rpartition("/")[0]):
            self._directories.add(directory)

    def _add_hosts(self, text: str) -> None:
        for host in _URL_HOST.findall(text):
            if not _LOOPBACK.fullmatch(host):
                self._hosts[host.lower()] = None

    def masker(self) -> Masker:
        ordinary = _ORDINARY | keys()
        return Masker(self._paths(), self._host_masks(ordinary), self._user_masks(ordinary))

    def _paths(self) -> dict[str, str]:
        paths = dict.fromkeys(self._projects, "[project]")
        for path in _places("HOME", str(Path.home())):
            paths.setdefault(path, "[home]")
        for path in (*_TEMPORARY, *_places("TMPDIR", tempfile.gettempdir())):
            paths.setdefault(path, "[temp]")
        for number, directory in enumerate(self._runs, 1):
            if not _is_in(directory, self._projects):
                paths.setdefault(directory, f"[runs-{number}]")
        others = 0
        for directory in sorted(self._directories, key=lambda path: (len(path), path)):
            if not _is_in(directory, paths) and not _HOMES.match(directory):
                others += 1
                paths[directory] = f"[dir-{others}]"
        # JSON cannot contain names that are not UTF-8.
        return {
            path.rstrip("/"): mask
            for path, mask in paths.items()
            if path.strip("/") and not any("\ud800" <= char <= "\udfff" for char in path)
        }

    def _host_masks(self, ordinary: Set[str]) -> dict[str, str]:
        machine = {socket.gethostname(), os.uname().nodename, os.environ.get("HOSTNAME", "")}
        machine |= {name.partition(".")[0] for name in machine}
        others = [host for host in self._hosts if host not in machine]
        masks = {**dict.fromkeys(machine, "[host-1]"), **{host: f"[host-{n}]" for n, host in enumerate(others, 2)}}
        return {
            host: mask
            for host, mask in masks.items()
            if len(host) > 1 and host.lower() not in ordinary and not _LOOPBACK.fullmatch(host)
        }

    def _user_masks(self, ordinary: Set[str]) -> dict[str, str]:
        names = [user for user in self._users if len(user) > 2]
        names += [name for name in self._people if len(name) > 1 and name not in self._users]
        names = [name for name in names if name.lower() not in ordinary]
        return {user: "[user]" if number == 1 else f"[user-{number}]" for number, user in enumerate(names, 1)}


def _places(variable: str, path: str) -> Iterator[str]:
    for place in (path, os.environ.get(variable, "")):
        if place.startswith("/"):
            yield place.rstrip("/")
            with suppress(OSError, RuntimeError):
                yield str(Path(place).resolve())


def _is_in(directory: str, roots: Iterable[str]) -> bool:
    return any(root != "/" and f"{directory}/".startswith(f"{root.rstrip('/')}/") for root in roots)


def _strings(value: Any) -> Iterator[str]:
    """All strings of a JSON value, keys too."""
    left = [value]
    while left:
        node = left.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict):
            left += [part for item in reversed(node.items()) for part in reversed(item)]
        elif isinstance(node, list):
            left += reversed(node)


def _recorded_names(run: RunDirectory) -> Iterator[str]:
    """Strings of the cases and rows that may contain paths and hosts: positions, commands and errors."""
    for case in _lines(run.cases):
        yield from _strings(case.get("file"))
        for evaluator in _nested(case.get("evaluators"), "members"):
            options = evaluator.get("options")
            yield from _strings(options.get("script") if isinstance(options, dict) else None)
    for row in _lines(run.results, _HAS_ERROR):
        yield from _strings(row.get("error"))
        for result in _nested(row.get("evaluator_results"), "evaluator_results"):
            yield from _strings(result.get("error"))


def _nested(items: Any, children: str) -> Iterator[dict[str, Any]]:
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            yield item
            yield from _nested(item.get(children), children)


def _lines(path: Path, only: re.Pattern[bytes] | None = None) -> Iterator[dict[str, Any]]:
    """The objects in a JSON Lines file; damaged lines are skipped."""
    with suppress(OSError), open_recorded(path) as file:
        while line := file.readline(LONGEST_LINE):
            if only is None or only.search(line):
                with suppress(ValueError):
                    data = jsonio.load(line, unique=False)
                    if isinstance(data, dict):
                        yield data


def _escaped(text: str) -> str:
    """An expression for text as it is, percent-encoded once or twice, and escaped in JSON once or more often."""
    return "".join(char if char.isascii() and char.isalnum() else _any_form(char) for char in text)


def _any_form(char: str) -> str:
    encoded = quote(char, safe="") if not char.isascii() else f"%{ord(char):02X}"
    percent = "".join(f"%(?:25)?(?i:{digits})" for digits in encoded.split("%")[1:])
    units = char.encode("utf-16-be").hex()
    unicode = "".join(rf"\\+u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4))
    # Backslashes are counted from the first one: from each of many, this would take quadratic time.
    return rf"(?:(?<!\\)\\*{re.escape(char)}|{percent}|(?<!\\){unicode})"


_CONSTANTS = ("true", "false", "null")
_USER = r"[^/\s\"'\\:%\]\[]+"


def _core(text: str) -> str:
    """The longest part of a name that no encoding changes, in lower case."""
    return max(re.findall(r"[A-Za-z0-9]+", text), key=len, default="").lower()


def _path_rule(path: str, mask: str) -> _Rule:
    start = _START if path.count("/") == 1 else ""
    return _Rule(_core(path), re.compile(rf"{start}{_escaped(path)}(?![\w-])"), mask)


def _word_rule(word: str, mask: str) -> _Rule:
    """Short names and those of letters or digits only are masked as whole words, others wherever they occur."""
    if len(word) < 6 or word.isalpha() or word.isdigit():
        flags = "" if len(word) < 3 else "i"  # `JD` is a name, `jd` may be anything
        pattern = re.compile(rf"{_START}(?{flags}:{re.escape(word)})(?![\w-])")
        return _Rule(_core(word), pattern, mask, only_in_strings=word.isdigit() or word.lower() in _CONSTANTS)
    return _Rule(_core(word), re.compile(rf"(?i:{_escaped(word)})"), mask)
