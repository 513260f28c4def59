"""Scripts on nodes, compared with this machine: executions, CPU time of the driver, and up to 1,000 simulated nodes."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from agentv.evaluators.base import Candidate, EvaluationContext
from agentv.evaluators.code_judge import CodeJudge
from agentv.judge.choice import JudgeChoice
from agentv.judge.lending import Lender
from agentv.judge.session import JudgeSession
from agentv.judge.targets import JudgeTargets
from agentv.messages import Message
from agentv.nodes.channel import Change, Joined
from agentv.nodes.collector import rare_collections
from agentv.nodes.engines import EngineAddress, open_channel
from agentv.nodes.engines.local import LocalEngine
from agentv.nodes.hello import PACKAGE
from agentv.nodes.node import Node, NodeVariables
from agentv.nodes.remote import RemotePlace
from agentv.places.local import LocalPlace
from agentv.places.place import PlaceLostError
from agentv.processes.job import PYTHON, Job
from agentv.processes.launcher import Launcher
from agentv.processes.protection import protect_runtime
from agentv.processes.run import ProcessOutcome
from agentv.scripts import Runtime
from agentv.suite.suite import EvalCase
from agentv.targets.environment import Environment
from agentv.targets.nodes_section import NodesModel
from agentv.targets.provider import Provider, Reply, Request
from agentv.wire.judge import parse_invoke
from benchmarks.measure import median
from benchmarks.options import Options
from benchmarks.report import Figure, Report

NAME = "nodes"
PER_NODE = 8
"""Cases in flight on each simulated node."""
IN_FLIGHT = (1, 32, 100)
SETTINGS = NodesModel(files="shared", slots=64)
CALLS, MANY_CALLS = 5, 45
SCRIPT = """\
from agentv_eval import code_judge

@code_judge
def judge(input, judge):
    for _ in range({calls}):
        judge.invoke(question="relevant?")
    return 1.0
