"""The `cli` provider: runs a command as the target."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from agentv.errors import PlaceLostError, ProviderError, ProviderTimeoutError
from agentv.http.client import Client, HttpError
from agentv.http.urls import without_secrets
from agentv.messages import Message
from agentv.processes.causes import cause_of
from agentv.processes.job import Job, file_mark
from agentv.processes.run import STDERR_KEEP, STDOUT_CAP, ProcessOutcome, ProcessStartError
from agentv.targets.commands import PathThere, RunJob, run_job_here
from agentv.targets.provider import Provider, Reply, Request, TargetScope, TargetSettings
from agentv.targets.providers.cli_output import parse_batch, parse_output
from agentv.targets.providers.cli_settings import (
    CliSettings,
    CommandCheck,
    HttpCheck,
    command_template,
    with_own_program,
    working_directory,
)
from agentv.targets.providers.cli_template import CommandTemplate
from agentv.targets.structured import ShapeError

LONGEST_STRING = 32 * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 131_072
"""Linux's limit for one argument or environment variable, in bytes (MAX_ARG_STRLEN)."""
FILE_NAMES = {"PROMPT_FILE": "prompt.txt", "OUTPUT_FILE": "output.json"}
BATCH_FILE_NAMES = {"PROMPT_FILE": "cases.jsonl", "OUTPUT_FILE": "output.jsonl"}
SHOWN = 2000
"""Maximum characters of a failed command's output in the error."""

_log = logging.getLogger(__name__)


