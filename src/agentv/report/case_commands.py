"""Commands to continue with after looking at a case."""

from __future__ import annotations

from collections.abc import Iterator
from glob import escape
from pathlib import Path
from shlex import quote

from agentv.record.reading import RunReader
from agentv.results import CaseResult
from agentv.text import short_path


class CaseCommands:
    """The commands for cases of one run. Files are looked for once: a series of cases is fast."""

    def __init__(self, reader: RunReader, *, several_targets: bool) -> None:
        self._reader = reader
        self._several_targets = several_targets
        self._suites: dict[str, str | None] = {}
        self._run = quote(reader.directory.name)
        self._show = reader.directory.show_command

    def of(self, row: CaseResult) -> Iterator[tuple[str, str]]:
        """Commands that run or judge a case again, and what they do. None if its suite is not there any more."""
        if row.suite not in self._suites:
            self._suites[row.suite] = self._suite(row.suite)
        suite = self._suites[row.suite]
        if suite is None:
            return
        options = self._reader.manifest.get("options")
        config = options.get("config") if isinstance(options, dict) else None
        again = f"agentv eval {quote(suite)} --case {quote(escape(row.eval_id))}"
        again += f" --config {quote(config)}" if isinstance(config, str) else ""
        again += f" --target {quote(row.target)}" if self._several_targets else ""
        yield again, "run it again"
        if row.candidate_answer or row.output_messages:
            yield f"{again} --outputs {self._run}", "judge this answer again"

    def show(self, row: CaseResult) -> tuple[str, str]:
        """The command that prints the row, and what it does."""
        target = f" --target {quote(row.variant)}" if self._several_targets else ""
        attempt = f" --attempt {row.attempt}" if row.trials is not None or row.attempt > 1 else ""
        name = quote(escape(f"{row.suite}/{row.eval_id}"))
        return (
            f"{self._show}{target}{attempt} {'-- ' if name.startswith('-') else ''}{name}",
            "print it in the terminal",
        )

    def _suite(self, name: str) -> str | None:
        """The file of a suite, relative to the working directory."""
        suites = self._reader.manifest.get("suites")
        for suite in suites if isinstance(suites, list) else ():
            if isinstance(suite, dict) and suite.get("name") == name and isinstance(suite.get("path"), str):
                path = Path(suite["path"])
                return str(short_path(path, Path.cwd())) if path.is_file() else None
        return None