"""


class _Yes(Provider):
    async def invoke(self, request: Request) -> Reply:
        del request
        return Reply.of_text("yes")


@dataclass(frozen=True, slots=True)
class Rate:
    """Some executions."""

    count: int
    wall: float
    cpu: float
    """CPU time of this process only."""

    @property
    def per_second(self) -> float:
        return self.count / self.wall

    @property
    def cpu_ms(self) -> float:
        return 1000 * self.cpu / self.count


def measure(options: Options) -> Report:
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary, protect_runtime():
        for calls in (CALLS, MANY_CALLS):
            (Path(temporary) / f"asks{calls}.py").write_text(SCRIPT.format(calls=calls))
        rates, latency, lost = asyncio.run(_places(Path(temporary), options))
    simulated = {
        nodes: [asyncio.run(_simulated(nodes, PER_NODE, options.pick(4000, 20))) for _ in range(options.pick(3, 1))]
        for nodes in options.pick((10, 100, 1000), (2, 4))
    }
    alone = [asyncio.run(_simulated(max(simulated), 1, options.pick(4000, 20))) for _ in range(options.pick(3, 1))]
    figures = [
        figure
        for place in rates
        for in_flight in IN_FLIGHT
        for figure in _figures(place, in_flight, [turn[in_flight] for turn in rates[place]])
    ]
    local = {in_flight: median(turn[in_flight].cpu_ms for turn in rates["this machine"]) for in_flight in IN_FLIGHT}
    figures += [
        Figure(f"{place} / this machine, {in_flight} in flight, CPU of the driver",
               median(turn[in_flight].cpu_ms for turn in rates[place]) / local[in_flight],
               goal=1.5 if in_flight == 100 else None)
        for place in list(rates)[1:] for in_flight in IN_FLIGHT
    ]  # fmt: skip
    figures += [Figure(f"{place}: added time of a judge call", 1000 * seconds, "ms") for place, seconds in latency]
    figures.append(Figure("local:2: a job continues elsewhere after its node was killed", 1000 * lost, "ms"))
    cpu = {nodes: median(rate.cpu_ms for rate in turns) for nodes, turns in simulated.items()}
    figures += [Figure(f"{nodes:,} simulated nodes, CPU of driver and nodes per case", cpu[nodes], "ms")
                for nodes in cpu]  # fmt: skip
    fewest, most = min(cpu), max(cpu)
    figures.append(Figure(f"{most:,} / {fewest:,} simulated nodes, CPU per case", cpu[most] / cpu[fewest], goal=1.3))
    one = median(rate.cpu_ms for rate in alone)
    figures.append(Figure(f"{most:,} simulated nodes with one case each, CPU of driver and nodes per case", one, "ms"))
    return Report(
        NAME,
        figures,
        notes=[
            f"a warm script on the SDK with {CALLS} judge calls in sequence, a judge of 0 ms; all on one machine",
            f"simulated: {PER_NODE} cases in flight on each node, with {CALLS} calls each; nodes without processes, in "
            "the same process as the driver",
        ],
    )


def _figures(place: str, in_flight: int, turns: list[Rate]) -> list[Figure]:
    name = f"{place}, {in_flight} in flight"
    return [
        Figure(f"{name}: executions", median(rate.per_second for rate in turns), "/s"),
        Figure(f"{name}: CPU of the driver per execution", median(rate.cpu_ms for rate in turns), "ms"),
    ]


async def _places(
    directory: Path, options: Options
) -> tuple[dict[str, list[dict[int, Rate]]], list[tuple[str, float]], float]:
    """Rates by place and number in flight; what a judge call takes longer on nodes; seconds until a job continues."""
    common: dict[str, Any] = {"type": "code_judge", "judge": {"max_calls": 100}, "warm": True, "name": "asks"}
    evaluators = {
        calls: CodeJudge.model_validate({**common, "script": ["python", f"asks{calls}.py"]})
        for calls in (CALLS, MANY_CALLS)
    }
    lender = Lender(JudgeChoice(main="judge"), live={"judge": _Yes()})
    case = EvalCase("case", "question", (Message("user", "question"),))
    async with contextlib.AsyncExitStack() as stack:
        launcher = await stack.enter_async_context(Launcher())
        local = Runtime(launcher, lender, environment=Environment(dict(os.environ)))
        runtimes = {"this machine": local}
        addresses = ["local:2"]
        if importlib.util.find_spec("distributed") is not None:
            addresses.append(await stack.enter_async_context(_dask(directory)))
        for address in addresses:
            place = RemotePlace(open_channel(EngineAddress(address, SETTINGS)), SETTINGS, look=True)
            await stack.enter_async_context(place)
            name = "Dask" if address.startswith("tcp:") else address
            runtimes[name] = Runtime(launcher, lender, environment=Environment(dict(os.environ)), nodes=place)

        async def execute(name: str, calls: int) -> None:
            context = EvaluationContext(case, Candidate("answer"), directory=directory, runtime=runtimes[name])
            score = await evaluators[calls].evaluate(context)
            assert score.score == 1.0, score
            assert not score.warnings, score.warnings

        rates: dict[str, list[dict[int, Rate]]] = {name: [] for name in runtimes}
        for name in runtimes:  # starts the processes that are kept
            await asyncio.gather(*(execute(name, calls) for calls in (CALLS, MANY_CALLS) for _ in range(8)))
        for turn in range(options.pick(3, 1)):
            for name in list(runtimes)[:: 1 if turn % 2 == 0 else -1]:
                options.say(f"{name}, {turn + 1}")
                counts = {1: options.pick(30, 2), 32: options.pick(200, 4), 100: options.pick(300, 4)}
                rates[name].append({n: await _many(counts[n], n, partial(execute, name, CALLS)) for n in IN_FLIGHT})
        taken: dict[str, float] = {}
        for name in runtimes:
            count = options.pick(20, 1)
            few, many = [await _many(count, 1, partial(execute, name, c)) for c in (CALLS, MANY_CALLS)]
            taken[name] = (many.wall - few.wall) / count / (MANY_CALLS - CALLS)
        latency = [(name, seconds - taken["this machine"]) for name, seconds in taken.items() if name != "this machine"]
        return rates, latency, median([await _killed() for _ in range(options.pick(3, 1))])


async def _many(count: int, in_flight: int, execute: Callable[[], Any]) -> Rate:
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await execute()

    cpu, started = time.process_time(), time.perf_counter()
    await asyncio.gather(*(work() for _ in range(min(in_flight, count))))
    return Rate(count, time.perf_counter() - started, time.process_time() - cpu)


async def _killed() -> float:
    """Kill a node with `kill -9`; seconds until its job has started on the other one."""
    engine = LocalEngine(EngineAddress("local:2", SETTINGS))
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as temporary:
        started = Path(temporary) / "started"
        code = f"import signal; open({str(started)!r}, 'w').close(); signal.pause()"
        async with RemotePlace(engine, SETTINGS, look=True) as place:

            async def run() -> None:
                while True:
                    with contextlib.suppress(PlaceLostError):
                        async with place.slot() as slot:
                            nodes.append(slot.node)
                            await slot.run(Job([PYTHON, "-c", code], temporary))

            nodes: list[str | None] = []
            task = asyncio.create_task(run())
            await _exists(started)
            started.unlink()
            pid = engine.processes[nodes[0] or ""].pid
            assert pid is not None
            at = time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            await _exists(started)
            seconds = time.perf_counter() - at
            task.cancel()
            await asyncio.wait({task})
    return seconds


async def _exists(path: Path) -> None:
    async with asyncio.timeout(60):
        while not path.exists():  # noqa: ASYNC110, ASYNC240 - another process creates it
            await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def _dask(directory: Path) -> AsyncIterator[str]:
    """The address of a Dask cluster with two workers on loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    dask = [sys.executable, "-m", "distributed.cli."]
    commands = [[*dask[:2], f"{dask[2]}dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]]
    commands += [
        [*dask[:2], f"{dask[2]}dask_worker", address, "--host", "127.0.0.1", "--no-dashboard", "--no-nanny"]
    ] * 2
    processes = []
    try:
        for command in commands:
            with (directory / "dask.log").open("ab") as log:
                processes.append(await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, cwd=directory))
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.1)
            while (directory / "dask.log").read_text().count("Registered to") < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        yield address
    finally:
        for process in processes[::-1]:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


