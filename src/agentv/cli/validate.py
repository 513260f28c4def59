"""`agentv validate`: check suites and configuration as `agentv eval` does, without running them."""

from __future__ import annotations

from pathlib import Path

import click

from agentv.errors import ConfigError, InvalidFilesError, Problem, SuiteError, UsageError
from agentv.plan.build import Loaded, build_plan
from agentv.plan.discovery import find_suites, mentions_cases, suite_paths
from agentv.plan.options import RunOptions
from agentv.suite import guidelines
from agentv.suite.suite import EvalSuite
from agentv.targets.config import FILE_NAMES, load_config
from agentv.text import plural

_CONFIGS = {Path(name).name for name in FILE_NAMES}
_PROJECTS = {Path(name).name for name in guidelines.FILE_NAMES}


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--config", metavar="FILE", help="Target configuration.  [found near each suite]")
@click.option("--suites-only", is_flag=True, help="Skip files without `evalcases`, also if they are in PATHS.")
@click.option("--verbose", "-v", is_flag=True, help="Also print which suites were written for another tool.")
@click.option("--quiet", "-q", is_flag=True, help="Print only errors.")
def command(paths: tuple[str, ...], config: str | None, suites_only: bool, verbose: bool, quiet: bool) -> int:
    """Check suites and their configuration without running them.

    PATHS are suite files, directories, globs or configuration files; without PATHS, evals/ is checked. Every error is
    printed to stderr with file, line and column. The exit code is 0 if everything is valid, and 2 otherwise.
    """
    cwd = Path.cwd()
    configs, suites = _sorted(paths, cwd, suites_only=suites_only)
    problems: list[Problem] = []
    notes: list[str] = []
    cases = 0
    loaded = Loaded(cwd)
    for path in configs:
        if Path(path).name in _PROJECTS:
            read = guidelines.read_guidelines(cwd / path)
            problems += [] if read.problem is None else [Problem(cwd / path, *read.problem)]
            notes += read.notes
            continue
        try:
            notes += load_config(cwd / path, loaded.environment((cwd / path).resolve().parent)).notes()
        except ConfigError as error:
            problems.extend(error.problems)
    files = find_suites(suites, cwd) if suites else []
    for file in files:
        try:
            plan = build_plan(RunOptions(paths=(str(file),), config=config), cwd, only_check=True)
            cases += sum(len(item.selected) for item in plan.suites)
            notes += plan.notes
            if verbose:
                notes += [_dialect(item.suite) for item in plan.suites if item.suite.dialect]
        except InvalidFilesError as error:
            problems.extend(error.problems)
        except UsageError as error:
            problems.append(Problem(file, 1, 1, " ".join(str(error).split())))
    if not problems and files:
        build_plan(RunOptions(paths=tuple(suites), config=config), cwd, only_check=True)
    if problems:
        raise SuiteError(list(dict.fromkeys(problems)))
    if not quiet:
        for note in dict.fromkeys(notes):
            click.echo(f"note: {note}", err=True)
        click.echo(_summary(len(files), cases, len(configs)))
    return 0


def _dialect(suite: EvalSuite) -> str:
    return f"{suite.path}: read as a suite of {suite.dialect}"


def _sorted(paths: tuple[str, ...], cwd: Path, *, suites_only: bool) -> tuple[list[str], list[str]]:
    """The configurations and the suites among the paths; without paths, the default directory."""
    configs = [path for path in paths if Path(path).name in _CONFIGS or _is_project(cwd / path)]
    suites = [path for path in paths if path not in configs]
    if suites_only and paths:
        suites = [path for path in suites if not (cwd / path).is_file() or mentions_cases(cwd / path)]
    elif not configs:
        suites = list(suite_paths(suites, cwd, command="validate"))
    return configs, suites


def _is_project(path: Path) -> bool:
    """Whether this is the file that lists guidelines. In other directories, a suite may have the same name."""
    return path.name in _PROJECTS and path.resolve().parent.name == ".agentv"


def _summary(suites: int, cases: int, configs: int) -> str:
    parts = [plural(count, noun) for count, noun in ((suites, "suite"), (cases, "case")) if suites]
    parts += [plural(configs, "configuration")] if configs else []
    parts = parts or ["no suites"]
    return f"ok: {', '.join(parts)}, no problems"
