"""Run one judge script: the payload on its stdin, the score from its stdout, and a judge proxy if it has judge access.

`run_script` is used by `code_judge`, by the aggregators of a composite, by `agentv judge run` and by `agentv.testing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agentv import workers
from agentv.command import with_own_python
from agentv.errors import EvaluatorError
from agentv.json_sizes import is_quick
from agentv.judge.choice import JudgeChoice
from agentv.judge.lending import Lender
from agentv.places.local import LocalPlace
from agentv.places.place import Place, PlaceLostError, Slot, Where
from agentv.processes.job import Job
from agentv.processes.programs import script_index
from agentv.processes.run import STDOUT_CAP, ProcessOutcome, ProcessStartError
from agentv.redact import NO_SECRETS, Redactor
from agentv.results import Score
from agentv.suite.files import repository_root, upward
from agentv.targets.environment import Environment
from agentv.targets.secrets import Secrets
from agentv.wire.output import (
    EXAMPLE,
    OutputError,
    explanation,
    line_kind,
    parse_long_output,
    parse_output,
    score_of_exit,
)
from agentv.wire.payload import encode_payload, without_absent_values

if TYPE_CHECKING:
    from agentv.interpreters.interpreter import Interpreter, PreparedInterpreter
    from agentv.judge.call_error import JudgeCallError
    from agentv.judge.session import JudgeSession
    from agentv.processes.launcher import Launcher

FILE_KEYS = ("input_files", "guideline_files")
"""The keys of the payload with paths of files."""
STDERR_SHOWN = 4000
OUTPUT_SHOWN = 500
PARSE_SECONDS = 10.0
"""How long the output of a script may take to parse."""
END_LOOKED_AT = 64 * 1024
"""How much of the output of a failed script is searched for its explanation."""
NO_LINE = (
    "It printed output, but no result: with `protocol: jsonl`, print the result as one JSON object on one line, end "
    "the line with a newline, and flush stdout."
)
NOT_READING = (
    "It printed a result, but neither read the next line of stdin nor exited: with `protocol: jsonl`, an execution "
    "ends when the script reads its next payload."
)

TWICE = "the check returned more than once, so its result is ambiguous."
RETURNED = "Return true or false, a score from 0 to 1, or an object with `score` or `pass`."


@dataclass(frozen=True, slots=True)
class Runtime:
    """What a run provides for evaluators that start scripts or call a judge."""

    launcher: Launcher | None = None
    """None in runs without scripts."""
    lender: Lender = field(default_factory=lambda: Lender(JudgeChoice()), repr=False)
    environment: Environment = field(default_factory=lambda: Environment({}), repr=False)
    secrets: Secrets = field(default_factory=Secrets, repr=False)
    redactor: Redactor = NO_SECRETS
    script_slots: asyncio.Semaphore | None = field(default=None, repr=False)
    """Limits how many scripts of the run are alive at the same time on this machine; None for no limit."""
    nodes: Place | None = field(default=None, repr=False)
    """Where scripts run that need not run on this machine (`--on`); None for this machine."""
    interpreters: Mapping[Interpreter, PreparedInterpreter] = field(default_factory=dict)
    """The interpreters that are ready for use."""

    def place(self, on: Where | None) -> Place:
        """Where a script runs."""
        if self.nodes is not None and on != "driver":
            return self.nodes
        if self.launcher is None:
            raise EvaluatorError("a judge script can be started only during a run")
        return LocalPlace(self.launcher, self, self.script_slots)

    def all(self) -> Mapping[str, str]:
        """The variables of this machine."""
        return self.environment.values

    def without_secrets(self) -> Mapping[str, str]:
        """The variables of this machine that contain no secret."""
        return self.secrets.scrub(self.environment.values)


@dataclass(frozen=True, slots=True)
class ScriptSpec:
    """A judge script: its command, where it runs, and its limits."""

    name: str
    """Name of the evaluator, for messages."""
    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str] | Sequence[str] = field(default_factory=dict)
    """Extra variables, or names of secret variables to pass on although the script has judge access."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that the program gets besides, which `env` does not name."""
    timeout: float = 120.0
    protocol: Literal["json", "jsonl"] = "json"
    warm: bool = False
    score_from_exit_code: bool = False
    """Whether a script that prints no JSON has a result: its exit code."""
    inline: bool = False
    """Whether it runs code from the suite: messages then speak of a check, and begin with its own error."""
    on: Where | None = None
    """Where it runs in a run with nodes: on this machine or, by default, on one of them."""
    interpreter: Interpreter | None = None
    """The first word of the command, if it is not the Python of agentv. Such scripts run on this machine."""

    @property
    def noun(self) -> str:
        """What messages call it."""
        return "check" if self.inline else "script"


