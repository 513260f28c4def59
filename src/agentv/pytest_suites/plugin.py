"""The hooks of pytest that collect suites. Everything else is imported when a suite has been found."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentv.pytest_suites.stash import SESSION_RUN
from agentv.suite.sniff import JSON_LINES, is_yaml_suite

if TYPE_CHECKING:
    from agentv.pytest_suites.items import SuiteFile

COLLECT = "agentv_collect"
SHARED = "agentv_shared"
_ALWAYS, _NEVER, _IF_NAMED = "true", "false", "paths"
_SUITE_DIRECTORIES = frozenset(("eval", "evals"))
"""Directories in which a file with `tests` is a suite. Elsewhere, it can be data of other tests."""

_SHARED_DIRECTORY = pytest.StashKey[Path]()
"""With pytest-xdist, in the process that controls the workers: the directory through which they find their run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("agentv", "suites of agentv")
    group.addoption(
        "--agentv-target",
        action="append",
        default=[],
        metavar="NAME",
        help="Target that answers the cases of suites; repeatable.",
    )
    group.addoption("--agentv-judge-target", metavar="NAME", help="Judge target of suites; `none` disables judging.")
    group.addoption("--agentv-config", metavar="FILE", help="Target configuration of suites.")
    group.addoption(
        "--agentv-replay", metavar="RUN", help="Answer targets and judges of suites from the record of this run."
    )
    parser.addini(
        COLLECT,
        "Which suites are tests: `paths` (those in paths on the command line or in `testpaths`), `true` or `false`.",
        default=_IF_NAMED,
    )


def pytest_configure(config: pytest.Config) -> None:
    setting = str(config.getini(COLLECT))
    if setting not in (_ALWAYS, _NEVER, _IF_NAMED):
        raise pytest.UsageError(f"{COLLECT} must be `paths`, `true` or `false`, got '{setting}'.")


def _collects(config: pytest.Config) -> bool:
    """Whether suites are collected. A plain `pytest` must not call models unless the project asks for it."""
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if worker is not None and COLLECT in worker:
        return bool(worker[COLLECT])
    setting = str(config.getini(COLLECT))
    return setting == _ALWAYS or (
        setting == _IF_NAMED and config.args_source is not pytest.Config.ArgsSource.INVOCATION_DIR
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SuiteFile | None:
    is_named = parent.session.isinitpath(file_path)
    is_json_lines = file_path.suffix == JSON_LINES and is_named
    accepts_alias = is_named or not _SUITE_DIRECTORIES.isdisjoint(file_path.parent.parts)
    if not (is_json_lines or is_yaml_suite(file_path, accepts_alias=accepts_alias)) or not _collects(parent.config):
        return None
    from agentv.pytest_suites.items import SuiteFile  # noqa: PLC0415 - most test runs have no suites
    from agentv.pytest_suites.session_run import SessionRun  # noqa: PLC0415

    if SESSION_RUN not in parent.config.stash:
        worker = getattr(parent.config, "workerinput", {})
        shared = Path(worker[SHARED]) if SHARED in worker else None
        parent.config.stash[SESSION_RUN] = SessionRun(parent.config, shared)
    collector: SuiteFile = SuiteFile.from_parent(parent, path=file_path)
    return collector


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Do not run other tests during the run: they may change the environment or the working directory."""
    run = item.config.stash.get(SESSION_RUN, None)
    if run is None:
        return
    from agentv.pytest_suites.items import CaseItem  # noqa: PLC0415 - imported already, because there is a suite

    if not isinstance(item, CaseItem):
        run.wait()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show why a case errored in the same way as why it failed: pytest itself shows a traceback for errors."""
    report = yield
    if call.excinfo is not None and call.when == "setup" and SESSION_RUN in item.config.stash:
        from agentv.pytest_suites.items import CaseItem  # noqa: PLC0415 - as above

        if isinstance(item, CaseItem) and report.outcome == "failed":
            report.longrepr = item.repr_failure(call.excinfo)
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    run = session.config.stash.get(SESSION_RUN, None)
    if run is not None:
        run.end(interrupted=exitstatus == pytest.ExitCode.INTERRUPTED)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    run, shared = config.stash.get(SESSION_RUN, None), config.stash.get(_SHARED_DIRECTORY, None)
    if run is None and shared is None:
        return
    from agentv.pytest_suites.session_run import about_the_run  # noqa: PLC0415 - most test runs have no suites

    lines = run.about() if run is not None else about_the_run(shared)
    if lines:
        terminalreporter.section("agentv", sep="-")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Called by pytest-xdist for each worker: the workers share one run."""
    config: pytest.Config = node.config
    node.workerinput[COLLECT] = _collects(config)
    if _SHARED_DIRECTORY not in config.stash:
        config.stash[_SHARED_DIRECTORY] = Path(tempfile.mkdtemp(prefix="agentv-pytest-"))
    node.workerinput[SHARED] = str(config.stash[_SHARED_DIRECTORY])


def pytest_unconfigure(config: pytest.Config) -> None:
    if (shared := config.stash.get(_SHARED_DIRECTORY, None)) is not None:
        shutil.rmtree(shared, ignore_errors=True)
