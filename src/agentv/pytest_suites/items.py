"""A suite as a collector of pytest, and a case with a target as a test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentv.errors import AgentVError, InvalidFilesError
from agentv.plan.plan import RunPlan
from agentv.pytest_suites.explain import Explained, explain_error, explain_failure
from agentv.pytest_suites.rows_of_cases import attempts_of
from agentv.pytest_suites.session_run import SelectedCase
from agentv.pytest_suites.stash import SESSION_RUN
from agentv.report.problems import render_problems
from agentv.report.terminal import clean
from agentv.results import CaseKey, Verdict, variant_of


class CaseFailedError(Exception):
    """The answer to a case did not pass."""

    def __init__(self, explained: Explained) -> None:
        super().__init__(explained.text)
        self.explained = explained


class CaseErroredError(CaseFailedError):
    """A case could not be judged."""


class SuiteFile(pytest.File):
    """A suite. Its tests are its cases, once per target."""

    def collect(self) -> Iterator[CaseItem]:
        try:
            run = self.config.stash[SESSION_RUN]
            plan = run.plan([self.path])
        except InvalidFilesError as error:
            step = f"\n{error.next_step}" if error.next_step else ""
            raise self.CollectError(render_problems(error.problems, color=False) + step) from None
        except AgentVError as error:
            raise self.CollectError(f"{self.path}: {error}") from None
        suite = plan.suites[0].suite
        targets = _targets_by_case(plan)
        several = len(plan.lanes) > 1
        for (_, position, line), case_id in zip(plan.case_lines(), suite.variant_ids(), strict=True):
            case: dict[str, Any] = json.loads(line)
            prompt = case.get("prompt")
            for target in targets[case_id]:
                variant = variant_of(target, prompt)
                run.variants.add(variant)
                label = variant if several else prompt or ""
                name = clean(case_id) + (f"[{clean(label)}]" if label else "")
                item: CaseItem = CaseItem.from_parent(self, name=name, key=CaseKey(suite.name, case_id, variant))
                item.line = case.get("line") or position + 1
                item.extra_keyword_matches.update(case.get("tags") or ())
                yield item


def _targets_by_case(plan: RunPlan) -> dict[str, list[str]]:
    targets: dict[str, list[str]] = {}
    for lane in plan.lanes:
        for _, ids in lane.work:
            for case_id in ids:
                targets.setdefault(case_id, []).append(lane.target)
    return targets


class CaseItem(pytest.Item):
    """A case with one target. A case that errored is an error of the test, not a failure."""

    line = 1

    def __init__(self, *, key: CaseKey, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.key = key

    def setup(self) -> None:
        """Wait for the results of the case."""
        run = self.config.stash[SESSION_RUN]
        self._rows = run.rows(self.key, self._selected)
        self._directory = run.directory
        if not self._rows:
            text = f"{self.name} was not run: the run was stopped, or it ended early."
            raise CaseErroredError(Explained(text, text))
        attempts = attempts_of(self._rows)
        self.user_properties.append(("target", self.key.target))
        if attempts.verdict is None:
            raise CaseErroredError(explain_error(self._rows, self._directory))
        self.user_properties += [("score", attempts.score), ("verdict", attempts.verdict.value)]
        self._verdict = attempts.verdict

    def runtest(self) -> None:
        if self._verdict is not Verdict.PASS:
            raise CaseFailedError(explain_failure(self._rows, self._directory))

    def _selected(self) -> list[SelectedCase]:
        cases = (item for item in self.session.items if isinstance(item, CaseItem))
        return [SelectedCase(case.path, case.key) for case in cases if case.get_closest_marker("skip") is None]

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        error = excinfo.value
        if not isinstance(error, CaseFailedError | AgentVError):
            return super().repr_failure(excinfo, style=style)
        shown = excinfo.getrepr(style="value")
        if shown.reprcrash is not None:  # for the line in the summary, and for reports
            shown.reprcrash.path, shown.reprcrash.lineno = str(self.path), self.line
            message = error.explained.line if isinstance(error, CaseFailedError) else str(error).partition("\n")[0]
            shown.reprcrash.message = message
        return shown

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line - 1, self.name
