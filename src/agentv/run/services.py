"""Services of a run for its evaluators: the launcher for scripts, the judge cache and the judge targets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.plan.plan import Lane, PlannedSuite, RunPlan
from agentv.redact import Redactor
from agentv.suite.evaluator import JUDGED, Need
from agentv.targets.pool import RunsCommands, TargetPool
from agentv.text import plural

if TYPE_CHECKING:
    from agentv.judge.cache import JudgeCache
    from agentv.judge.recording import Recording
    from agentv.judge.replay import JudgeReplay
    from agentv.nodes.remote import RemotePlace
    from agentv.processes.launcher import Launcher
    from agentv.scripts import Runtime

OnNote = Callable[[str], None]

DESCRIPTORS_OF_RUN, DESCRIPTORS_OF_SCRIPT = 40, 12
"""File descriptors that a run needs besides scripts, and that a script needs with its pipes and its judge calls."""


NOTE_SHOWN = 1000
"""Maximum length of a note about a script."""


@asynccontextmanager
async def script_services(
    plan: RunPlan, *, own_process: bool, on_note: OnNote | None = None
) -> AsyncIterator[Launcher | None]:
    """A launcher if the run has scripts, else None. With judge access, agentv is protected from other processes."""
    if Need.SCRIPTS not in plan.needs:
        yield None
        return
    from agentv.processes.descriptors import raised_limit  # noqa: PLC0415 - only runs with scripts need it
    from agentv.processes.launcher import Launcher  # noqa: PLC0415
    from agentv.processes.protection import protect_runtime  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        if own_process:
            stack.enter_context(raised_limit())
        isolate = Need.JUDGE_ACCESS in plan.needs
        if isolate:
            stack.enter_context(protect_runtime())
        redactor = Redactor(plan.secrets.values)  # a note can quote the error of a check

        def masked_note(text: str) -> None:
            if on_note is not None:
                on_note(redactor.head(text, NOTE_SHOWN))

        yield await stack.enter_async_context(Launcher(adopt_orphans=own_process, isolate=isolate, on_note=masked_note))


@asynccontextmanager
async def node_services(
    plan: RunPlan, on_note: OnNote | None, *, own_process: bool
) -> AsyncIterator[RemotePlace | None]:
    """The nodes of the run, if it uses any and has something to run there, else None."""
    calls = plan.answers is None and plan.options.replay is None
    if plan.nodes is None or not (Need.SCRIPTS in plan.needs or (calls and plan.runs_commands_on_nodes)):
        yield None
        return
    from agentv.nodes.collector import rare_collections  # noqa: PLC0415 - most runs use no nodes
    from agentv.nodes.opening import open_nodes  # noqa: PLC0415

    nodes, folders = plan.nodes, plan.directories()
    async with AsyncExitStack() as stack:
        if own_process:
            stack.enter_context(rare_collections())
        opened = await open_nodes(nodes.on, nodes.settings, folders, plan.secrets, on_note, configs=plan.configs())
        place = await stack.enter_async_context(opened)
        if on_note is not None:
            jobs = plural(place.slots, "job")
            on_note(
                f"scripts and commands run on {plural(len(place.nodes), 'node')} of {plan.nodes.on}, {jobs} at a time"
            )
        yield place


def node_commands(nodes: RemotePlace, plan: RunPlan) -> RunsCommands:
    """Runs the commands of targets on the nodes."""
    from agentv.nodes.commands import NodeCommands  # noqa: PLC0415 - most runs use no nodes

    return NodeCommands(nodes, Redactor(plan.secrets.values))


def most_scripts(slot_count: int) -> int:
    """How many scripts may run at the same time: `slot_count`, or fewer if there are not enough file descriptors."""
    from agentv.processes.descriptors import limit  # noqa: PLC0415

    return max(1, min(slot_count, (limit() - DESCRIPTORS_OF_RUN) // DESCRIPTORS_OF_SCRIPT))


@asynccontextmanager
async def reply_cache(plan: RunPlan, cwd: Path, on_note: OnNote | None) -> AsyncIterator[JudgeCache | None]:
    """The cache if judge calls (`--cache`) or answers of targets (`cache: true`) are cached in this run, else None."""
    caches_judges = plan.options.cache and not plan.needs.isdisjoint(JUDGED)
    caches_answers = plan.answers is None and any(lane.spec is not None and lane.spec.cache for lane in plan.lanes)
    if plan.options.replay is not None or not (caches_judges or caches_answers):
        yield None
        return
    from agentv.judge.cache import JudgeCache  # noqa: PLC0415 - only runs with a cache need SQLite
    from agentv.judge.cache_store import CACHE, ReplyStore  # noqa: PLC0415

    store = ReplyStore(cwd / CACHE, redactor=Redactor(plan.secrets.values), on_note=on_note)
    async with JudgeCache(store) as cache:
        yield cache


def protection_gaps(needs: frozenset[Need]) -> list[str]:
    """Notes about what this machine cannot protect from scripts with judge access; empty if everything is protected."""
    if Need.JUDGE_ACCESS not in needs:
        return []
    from agentv.processes.protection import capabilities  # noqa: PLC0415 - only runs with judge access need it

    return [gap.note for gap in capabilities().gaps()]


@dataclass(slots=True)
class Services:
    """Creates the `Runtime` of each lane and suite once."""

    plan: RunPlan
    pool: TargetPool
    launcher: Launcher | None
    recording: Recording | None = None
    cache: JudgeCache | None = None
    script_slots: asyncio.Semaphore | None = None
    """Slots for scripts, shared by all lanes."""
    replay: JudgeReplay | None = None
    nodes: RemotePlace | None = None
    redactor: Redactor = field(init=False)
    _runtimes: dict[tuple[str, Path], Runtime] = field(default_factory=dict)
    """By target and suite."""

    def __post_init__(self) -> None:
        self.redactor = Redactor(self.plan.secrets.values)

    def runtime(self, lane: Lane, planned: PlannedSuite) -> Runtime | None:
        """The runtime for the evaluators of a suite in a lane; None if no evaluator needs one."""
        if not self.plan.needs:
            return None
        key = (lane.target, planned.suite.path)
        if key not in self._runtimes:
            self._runtimes[key] = self._new_runtime(lane, planned)
        return self._runtimes[key]

    def _new_runtime(self, lane: Lane, planned: PlannedSuite) -> Runtime:
        from agentv.judge.lending import Lender  # noqa: PLC0415 - only runs with scripts or judges need it
        from agentv.judge.recording import NOT_RECORDED  # noqa: PLC0415
        from agentv.scripts import Runtime  # noqa: PLC0415

        lender = Lender(
            self.plan.judge_choice(lane, planned),
            planned.config,
            self.pool,
            redactor=self.redactor,
            recording=self.recording or NOT_RECORDED,
            budget=self.pool.budget if self.replay is None else None,  # recorded replies cost nothing
            cache=self.cache if self.plan.options.cache else None,
            replay=self.replay,
        )
        return Runtime(
            launcher=self.launcher,
            lender=lender,
            environment=planned.environment,
            secrets=self.plan.secrets,
            redactor=self.redactor,
            script_slots=self.script_slots,
            nodes=self.nodes,
            interpreters=self.plan.prepared,
        )
