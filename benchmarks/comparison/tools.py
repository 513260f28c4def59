"""The tools: how to install and start each of them, and how to read its score."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SNIPPETS = Path(__file__).with_name("snippets")


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool, with one implementation of the scorer."""

    name: str
    folder: str
    """Directory under `snippets`; copied to a separate directory before each run."""
    scorer: str
    """The file with the scorer: the part between `# scorer` and `# end of scorer`, or all of it."""
    files: tuple[str, ...]
    """Other files that the user writes: cases, configuration, and code that runs them."""
    probe_before: str
    """Part of a line; the probe is inserted above that line."""
    command: tuple[str, ...]
    """`{bin}` is replaced by the directory of installed commands."""
    languages: str
    packages: tuple[str, ...] = ()
    version_of: str = ""
    node: bool = False
    score: Callable[[Path, str], float] = lambda _directory, printed: _printed(printed)
    limit: tuple[str, str, str] | None = None
    """A file and a replacement in it that sets the limit of judge calls to 0, if the tool has such a setting."""


def _printed(text: str) -> float:
    found = re.findall(r"^score (\S+)$", text, re.MULTILINE)
    return float(found[-1])


def _ours(directory: Path, _: str) -> float:
    (result,) = json.loads((directory / "rows.jsonl").read_text(encoding="utf-8"))["evaluator_results"]
    if result["error"]:
        raise ValueError(str(result["error"]))
    return float(result["score"])


def _npm(directory: Path, _: str) -> float:
    (score,) = json.loads((directory / "out" / "index.jsonl").read_text(encoding="utf-8"))["scores"]
    for assertion in score.get("assertions", ()):
        if assertion["text"].startswith("Code evaluator failed"):
            raise ValueError(" ".join(assertion["text"].split())[:300])
    return float(score["score"])


def _promptfoo(directory: Path, _: str) -> float:
    rows = json.loads((directory / "out.json").read_text(encoding="utf-8"))["results"]["results"]
    (component,) = rows[0]["gradingResult"]["componentResults"]
    return float(component["score"])


def _own(language: str, ending: str, anchor: str) -> Tool:
    suite = f"suite.{ending}.yaml"
    return Tool(
        name=f"agentv (this project), {language}",
        folder="ours",
        scorer=f"capital.{ending}",
        files=(suite, "agentv.config.yaml"),
        probe_before=anchor,
        command=(str(Path(sys.executable).with_name("agentv")), "eval", suite, "--out", "rows.jsonl"),
        languages="any program",
        score=_ours,
        limit=(suite, "max_calls: 3", "max_calls: 0"),
    )


def _python(name: str, folder: str, anchor: str, *packages: str) -> Tool:
    return Tool(
        name=name,
        folder=folder,
        scorer="capital.py",
        files=(),
        probe_before=anchor,
        command=("{bin}/python", "capital.py"),
        languages="Python",
        packages=packages,
        version_of=packages[0],
    )


def _agentv_npm(name: str, folder: str, anchor: str, **more: object) -> Tool:
    return Tool(
        name=name,
        folder=folder,
        scorer="capital.mjs",
        files=("suite.eval.yaml", "targets.yaml"),
        probe_before=anchor,
        command=("{bin}/agentv", "eval", "suite.eval.yaml", "--targets", "targets.yaml", "--output", "out"),
        languages="any program",
        packages=("agentv",),
        version_of="agentv",
        node=True,
        score=_npm,
        **more,  # type: ignore[arg-type]
    )


TOOLS = (
    _own("Python", "py", "verdict = judge"),
    _own("TypeScript", "ts", "const verdict"),
    _own("bash", "sh", "jq '{question"),
    _python("Inspect AI", "inspect_ai", "question =", "inspect-ai", "openai"),
    _python("pydantic-evals", "pydantic_evals", "question =", "pydantic-evals", "pydantic-ai-slim[openai]"),
    _python("Ragas", "ragas", "question =", "ragas", "langchain-community<0.4"),
    _python("DeepEval", "deepeval", "question =", "deepeval"),
    Tool(
        name="promptfoo",
        folder="promptfoo",
        scorer="capital.mjs",
        files=("promptfooconfig.yaml",),
        probe_before="const judge",
        command=("{bin}/promptfoo", "eval", "--no-cache", "--no-progress-bar", "--output", "out.json"),
        languages="JavaScript, TypeScript, Python, Ruby",
        packages=("promptfoo",),
        version_of="promptfoo",
        node=True,
        score=_promptfoo,
    ),
    _agentv_npm(
        "AgentV (npm), through its proxy",
        "agentv_npm",
        "const response",
        limit=("suite.eval.yaml", "max_calls: 3", "max_calls: 0"),
    ),
    _agentv_npm("AgentV (npm), calling the model itself", "agentv_npm_direct", "const response"),
)