# -- many nodes, without processes


class _Stub(LocalPlace):
    def __init__(self) -> None:
        pass

    async def run(self, job: Job, *, judge: Any = None, **_: Any) -> ProcessOutcome:
        del job
        for _number in range(CALLS):
            await judge.answer(parse_invoke(b'{"question": "relevant?"}'))
        judge.close()
        return ProcessOutcome(0, None, b'{"score": 1.0}', b"", duration_ms=1.0)


class _StubNode(Node):
    async def open_place(self, stack: contextlib.AsyncExitStack, variables: NodeVariables) -> LocalPlace:
        del stack, variables
        return _Stub()


class _Memory:
    """Nodes in this process."""

    encrypted = True

    def __init__(self, nodes: int) -> None:
        self._nodes = {f"node-{number}": _StubNode(Path("/nonexistent")) for number in range(nodes)}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(node.aclose() for node in self._nodes.values()))

    async def changes(self) -> AsyncIterator[Change]:
        for name in self._nodes:
            yield Joined(name)
        await asyncio.get_running_loop().create_future()

    async def exchange(self, node: str, frame: bytes, hold: float) -> bytes:
        return await self._nodes[node].handle(frame, hold)


async def _simulated(nodes: int, per_node: int, cases: int) -> Rate:
    in_flight = nodes * per_node
    cases = max(cases, 2 * in_flight)
    settings = SETTINGS.model_copy(update={"slots": per_node})
    with rare_collections():
        return await _executed(nodes, in_flight, cases, settings)


async def _executed(nodes: int, in_flight: int, cases: int, settings: NodesModel) -> Rate:
    judge = _Yes()
    async with RemotePlace(cast("Any", _Memory(nodes)), settings, look=True) as place:

        async def execute() -> None:
            session = JudgeSession(JudgeTargets("judge", {"judge": judge}), evaluator="asks")
            async with place.slot() as slot:
                await slot.run(Job(["stub"], PACKAGE, stdin=b"{}", timeout=60.0), judge=session)
            assert session.ledger.call_count == CALLS

        await _many(cases // 4, in_flight, execute)
        return await _many(cases, in_flight, execute)