class ScriptObserver(Protocol):
    """Observes one execution."""

    def started(self, payload: Mapping[str, Any]) -> None:
        """The script is about to be started with this payload."""

    def stderr(self, chunk: bytes) -> None:
        """The script wrote this to stderr."""

    def refused(self, error: JudgeCallError) -> None:
        """A judge call was refused."""


class ScriptError(EvaluatorError):
    """The script returned no valid score. `message` is the reason, `stderr` the end of its stderr."""

    def __init__(self, message: str, *, stderr: str = "", judge_proxy: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, judge_proxy=judge_proxy)
        self.stderr = stderr

    def __str__(self) -> str:
        return f"{self.message}\nEnd of stderr:\n{self.stderr}" if self.stderr else self.message


def working_directory(suite_directory: Path, cwd: str | None) -> Path:
    """Where a script runs: `cwd` relative to the suite's directory, else to one of its parents in the repository."""
    if not cwd:
        return suite_directory
    above = _in_repository(suite_directory)
    # `/judges` is an absolute path if that directory exists, otherwise relative to the repository.
    folders = [folder / path for path in (cwd, cwd.lstrip("/")) for folder in above]
    return next((folder for folder in folders if folder.is_dir()), suite_directory / cwd)


def working_directories(suite_directory: Path, cwd: str | None) -> list[Path]:
    """Where an interpreter is searched for: where the script runs, then from the suite's directory upward."""
    return list(dict.fromkeys([working_directory(suite_directory, cwd), *_in_repository(suite_directory)]))


def _in_repository(suite_directory: Path) -> tuple[Path, ...]:
    start = suite_directory.resolve()
    return tuple(upward(start, repository_root(start) or start))


async def run_script(
    spec: ScriptSpec,
    payload: Mapping[str, Any],
    runtime: Runtime,
    *,
    lend: Callable[[], JudgeSession] | None = None,
    observer: ScriptObserver | None = None,
) -> Score:
    """Run the script with a payload and return its score. With `lend`, it can call the judge through a proxy.

    Every attempt gets a session of its own, because a lost node may still hold that of an earlier one. Raises
    EvaluatorError if there is no valid score: `ScriptError` if the script itself failed.
    """
    tries = Tries(runtime.place("driver" if spec.interpreter is not None else spec.on))
    while True:
        session = None if lend is None else lend()
        if session is not None:
            session.try_number = len(tries.lost) + 1
        try:
            score = await _run_once(spec, payload, runtime, session=session, observer=observer, tries=tries)
        except PlaceLostError as error:
            tries.add_lost(error, session)
            if len(tries.lost) >= tries.place.attempts:
                raise _lost_too_often(spec, tries) from None
        except EvaluatorError as error:
            error.execution = tries.to_dict()
            raise
        else:
            execution = tries.to_dict()
            return score if execution is None else replace(score, execution=execution)


