"""Jobs and outcomes as messages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from agentv.nodes.frames import FrameError, Message
from agentv.processes.job import Job
from agentv.processes.run import STDERR_KEEP, STDOUT_CAP, ProcessOutcome
from agentv.text import kind_of
from agentv.wire.apis.registry import VENDORS

JsonObject = Mapping[str, Any]
LONGEST_MS = 1e12
LONGEST_SIGNAL = 40
LONGEST_PROBLEM = 500


def take(data: JsonObject, name: str, *kinds: type) -> Any:
    """The field of a message, which must be of one of these types."""
    value = data.get(name)
    if type(value) not in kinds:
        raise FrameError(f"`{name}` of a message must not be {kind_of(value)}")
    return value


def finite(data: JsonObject, name: str, most: float) -> float:
    """The number of a message, from 0 to `most`."""
    value = take(data, name, float, int)
    if not 0 <= value <= most or not math.isfinite(value):
        raise FrameError(f"`{name}` of a message must be a number from 0 to {most:,}")
    return float(value)


def strings(data: JsonObject, name: str) -> list[str]:
    values = take(data, name, list)
    if not all(type(value) is str for value in values):
        raise FrameError(f"`{name}` of a message must be a list of strings")
    return list(values)


def string_map(data: JsonObject, name: str) -> dict[str, str]:
    values = take(data, name, dict)
    if not all(type(value) is str for value in values.values()):
        raise FrameError(f"`{name}` of a message must be an object with strings")
    return dict(values)


def join_blobs(parts: Mapping[str, bytes]) -> tuple[dict[str, int], bytes]:
    """The parts one after the other, and their lengths."""
    return {name: len(part) for name, part in parts.items()}, b"".join(parts.values())


def split_blob(lengths: JsonObject, blob: bytes) -> dict[str, bytes]:
    parts: dict[str, bytes] = {}
    at = 0
    for name, length in lengths.items():
        if type(length) is not int or length < 0 or at + length > len(blob):
            raise FrameError("the parts of a message do not fit")
        parts[name] = blob[at : at + length]
        at += length
    if at != len(blob):
        raise FrameError("the parts of a message do not fit")
    return parts


def job_message(number: int, job: Job, judge: JsonObject | None) -> Message:
    """The order to run a job. `judge` is the access to the judge, if it has any."""
    parts = {f"input {name}": content for name, content in job.inputs.items()}
    if job.stdin is not None:
        parts["stdin"] = job.stdin
    # Command, variables and input may be long, so they are not part of the header.
    words = {f"word {index}": word.encode("utf-8", "surrogateescape") for index, word in enumerate(job.argv)}
    variables = {f"env {name}": value.encode("utf-8", "surrogateescape") for name, value in job.env.items()}
    lengths, blob = join_blobs({**words, **variables, **parts})
    data = {
        "job": number,
        "cwd": job.cwd,
        "passed": list(job.passed),
        "outputs": list(job.outputs),
        "file_names": dict(job.file_names),
        "timeout": job.timeout,
        "stdout_cap": job.stdout_cap,
        "stderr_keep": job.stderr_keep,
        "isolate": job.isolate,
        "scrub": job.scrub,
        "vendors": list(job.vendors),
        "warm": job.warm,
        "lines": job.lines,
        "inline": job.inline,
        "label": job.label[:200],
        "lengths": lengths,
        "judge": judge,
    }
    return Message("run", data, blob)


def job_of(message: Message) -> Job:
    """The job in an order."""
    data = message.data
    parts = split_blob(take(data, "lengths", dict), message.blob)
    return Job(
        argv=[part.decode("utf-8", "surrogateescape") for name, part in parts.items() if name.startswith("word ")],
        cwd=take(data, "cwd", str),
        env={
            name[4:]: part.decode("utf-8", "surrogateescape") for name, part in parts.items() if name.startswith("env ")
        },
        passed=strings(data, "passed"),
        stdin=parts.get("stdin"),
        inputs={name[6:]: part for name, part in parts.items() if name.startswith("input ")},
        outputs=strings(data, "outputs"),
        file_names=string_map(data, "file_names"),
        timeout=take(data, "timeout", float, int, type(None)),
        stdout_cap=min(take(data, "stdout_cap", int), STDOUT_CAP),
        stderr_keep=min(take(data, "stderr_keep", int), STDERR_KEEP),
        isolate=take(data, "isolate", bool),
        scrub=take(data, "scrub", bool),
        vendors=[name for name in strings(data, "vendors") if name in VENDORS],
        warm=take(data, "warm", bool),
        lines=take(data, "lines", bool),
        inline=take(data, "inline", bool),
        label=take(data, "label", str),
    )


def outcome_message(number: int, outcome: ProcessOutcome) -> Message:
    """The end of a job."""
    parts = {"stdout": outcome.stdout, "stderr": outcome.stderr}
    lengths, blob = join_blobs({**parts, **{f"file {name}": content for name, content in outcome.files.items()}})
    data = {
        "job": number,
        "returncode": outcome.returncode,
        "signal": outcome.signal,
        "stderr_cut": outcome.stderr_cut,
        "timed_out": outcome.timed_out,
        "stdout_overflow": outcome.stdout_overflow,
        "duration_ms": outcome.duration_ms,
        "supervisor_lost": outcome.supervisor_lost,
        "file_problems": dict(outcome.file_problems),
        "lengths": lengths,
    }
    return Message("done", data, blob)


def outcome_of(message: Message, outputs: Sequence[str]) -> ProcessOutcome:
    """The outcome in a message of a node, which may claim anything but must have the right form."""
    data = message.data
    parts = split_blob(take(data, "lengths", dict), message.blob)
    stdout, stderr = parts.pop("stdout", b""), parts.pop("stderr", b"")
    if len(stdout) > STDOUT_CAP or len(stderr) > 2 * STDERR_KEEP:
        raise FrameError(f"the output of a job must have at most {STDOUT_CAP:,} bytes")
    files = {name.removeprefix("file "): part for name, part in parts.items()}
    problems = string_map(data, "file_problems")
    if not {*files, *problems} <= set(outputs) or any(len(part) > STDOUT_CAP for part in files.values()):
        raise FrameError("the output files of a job must be those named in the job")
    returncode, signal = take(data, "returncode", int, type(None)), take(data, "signal", str, type(None))
    if abs(returncode or 0) >= 2**32 or len(signal or "") > LONGEST_SIGNAL:
        raise FrameError("the end of a job must be an exit code or the name of a signal")
    return ProcessOutcome(
        returncode=returncode,
        signal=signal,
        stdout=stdout,
        stderr=stderr,
        stderr_cut=take(data, "stderr_cut", bool),
        timed_out=take(data, "timed_out", bool),
        stdout_overflow=take(data, "stdout_overflow", bool),
        duration_ms=finite(data, "duration_ms", LONGEST_MS),
        supervisor_lost=take(data, "supervisor_lost", bool),
        files=files,
        file_problems={name: why[:LONGEST_PROBLEM] for name, why in problems.items()},
    )
