"""Completions of parameters: runs, targets, cases and files. Only imported while a shell asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

import click
from click.shell_completion import CompletionItem

_MOST_RUNS = 30
_FILES = ("FILE", "DIR", "PATH")


def complete_parameters(command: click.Command) -> None:
    """Complete the values of parameters that click does not know how to complete."""
    for parameter in command.params:
        words = _source_of(parameter)
        if parameter.name == "run" and any(other.name == "case" for other in command.params):
            words = _runs_and_cases
        if words is not None:
            parameter.shell_complete = partial(_complete, words)  # type: ignore[method-assign]


Words = Callable[[click.Context], Iterable[str]]


def _source_of(parameter: click.Parameter) -> Words | None:
    """The words that a parameter takes, by the name and the placeholder that its help shows; None for click's own."""
    metavar = parameter.metavar or ""
    if not isinstance(parameter.type, click.types.StringParamType):
        return None
    name = parameter.name or ""
    if "RUN" in metavar or name == "run" or metavar in ("A", "B"):
        return _runs
    if "target" in name and metavar == "NAME":
        return _targets
    if name in ("case", "cases"):
        return _cases
    if name == "paths" or any(word in metavar for word in _FILES):
        return _no_words
    return None


def _complete(words: Words, context: click.Context, incomplete: str) -> list[CompletionItem]:
    """The words that begin like this, or files."""
    found: list[str] = []
    # An error would be printed in the middle of what the user types.
    with suppress(Exception):
        found = [word for word in words(context) if word.startswith(incomplete)]
    if found:
        return [CompletionItem(word) for word in found]
    return [CompletionItem(incomplete, type="file")] if words in (_no_words, _runs) else []


def _no_words(context: click.Context) -> Iterable[str]:  # noqa: ARG001 - one signature for all
    return ()


def _runs(context: click.Context) -> Iterable[str]:  # noqa: ARG001 - one signature for all
    from agentv.record.catalog import Catalog  # noqa: PLC0415 - each completion needs only one of these

    catalog = Catalog(Path.cwd())
    names = []
    for entry in islice((catalog.entry(run_id) for run_id in catalog.ids()), _MOST_RUNS):
        names += [entry.labels.name] if entry.labels.name else []
        names.append(entry.id)
    if names:
        names.insert(0, "latest")
    return dict.fromkeys(names)


def _runs_and_cases(context: click.Context) -> Iterable[str]:
    """The first argument may also be a case of the latest run."""
    return dict.fromkeys((*_runs(context), *_cases(context)))


def _targets(context: click.Context) -> Iterable[str]:
    from agentv.targets.config import find_config, load_config  # noqa: PLC0415
    from agentv.targets.environment import Environment  # noqa: PLC0415

    cwd, option = Path.cwd(), context.params.get("config")
    suites = [cwd / path for path in _paths(context)]
    directory = next((path if path.is_dir() else path.parent for path in suites), cwd)
    path = cwd / option if option else find_config(directory, cwd)
    return [] if path is None else sorted(load_config(path, Environment.near(directory, cwd=cwd)).targets)


def _cases(context: click.Context) -> Iterable[str]:
    if "paths" not in context.params:
        return _cases_of_run(context.params.get("run"))
    return _cases_of_suites(_paths(context))


def _paths(context: click.Context) -> tuple[str, ...]:
    """The suites on the command line. If the last option still needs a value, click has not assigned them."""
    return tuple(context.params.get("paths") or context.args)


def _cases_of_run(run: str | None) -> Iterable[str]:
    from agentv.record.reading import RunReader  # noqa: PLC0415
    from agentv.record.run_dir import find_run  # noqa: PLC0415

    reader = RunReader(find_run(run or "latest", Path.cwd()))
    return dict.fromkeys(head.key.eval_id for head in reader.heads())


def _cases_of_suites(paths: tuple[str, ...]) -> Iterable[str]:
    from agentv.plan.build import build_plan  # noqa: PLC0415
    from agentv.plan.discovery import suite_paths  # noqa: PLC0415
    from agentv.plan.options import RunOptions  # noqa: PLC0415

    paths = suite_paths(paths, Path.cwd(), command="eval")
    plan = build_plan(RunOptions(paths=paths), Path.cwd(), only_check=True, search=False)
    return dict.fromkeys(case_id for planned in plan.suites for case_id in planned.suite.ids)