@dataclass(slots=True)
class Tries:
    """The attempts to run a script on a node."""

    place: Place
    node: str | None = None
    """The node of the last attempt; None for this machine."""
    lost: list[PlaceLostError] = field(default_factory=list)
    lost_calls: int = 0
    lost_usd: float | None = 0.0
    """What the calls of lost attempts cost; None if it is unknown."""

    def add_lost(self, error: PlaceLostError, session: JudgeSession | None) -> None:
        self.lost.append(error)
        if session is not None and session.ledger.call_count:
            self.lost_calls += session.ledger.call_count
            usd = session.ledger.to_dict()["cost_usd"]
            self.lost_usd = None if usd is None or self.lost_usd is None else self.lost_usd + usd

    def to_dict(self) -> dict[str, Any] | None:
        """The attempts as recorded; None for scripts on this machine."""
        if self.node is None:
            return None
        recorded: dict[str, Any] = {"node": self.node, "tries": len(self.lost) + 1, "lost_calls": self.lost_calls}
        if self.lost:
            recorded |= {"lost_on": [error.node for error in self.lost], "lost_cost_usd": self.lost_usd}
        return recorded


def _lost_too_often(spec: ScriptSpec, tries: Tries) -> EvaluatorError:
    count, last = len(tries.lost), tries.lost[-1]
    times = "once" if count == 1 else f"{count} times"
    error = EvaluatorError(
        f"the node of the {spec.noun} '{spec.name}' was lost {times} "
        f"({', '.join(lost.node for lost in tries.lost)}): {last.reason}",
        next_step="Check the nodes with `agentv nodes --on ...`, then run `agentv eval --retry-errors RUN`. "
        "`nodes.reruns` in the configuration allows more attempts.",
    )
    execution = tries.to_dict()
    error.execution = None if execution is None else {**execution, "tries": count}
    return error


async def _run_once(
    spec: ScriptSpec,
    payload: Mapping[str, Any],
    runtime: Runtime,
    *,
    session: JudgeSession | None,
    observer: ScriptObserver | None,
    tries: Tries,
) -> Score:
    not_warm: list[str] = []
    async with tries.place.slot() as slot:
        tries.node = slot.node
        job = _job(spec, payload, slot, runtime, session)
        if observer is not None:
            observer.started(without_absent_values(payload))
            if session is not None:
                session.on_refused = observer.refused
        try:
            outcome = await slot.run(
                job,
                judge=session,
                on_stderr=None if observer is None else observer.stderr,
                on_cold=not_warm.append,
                repeatable=_repeatable(spec, session),
            )
        except asyncio.CancelledError:
            if session is not None:
                session.give_back()
            raise
        except ProcessStartError as error:
            ledger = None if session is None else session.ledger.to_dict()
            raise EvaluatorError(error.message, next_step=error.next_step, judge_proxy=ledger) from error
        finally:
            if session is not None:
                session.close()
    if session is not None and session.out_of_budget is not None:
        session.give_back()
        raise session.out_of_budget
    parsed = await _parsed(outcome)
    score = _score(outcome, parsed, spec, runtime.redactor, session)
    warnings = [
        f"the script of '{spec.name}' cannot be kept warm and is started for every case: "
        + runtime.redactor.head(why, OUTPUT_SHOWN)
        for why in not_warm
    ]
    return replace(score, warnings=(*score.warnings, *warnings)) if warnings else score


async def run_for_text(spec: ScriptSpec, payload: Mapping[str, Any], runtime: Runtime) -> str:
    """Run a script with a payload and return the text that it prints. EvaluatorError if there is none."""
    tries = Tries(runtime.place(spec.on))
    while True:
        try:
            async with tries.place.slot() as slot:
                job = _job(spec, payload, slot, runtime, None)
                outcome = await slot.run(
                    job, judge=None, on_stderr=None, on_cold=lambda _: None, repeatable=lambda: True
                )
                break
        except PlaceLostError as error:
            tries.add_lost(error, None)
            if len(tries.lost) >= tries.place.attempts:
                raise _lost_too_often(spec, tries) from None
        except ProcessStartError as error:
            raise EvaluatorError(error.message, next_step=error.next_step) from error
    stderr = _end_of_stderr(outcome, runtime.redactor)
    message = _failure(outcome, spec, runtime.redactor, stderr)
    text = outcome.stdout.decode("utf-8", "replace").strip()
    if message is None and not text:
        message = f"the script of '{spec.name}' printed nothing; it must print a text"
    if message is not None:
        raise ScriptError(message, stderr=stderr)
    return text


