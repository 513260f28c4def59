"""Find phrases to avoid in docs, comments, docstrings, string literals and test names.

    python -m tests.english                     counts per directory
    python -m tests.english src/agentv/suite    every finding, with file and line; exits with 1 if there are any

The list is short and certain; it is not a grammar. Add an exception to `ALLOWED` for text that quotes someone else.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUFFIXES = {".md", ".py", ".ts", ".mts", ".yaml", ".yml", ".sh", ".svg"}
NOT_OURS = {
    ".git",
    ".venv",
    ".venv-ray",
    ".venv-real",
    ".venv-libraries",
    ".agentv",
    "node_modules",
    "dist",
    "projects",
    "results",
    "__pycache__",
}
ALLOWED = {
    "tests/english.py": r".",  # this list
    "tests/test_english.py": r".",  # its tests
}
"""Path prefix -> expression for the lines in which a phrase is allowed."""

PHRASES = {
    r"told": "reported, printed, distinguished",
    r"mistakes?": "error, problem, typo",
    r"(?<!there )(is|are|was|were) no (?!longer|more|less|fewer|different|worse|better)": "is not a",
    r"whoever|nobody|somebody|anybody": "the user, the caller, no process",
    r"who (judges|(is|was) asked|writes (them|it))|to who": "the judge target, the caller",
    r"that there (are|is) not": "unknown",
    r"mend(s|ed|ing)?": "fix, repair",
    r"of (yours|ours|theirs)": "your, our, their",
    r"texts": "strings, text",
    r"go(es)? on(?! to\b)": "continue, resume",
    r"(is|are|was|were|be) left alone": "is ignored, is not retried",
    r"stands?(?! (for|out)\b)|stood": "is",
    r"turn(s|ed)? round": "inverted",
    r"(counted|kept|set) apart": "separately",
    r"asked (again|anew)|anew": "retried, again",
    r"by (itself|themselves)": "automatically, on its own",
    r"at once": "immediately, together",
    r"in silence": "silently",
    r"put(s)? right|put it right": "fix",
    r"(so|that) many(?= \w+s\b)": "the number of, N",
    r"the word of the": "the value reported by the",
    r"(extra|of|its|more|all) tries|a try": "attempts, retries",
    r"at the most": "at most",
    r"for the moment": "temporarily",
}
_PATTERN = re.compile("|".join(f"(?P<p{n}>\\b(?:{phrase})\\b)" for n, phrase in enumerate(PHRASES)), re.IGNORECASE)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Line number and text of all prose. In Python files these are strings, comments and test names."""
    text = path.read_text(encoding="utf-8").replace("&#160;", " ")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        if kind in ("STRING", "COMMENT", "FSTRING_MIDDLE"):
            is_format = "f" in token.string.split('"')[0].split("'")[0].lower()
            string = re.sub(r"\{[^{}\n]*\}", "{}", token.string) if is_format else token.string
            yield from enumerate(string.splitlines(), token.start[0])
        elif kind == "NAME" and token.string.startswith("test_"):
            yield token.start[0], token.string.replace("_", " ")


def findings(path: Path, root: Path = ROOT) -> Iterator[tuple[int, str, str]]:
    """Line number, phrase and suggested replacement of each finding in a file."""
    name = str(path.relative_to(root))
    allowed = [re.compile(line) for prefix, line in ALLOWED.items() if name.startswith(prefix)]
    for number, line in prose(path):
        for match in _PATTERN.finditer(line):
            if not any(pattern.search(line) for pattern in allowed):
                yield number, match[0], PHRASES[list(PHRASES)[int(str(match.lastgroup)[1:])]]


def files(place: Path) -> Iterator[Path]:
    paths = [place] if place.is_file() else sorted(place.rglob("*"))
    for path in paths:
        if path.suffix in SUFFIXES and path.is_file() and not NOT_OURS & set(path.relative_to(ROOT).parts):
            yield path


def main(arguments: list[str]) -> int:
    if not arguments:
        counts = Counter(str(path.parent.relative_to(ROOT)) for path in files(ROOT) for _ in findings(path))
        for folder, count in sorted(counts.items()):
            print(f"{count:5}  {folder}")
        print(f"{counts.total():5}  in all")
        return min(1, counts.total())
    places = [Path(argument).resolve() for argument in arguments]
    lines = [
        f"{path.relative_to(ROOT)}:{number}: {phrase!r}: write {advice}"
        for place in places
        for path in files(place)
        for number, phrase, advice in findings(path)
    ]
    print("\n".join(lines))
    return min(1, len(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