class CliProvider(Provider):
    """Runs the command once per call, or once per batch."""

    Settings: ClassVar[type[TargetSettings]] = CliSettings
    keeps_deadline = True
    runs_commands = True
    takes_batches = True

    def __init__(self, settings: CliSettings, scope: TargetScope) -> None:
        self._settings, self._scope = settings, scope
        self._template = command_template(settings)
        self._run_job: RunJob = scope.run_job or run_job_here
        self._check: asyncio.Task[str | None] | None = None

    async def price_gap(self) -> str | None:
        return "their cost is unknown, unless the command reports `cost_usd`"

    async def invoke(self, request: Request) -> Reply:
        await self._healthy(request.directory)
        outcome = await self._run(self._template, request, self._settings.cwd, self._settings.timeout_seconds)
        self._raise_for(outcome)
        try:
            reply = await parse_output(self._output(outcome))
        except ShapeError as error:
            raise self._failed(
                f"the output of the command is invalid: {error}",
                next_step="Print plain UTF-8 text, or one JSON object with `text` or `output_messages`.",
            ) from error
        return reply if outcome.execution is None else replace(reply, execution=outcome.execution)

    async def invoke_batch(self, requests: Sequence[Request]) -> Mapping[str, Reply]:
        """Run the command once for all cases. It gets JSON Lines in place of the prompt and writes JSON Lines."""
        first = requests[0]
        await self._healthy(first.directory)
        whole = replace(
            first,
            messages=(Message("user", ""),),
            eval_id="batch",
            naming_files=None,
            guidelines="",
            files=tuple(dict.fromkeys(path for request in requests for path in request.files)),
        )
        outcome = await self._run(
            self._template, whole, self._settings.cwd, self._settings.timeout_seconds, batch=requests
        )
        self._raise_for(outcome)
        try:
            replies = await parse_batch(self._output(outcome))
        except ShapeError as error:
            raise self._failed(
                f"the output of the batch is invalid: {error}",
                next_step="Write one JSON object per line, with `id` and `text` or `output_messages`.",
            ) from error
        share = round(outcome.duration_ms / len(requests), 3)
        return {
            name: replace(
                reply,
                execution=outcome.execution,
                duration_ms=share if reply.duration_ms is None else reply.duration_ms,
            )
            for name, reply in replies.items()
        }

    async def aclose(self) -> None:
        if self._check is not None and not self._check.done():
            self._check.cancel()
            await asyncio.wait({self._check})

    async def _run(
        self,
        template: CommandTemplate,
        request: Request,
        cwd: str | None,
        timeout: float | None,
        *,
        batch: Sequence[Request] | None = None,
    ) -> ProcessOutcome:
        def job(path: PathThere) -> Job:
            return self._job(template, request, cwd, timeout, batch=batch, path=path)

        try:
            return await self._run_job(job, self._scope.environment)
        except ProcessStartError as error:
            raise self._failed(error.message, next_step=error.next_step) from error
        except PlaceLostError as error:
            raise self._failed(
                f"the command was lost with its node: {error.message}", next_step=error.next_step
            ) from error

    def _job(
        self,
        template: CommandTemplate,
        request: Request,
        cwd: str | None,
        timeout: float | None,
        *,
        batch: Sequence[Request] | None,
        path: PathThere,
    ) -> Job:
        """The command for one call, or for a batch of calls."""
        folder = self._folder(cwd, request)
        files = [Path(path(str(file))) for file in request.files]
        prompt = _prompt(request, template)
        if batch is not None:
            prompt = "".join(_batch_line(each, template, path) for each in batch)
        names = FILE_NAMES if batch is None else BATCH_FILE_NAMES
        made = {name: names[name] for name in names if name in template.names}
        values = {
            "PROMPT": "" if batch is not None else prompt,
            "EVAL_ID": request.eval_id,
            "ATTEMPT": str(request.attempt),
            "GUIDELINES": request.guidelines,
            **{name: file_mark(name) for name in names},
        }
        argv = with_own_program(template.argv(values, files), folder, self._scope.directory)
        variables = template.variables(values, files)
        self._refuse_oversize(argv, variables)
        by_stdin = template.names.isdisjoint(("PROMPT", "PROMPT_FILE"))
        return Job(
            argv=[path(word) for word in argv],
            cwd=path(str(folder)),
            env={**self._settings.env, **variables},
            stdin=_encoded(prompt) if by_stdin else None,
            inputs={"PROMPT_FILE": _encoded(prompt)} if "PROMPT_FILE" in made else {},
            outputs=["OUTPUT_FILE"] if "OUTPUT_FILE" in made else [],
            file_names=made,
            keep_files=self._settings.keep_temp_files,
            timeout=timeout,
            scrub=True,
            on_start=self._log_command if self._settings.verbose else None,
            label=request.eval_id,
        )

    def _log_command(self, argv: Sequence[str]) -> None:
        _log.info("target '%s': %s", self._scope.name, self._scope.redactor.text(shlex.join(argv)))

    def _folder(self, cwd: str | None, request: Request) -> Path:
        """The working directory: that of the configuration file, or `cwd` relative to it.

        AgentV's templates in AgentV's own files were written for the suite's directory, and start there.
        """
        home = self._scope.directory
        if self._scope.agentv_file and self._settings.command_template is not None and request.directory is not None:
            home = request.directory
        return working_directory(home, cwd)

    def _refuse_oversize(self, argv: Sequence[str], variables: Mapping[str, str]) -> None:
        """Fail if a value is longer than Linux's limit. The error of the system would not say so."""
        strings = [*argv, *(f"{name}={value}" for name, value in variables.items())]
        longest = max(len(text.encode("utf-8", "surrogatepass")) for text in strings)
        if sys.platform == "linux" and longest >= LONGEST_STRING:
            raise self._failed(
                f"a value is {longest / 1024:,.0f} KiB long, but one argument or environment variable can hold at most "
                f"{LONGEST_STRING // 1024} KiB",
                next_step="Use {PROMPT_FILE}, or remove {PROMPT} from the command: it then gets the prompt on stdin.",
            )

    def _raise_for(self, outcome: ProcessOutcome) -> None:
        if outcome.timed_out:
            raise ProviderTimeoutError(
                f"target '{self._scope.name}': the command did not finish within "
                f"{self._settings.timeout_seconds:g} s and was killed{self._last_words(outcome)}",
                next_step="Raise `timeout_seconds` of the target, or `--timeout`. Timeouts are not retried.",
            )
        if outcome.stdout_overflow:
            raise self._failed(
                f"the command wrote more than {STDOUT_CAP // 2**20} MiB to stdout and was killed",
                next_step="Print only the answer; write logs to a file.",
            )
        if outcome.returncode != 0:
            cause = cause_of(self._end_of(outcome.stderr, outcome))
            ended = f"{outcome.ending}: {cause}" if cause else outcome.ending
            raise self._failed(f"the command {ended}{self._last_words(outcome)}")

    def _last_words(self, outcome: ProcessOutcome) -> str:
        for name, output in (("stderr", outcome.stderr), ("stdout", outcome.stdout)):
            if text := self._end_of(output, outcome):
                return f"; the end of its {name}:\n{text}"
        return "; it wrote nothing"

    def _end_of(self, output: bytes, outcome: ProcessOutcome) -> str:
        text = output[-STDERR_KEEP:].decode("utf-8", "backslashreplace").strip()
        cut = len(output) > STDERR_KEEP or outcome.stderr_cut
        return self._scope.redactor.tail(text, SHOWN, cut_start=cut) if text else ""

    def _output(self, outcome: ProcessOutcome) -> bytes:
        if "OUTPUT_FILE" not in self._template.names:
            return outcome.stdout
        if (content := outcome.files.get("OUTPUT_FILE")) is not None:
            return content
        if (problem := outcome.file_problems.get("OUTPUT_FILE")) is not None:
            raise self._failed(f"cannot read {{OUTPUT_FILE}}: it {self._scope.redactor.head(problem, SHOWN)}")
        raise self._failed(
            f"the command {outcome.ending} but did not write {{OUTPUT_FILE}}{self._last_words(outcome)}",
            next_step="Write the answer to that path, or print it and remove {OUTPUT_FILE} from the command.",
        )

    def _failed(self, what: str, *, next_step: str | None = None) -> ProviderError:
        return ProviderError(f"target '{self._scope.name}': {what}", next_step=next_step)

    # -- healthcheck

    async def _healthy(self, directory: Path | None) -> None:
        if self._settings.healthcheck is None:
            return
        if self._check is None:
            self._check = asyncio.create_task(self._problem(self._settings.healthcheck, directory))
        problem = await asyncio.shield(self._check)
        if problem is not None:
            raise self._failed(
                f"its healthcheck failed: {problem}",
                next_step="Start the services that the target needs, then run again.",
            )

    async def _problem(self, check: HttpCheck | CommandCheck, directory: Path | None) -> str | None:
        try:
            if isinstance(check, HttpCheck):
                problem = await _http_problem(check)
                return None if problem is None else self._scope.redactor.head(problem, SHOWN)
            template = command_template(check)
            request = Request("", eval_id="healthcheck", directory=directory)
            outcome = await self._run(template, request, check.cwd, check.timeout_seconds)
        except ProviderError as error:
            return error.message
        except OSError as error:
            return str(error)
        if outcome.timed_out:
            return f"the command did not finish within {check.timeout_seconds:g} s"
        return None if outcome.returncode == 0 else f"the command {outcome.ending}{self._last_words(outcome)}"


