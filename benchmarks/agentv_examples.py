"""`python -m benchmarks.agentv_examples REPOSITORY`: how many suites of AgentV's releases load, run and convert.

REPOSITORY is a clone of AgentV's repository, which is not part of this project and never fetched. The files of each
release are extracted temporarily. A suite loads if `agentv validate` accepts it. With `--run`, it is run with
scripted answers and a scripted judge: its own scripts run, and no model is called.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentv.errors import ConfigError, SuiteError
from agentv.evaluators.reader import EvaluatorReader
from agentv.importing.agentv import import_project, write_copy
from agentv.plan.discovery import find_suites
from agentv.suite.loader import load_suite
from agentv.targets.config import find_config, load_config
from agentv.targets.environment import Environment
from benchmarks.measure import ROOT, agentv, environment

RELEASES = ("v2.0.2", "v2.5.4", "v4.42.4", "HEAD")
PAGE = ROOT / "docs" / "migrating-from-agentv.md"
BEGIN, END = "<!-- agentv examples: begin -->", "<!-- agentv examples: end -->"
SECONDS = 120
_FEATURE = re.compile(r"AgentV's `([^`]+)` is not supported")
_TEXTS = {"hits": [], "misses": [], "reasoning": "scripted", "overall_reasoning": "scripted"}
_JUDGED = json.dumps({"score": 1, "checks": {}, **_TEXTS})
_SCRIPTED = {
    "provider": "mock",
    "response": _JUDGED,
    "token_usage": {"input": 10, "output": 10},
    "cost_usd": 0.001,
}


@dataclass(slots=True)
class Counted:
    """What was counted in one release."""

    release: str
    suites: int = 0
    cases: int = 0
    loaded: dict[Path, list[str]] = field(default_factory=dict)
    """The suites that load, and the targets that their judges name."""
    features: Counter[str] = field(default_factory=Counter)
    """Suites by the unsupported feature that they use; one suite may use several."""
    refused: int = 0
    others: dict[Path, str] = field(default_factory=dict)
    """Suites with another problem."""
    ran: int = 0
    scored: int = 0
    """Cases that got a score."""
    errored: int = 0
    not_run: dict[Path, str] = field(default_factory=dict)
    """Why a suite did not run, or why a case of it errored."""
    converted: int = 0
    not_converted: dict[Path, str] = field(default_factory=dict)


def extract(repository: Path, release: str, place: Path) -> None:
    place.mkdir(parents=True)
    with tempfile.TemporaryFile() as archive:
        subprocess.run(["git", "-C", str(repository), "archive", release], stdout=archive, check=True)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as files:
            files.extractall(place, filter="data")
    (place / ".git").mkdir()  # references may lead to the root of the repository


def count(place: Path, release: str) -> Counted:
    counted = Counted(release)
    for path in find_suites([str(place)], place):
        counted.suites += 1
        name = path.relative_to(place)
        try:
            suite = load_suite(path, EvaluatorReader(), variables=os.environ)
        except SuiteError as error:
            messages = [problem.message for problem in error.problems]
            features = {match[1] for message in messages for match in _FEATURE.finditer(message)}
            counted.features.update(features)
            if features:
                counted.refused += 1
            else:
                counted.others[name] = messages[0]
            continue
        counted.loaded[path] = [*(named.target for named in suite.judge_names), *targets_near(path, place)]
        counted.cases += len(suite.ids)
    return counted


def targets_near(suite: Path, place: Path) -> list[str]:
    """The names of the targets that the scripts of a suite may call."""
    config = find_config(suite.parent, place)
    try:
        return [] if config is None else list(load_config(config, Environment.near(suite.parent, cwd=place)).targets)
    except ConfigError:  # for example, of an agent that does not exist here
        return []


def run(counted: Counted, place: Path) -> None:
    """Run every suite that loads, with a scripted target in place of each target, and count what got a score."""
    for number, (path, names) in enumerate(counted.loaded.items()):
        config, out = place / f"scripted-{number}.yaml", place / f"rows-{number}.jsonl"
        config.write_text(json.dumps({"targets": dict.fromkeys(["scripted", *names], _SCRIPTED)}), encoding="utf-8")
        options = ["--config", str(config), "--target", "scripted", "--judge-target", "scripted", "--quiet"]
        words = agentv("eval", str(path), *options, "--out", str(out), "--run-dir", str(place / f"run-{number}"))
        try:
            done = subprocess.run(
                words, cwd=path.parent, env=environment(), capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            counted.not_run[path.relative_to(place)] = f"took more than {SECONDS} s"
            continue
        if done.returncode not in (0, 1, 3):
            counted.not_run[path.relative_to(place)] = (done.stderr or done.stdout).strip().splitlines()[0]
            continue
        counted.ran += 1
        for line in out.read_text(encoding="utf-8").splitlines():
            error = json.loads(line)["error"]
            counted.scored += error is None
            counted.errored += error is not None
            if error is not None:
                counted.not_run[path.relative_to(place)] = error["message"].splitlines()[0]


def convert(counted: Counted, place: Path, out: Path) -> None:
    """Convert the suites that load, and compare their cases before and after."""
    project = import_project(place)
    counted.not_converted = dict.fromkeys(write_copy(project, out), "other cases")
    refused = {problem.path for problem in project.problems}
    for path in counted.loaded:
        if path in refused:
            counted.not_converted[path.relative_to(place)] = "refused"
    counted.converted = len(counted.loaded) - len(counted.not_converted)


def table(all_counted: Sequence[Counted], *, with_runs: bool) -> str:
    head = "| release | suites | load | converted | refused by name | other problems |"
    lines = [
        head + (" run | cases scored |" if with_runs else ""),
        "| --- | --- | --- | --- | --- | --- |" + (" --- | --- |" if with_runs else ""),
    ]
    for each in all_counted:
        cells = (each.suites, len(each.loaded), each.converted, each.refused, len(each.others))
        line = f"| {each.release} | {' | '.join(map(str, cells))} |"
        lines.append(line + (f" {each.ran} | {each.scored} of {each.scored + each.errored} |" if with_runs else ""))
    lines += ["", "Features that are refused, with the number of suites that use them:", ""]
    for each in all_counted:
        if each.features:
            named = ", ".join(f"`{name}` {number}" for name, number in each.features.most_common())
            lines.append(f"- {each.release}: {named}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agentv_examples", description="Examples of AgentV.")
    parser.add_argument("repository", type=Path, metavar="REPOSITORY", help="clone of AgentV's repository")
    parser.add_argument("--release", action="append", metavar="NAME", help=f"tag or commit  [{', '.join(RELEASES)}]")
    parser.add_argument("--run", action="store_true", help="also run the suites, with their scripts")
    parser.add_argument(
        "--modules", type=Path, metavar="DIR", help="packages of the suites' own scripts (`@agentv/eval`)"
    )
    parser.add_argument("--write", action="store_true", help=f"write the table to {PAGE.relative_to(ROOT)}")
    args = parser.parse_args(arguments)
    all_counted: list[Counted] = []
    with tempfile.TemporaryDirectory(prefix="agentv-examples-") as scratch:
        for release in args.release or RELEASES:
            place = Path(scratch).resolve() / release
            extract(args.repository, release, place)
            counted = count(place, release)
            convert(counted, place, Path(scratch).resolve() / f"{release}-converted")
            if args.run:
                if args.modules is not None:
                    (place / "node_modules").symlink_to(args.modules.resolve())
                run(counted, place)
            all_counted.append(counted)
    text = table(all_counted, with_runs=args.run)
    print(text)
    for each in all_counted:
        for name, message in {**each.others, **each.not_converted, **each.not_run}.items():
            print(f"{each.release}: {name}: {message}", file=sys.stderr)
    if args.write:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
