"""`agentv validate`: the checks of `agentv eval`, and nothing else."""

from __future__ import annotations

from pathlib import Path

import click

from agentv.errors import ConfigError, InvalidFilesError, Problem, SuiteError, UsageError
from agentv.plan.build import Loaded, build_plan, find_suites
from agentv.plan.options import RunOptions
from agentv.suite import guidelines
from agentv.targets.config import FILE_NAMES, load_config
from agentv.text import plural

_CONFIGS = {Path(name).name for name in FILE_NAMES}
_PROJECTS = {Path(name).name for name in guidelines.FILE_NAMES}


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--config", metavar="FILE", help="The target configuration, instead of the one found near each suite.")
@click.option("--quiet", "-q", is_flag=True, help="Only mistakes, no closing line.")
def command(paths: tuple[str, ...], config: str | None, quiet: bool) -> int:
    """Check suites and the configuration found for them; also configuration files by name.

    Prints every mistake as file:line:column on stderr. Exit code 0 when there is none, else 2.
    """
    cwd = Path.cwd()
    configs = [path for path in paths if Path(path).name in _CONFIGS or _is_project(cwd / path)]
    suites = [path for path in paths if path not in configs]
    problems: list[Problem] = []
    cases = 0
    loaded = Loaded(cwd)
    for path in configs:
        if Path(path).name in _PROJECTS:
            problems.extend(_mistakes_in_project(cwd / path))
            continue
        try:
            load_config(cwd / path, loaded.environment((cwd / path).resolve().parent))
        except ConfigError as error:
            problems.extend(error.problems)
    files = find_suites(suites, cwd, command="validate") if suites or not configs else []
    for file in files:
        try:
            plan = build_plan(RunOptions(paths=(str(file),), config=config), cwd, only_check=True)
            cases += sum(len(item.selected) for item in plan.suites)
        except InvalidFilesError as error:
            problems.extend(error.problems)
        except UsageError as error:
            problems.append(Problem(file, 1, 1, " ".join(str(error).split())))
    if not problems and files:
        build_plan(RunOptions(paths=tuple(suites), config=config), cwd, only_check=True)
    if problems:
        raise SuiteError(list(dict.fromkeys(problems)))
    if not quiet:
        click.echo(_all_well(len(files), cases, len(configs)))
    return 0


def _is_project(path: Path) -> bool:
    """Whether it is the file that lists guidelines: a suite may have the same name, elsewhere."""
    return path.name in _PROJECTS and path.resolve().parent.name == ".agentv"


def _mistakes_in_project(path: Path) -> list[Problem]:
    found = guidelines.read_guidelines(path)
    return [] if found.problem is None else [Problem(path, *found.problem)]


def _all_well(suites: int, cases: int, configs: int) -> str:
    parts = [plural(count, noun) for count, noun in ((suites, "suite"), (cases, "case")) if suites]
    parts += [plural(configs, "configuration")] if configs else []
    return f"ok: {', '.join(parts)}, no mistakes"
