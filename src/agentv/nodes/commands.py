"""Runs the commands of `cli` targets on nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from agentv.errors import PlaceLostError, ProviderError, TargetUnavailableError
from agentv.nodes.remote import RemotePlace
from agentv.processes.job import Job
from agentv.processes.run import ProcessOutcome
from agentv.redact import Redactor
from agentv.targets.commands import PathThere, RunJob
from agentv.targets.provider import TargetSettings

HOW = "Add `send_secrets: true` to the target, which needs nodes over TLS, or `on: driver`."


class NodeCommands:
    """Runs commands on the nodes of a run. Keys are sent only if the entry of their target says so, and over TLS."""

    def __init__(self, place: RemotePlace, redactor: Redactor) -> None:
        self._place, self._redactor = place, redactor

    def runner(self, target: str, settings: TargetSettings, secret_values: Iterable[str], own: Iterable[str]) -> RunJob:
        """Runs the commands of one target. `own` are the names of the variables that its entry reads.

        Raises TargetUnavailableError if it has keys that must not be sent.
        """
        if settings.sends_secrets and not self._place.channel.encrypted:
            raise TargetUnavailableError(
                target, "`send_secrets: true` needs an encrypted connection to the nodes; use `--on tls://...`"
            )
        if any(secret_values) and not settings.sends_secrets:
            raise TargetUnavailableError(
                target, f"it reads keys, which are not sent to the nodes that would run its command. {HOW}"
            )
        names = tuple(own) if settings.sends_secrets else ()

        async def run_job(job: Callable[[PathThere], Job], environment: Mapping[str, str]) -> ProcessOutcome:
            own_values = {name: environment[name] for name in names if name in environment}
            return await self._run(target, job, own_values, may_send=settings.sends_secrets)

        return run_job

    async def _run(
        self, target: str, job: Callable[[PathThere], Job], own: Mapping[str, str], *, may_send: bool
    ) -> ProcessOutcome:
        lost: list[PlaceLostError] = []
        while True:
            async with self._place.slot() as slot:
                wanted = job(slot.path)
                wanted = replace(wanted, env={**own, **wanted.env}, may_hold_secrets=True)
                if not may_send and self._holds_secret(wanted):
                    raise ProviderError(
                        f"target '{target}': the command contains a key, which is not sent to nodes", next_step=HOW
                    )
                try:
                    outcome = await slot.run(wanted)
                except PlaceLostError as error:
                    lost.append(error)
                    if len(lost) >= self._place.attempts:
                        raise
                    continue
            execution: dict[str, object] = {"node": slot.node, "tries": len(lost) + 1}
            if lost:
                execution["lost_on"] = [error.node for error in lost]
            return replace(outcome, execution=execution)

    def _holds_secret(self, job: Job) -> bool:
        """Whether a part of the job contains a secret value."""
        if not self._redactor.active:
            return False
        content = [job.stdin or b"", *job.inputs.values()]
        texts = [*job.argv, *job.env.values(), *(part.decode("utf-8", "replace") for part in content)]
        return any(self._redactor.finds(text) for text in texts)
