"""A new run of `agentv eval`: its options, which cases it is restricted to, and where it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from agentv.plan.build import build_plan
from agentv.plan.chosen import ChosenCases
from agentv.plan.discovery import suite_paths
from agentv.plan.options import RunOptions
from agentv.plan.plan import RunPlan
from agentv.record.catalog import Catalog
from agentv.record.labels import RunLabels
from agentv.record.run_dir import RUNS, new_run_id
from agentv.recorded import RecordedRun, outputs_file, replayed_run, start_run


class Ended(NamedTuple):
    """The end of a run: its exit code, and whether the user stopped it."""

    code: int
    stopped: bool


@dataclass(frozen=True, slots=True)
class NewRun:
    """What the user asked for. With `--watch`, several runs are started from it."""

    options: RunOptions
    cwd: Path
    """The directory that the paths in the options are relative to."""
    labels: RunLabels
    run_dir: str | None = None
    chosen: ChosenCases | None = None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, arguments: dict[str, Any]) -> NewRun:
        """The run that the arguments of the command describe."""
        cwd = Path.cwd()
        if arguments["outputs"]:
            arguments["outputs"] = outputs_file(arguments["outputs"], cwd)
        if arguments["replay"]:
            arguments["replay"] = replayed_run(arguments["replay"], cwd)
        options = RunOptions.from_dict({**arguments, "paths": suite_paths(arguments["paths"], cwd, command="eval")})
        labels = RunLabels(arguments["name"], arguments["experiment"], arguments["note"])
        return cls(options, cwd, labels, arguments["run_dir"])

    def plan(self, *, watched: bool = False) -> RunPlan:
        return build_plan(self.options, self.cwd, record_cases=True, watched=watched, chosen=self.chosen)

    def start(self, plan: RunPlan, say: Callable[[str], None]) -> RecordedRun:
        """Create the run directory. `say` reports what takes long before that."""
        run_id, here = new_run_id(), Path.cwd()
        run = start_run(plan, run_id, here / (self.run_dir or RUNS / run_id), self.cwd, self.labels, say=say)
        run.notes += self.notes
        name = self.labels.name
        if name is not None and run.directory.path.parent != (here / RUNS).absolute():
            run.notes.append(f"the run is not in {RUNS}: find it by its directory, not by its name")
        elif name is not None and (older := Catalog(here).other_named(name, run.directory.path)) is not None:
            run.notes.append(f"'{name}' now refers to this run. It was also the name of run {older.id}")
        return run