def _job(
    spec: ScriptSpec, payload: Mapping[str, Any], slot: Slot, runtime: Runtime, session: JudgeSession | None
) -> Job:
    """The script as its place starts it: its command, its variables and its stdin."""
    prepared = None if spec.interpreter is None else runtime.interpreters.get(spec.interpreter)
    if slot.node is not None and runtime.redactor.active:
        payload = runtime.redactor.value(dict(payload))  # an answer may repeat a key, which must not reach a node
    try:
        lines, at_place = spec.protocol == "jsonl", _at(slot, payload)
        stdin = encode_payload(at_place, one_line=lines, own_names_only=spec.inline)
    except ValueError as error:
        raise EvaluatorError(f"the payload cannot be encoded as JSON: {error}") from None
    return Job(
        argv=[slot.path(word) for word in with_own_python(spec.argv)],
        cwd=slot.path(str(spec.cwd)),
        env={**spec.variables, **(spec.env if isinstance(spec.env, Mapping) else {})},
        passed=() if isinstance(spec.env, Mapping) else tuple(spec.env),
        stdin=stdin,
        timeout=spec.timeout,
        isolate=session is not None,
        vendors=() if session is None else session.vendors,
        warm=spec.warm,
        lines=spec.protocol == "jsonl",
        inline=spec.inline,
        search_path=() if prepared is None else prepared.search_path,
        label=spec.name,
    )