async def _http_problem(check: HttpCheck) -> str | None:
    client, shown = Client(cap=0), without_secrets(check.url)
    try:
        async with asyncio.timeout(check.timeout_seconds):
            status = await client.status_of(check.url)
    except TimeoutError:
        return f"{shown} did not answer within {check.timeout_seconds:g} s"
    except (HttpError, ValueError) as error:
        return f"the request to {shown} failed: {error}"
    finally:
        await client.aclose()
    return None if 200 <= status < 300 else f"{shown} returned HTTP {status}"


def _prompt(request: Request, template: CommandTemplate) -> str:
    if "FILES" in template.names and request.naming_files is not None:
        # The command reads the files itself. With their content, an argument might exceed the limit of the system.
        request = replace(request, messages=request.naming_files)
    instructions = request.system_prompt if "GUIDELINES" in template.names else request.instructions
    return f"{instructions}\n\n{request.question}" if instructions else request.question


def _batch_line(request: Request, template: CommandTemplate, path: PathThere) -> str:
    line = {
        "id": request.eval_id,
        "attempt": request.attempt,
        "prompt": _prompt(request, template),
        "files": [path(str(file)) for file in request.files],
    }
    return json.dumps(line, ensure_ascii=False) + "\n"


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ProviderError(
            f"the prompt contains a lone surrogate (position {error.start}) and cannot be sent"
        ) from None