def _at(slot: Slot, payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload with the paths of files as they are at the place. Text is not touched."""
    if slot.node is None:
        return payload
    moved: dict[str, Any] = {key: [slot.path(path) for path in payload[key]] for key in FILE_KEYS if payload.get(key)}
    check = payload.get("check")
    if isinstance(check, Mapping) and isinstance(check.get("file"), str):
        moved["check"] = {**check, "file": slot.path(check["file"])}
    return {**payload, **moved}


def _repeatable(spec: ScriptSpec, session: JudgeSession | None) -> Callable[[], bool]:
    """Whether an execution can be repeated in a new process: a check that has made no judge calls, which count."""
    return lambda: spec.inline and (session is None or session.ledger.call_count == 0)


async def _parsed(outcome: ProcessOutcome) -> Score | OutputError:
    """The result that a script printed, or why it is not valid. Long output is parsed in a worker."""
    stdout = outcome.stdout if outcome.returncode == 0 else b""
    try:
        if is_quick(stdout):
            return parse_output(stdout)
        return await workers.call(parse_long_output, stdout, seconds=PARSE_SECONDS)
    except OutputError as error:
        return error
    except workers.WorkerError as error:
        return OutputError("no_json", f"the {len(stdout):,} bytes that the script printed could not be parsed: {error}")


def _end_of_stderr(outcome: ProcessOutcome, redactor: Redactor) -> str:
    stderr = outcome.stderr.decode("utf-8", "backslashreplace").strip()
    return redactor.tail(stderr, STDERR_SHOWN, cut_start=outcome.stderr_cut) if stderr else ""


def _score(
    outcome: ProcessOutcome,
    parsed: Score | OutputError,
    spec: ScriptSpec,
    redactor: Redactor,
    session: JudgeSession | None,
) -> Score:
    """The score that the script printed. Raises ScriptError if it failed or exceeded its limit of judge calls."""
    ledger = None if session is None else session.ledger.to_dict()
    stderr = _end_of_stderr(outcome, redactor)
    message = _failure(outcome, spec, redactor, stderr)
    if spec.score_from_exit_code and (by_code := _by_exit_code(outcome, stderr)) is not None:
        message, parsed = None, replace(by_code, reasoning=redactor.head(by_code.reasoning, OUTPUT_SHOWN))
    if session is not None and session.ledger.breached:
        message = (
            f"the {spec.noun} exceeded its judge call limit of {session.ledger.max_calls} "
            f"({session.ledger.refused_calls} refused). "
            f"Raise `judge.max_calls` of the evaluator '{spec.name}', or make fewer calls."
        )
        stderr = ""  # the script's own complaint about the limit
    elif session is not None and session.overuse is not None:
        message = f"the {spec.noun} exceeded a limit of its judge proxy, which was therefore closed: {session.overuse}."
    elif session is not None and session.not_recorded is not None:
        message = f"a judge call of the {spec.noun} cannot be replayed: {session.not_recorded}"
        stderr = ""  # the script's own complaint about the call
    if message is None:
        if isinstance(parsed, Score):
            return replace(parsed, judge_proxy=ledger, warnings=parsed.warnings if spec.inline else ())
        said, advice = _of_check(parsed) if spec.inline else (parsed.message, parsed.advice)
        message = redactor.head(said, OUTPUT_SHOWN) + (f"\n{advice}" if advice else "")
    raise ScriptError(message, stderr=stderr, judge_proxy=ledger)


def _by_exit_code(outcome: ProcessOutcome, stderr: str) -> Score | None:
    """The result of a script that ended on its own and printed no JSON."""
    code = outcome.returncode
    if code is None or outcome.timed_out or outcome.stdout_overflow or outcome.supervisor_lost:
        return None
    return score_of_exit(outcome.stdout, code, stderr)


def _of_check(error: OutputError) -> tuple[str, str]:
    """What is wrong with the result of a check, and what to do. Checks return their results, they do not print them."""
    if error.kind == "second_object":
        return TWICE, "If it forks, end the child with os._exit(0), or use the `subprocess` module."
    if error.reported:
        return error.reported, ""
    advice = error.advice.replace("Print ", "Return ", 1)
    return error.message.replace("the script", "the check"), RETURNED if error.advice == EXAMPLE else advice


def _failure(outcome: ProcessOutcome, spec: ScriptSpec, redactor: Redactor, stderr: str) -> str | None:
    """Why the process has no result; None if it exited normally. `stderr` is masked."""
    if outcome.timed_out:
        message = (
            f"the {spec.noun} did not finish within {spec.timeout:g} s and was killed, with all processes it started. "
            f"Raise `timeout_seconds` of the evaluator '{spec.name}', or make it faster."
        )
        if spec.protocol == "jsonl" and not spec.inline and outcome.stdout.strip():
            end = outcome.stdout[-END_LOOKED_AT:].rpartition(b"\n")[0]
            has_result = line_kind(end, "") in ("own", "other")
            message += f" {NOT_READING if has_result else NO_LINE}"
        return message
    if outcome.stdout_overflow:
        return (
            f"the {spec.noun} printed more than {STDOUT_CAP // 2**20} MiB and was killed. "
            "Print only the result to stdout, and logs to stderr."
        )
    if outcome.supervisor_lost:
        return f"the {spec.noun} killed the process that supervises it, so its output cannot be trusted."
    if spec.inline and (outcome.returncode != 0 or not outcome.stdout.strip()):
        return f"the check ended its process (it {outcome.ending}) instead of returning a result."
    if outcome.returncode != 0 and (why := explanation(outcome.stdout[-END_LOOKED_AT:])) is not None:
        return f"the script {outcome.ending} and printed: {redactor.head(why, OUTPUT_SHOWN)}"
    if outcome.returncode != 0:
        from agentv.processes.causes import cause_of, node_without_typescript  # noqa: PLC0415 - compiles patterns

        index = script_index(spec.argv)
        if index is not None and spec.argv[index].endswith("ts") and (version := node_without_typescript(stderr)):
            return (
                f"the script {outcome.ending}: Node {version} cannot run TypeScript. "
                f"Use Node 22.18 or newer, or a runner: `[npx, tsx, {spec.argv[index]}]`."
            )
        cause = cause_of(stderr)
        ended = f"{cause} (the script {outcome.ending})" if cause else f"the script {outcome.ending}"
        return f"{ended}. A judge script must exit with code 0 after printing its result."
    return None
