"""Child processes for the tests, to be killed, limited or locked out.

python -m tests.record.children write RUN COUNT [OUT]   append rows, print each id once it is acknowledged
python -m tests.record.children manifest RUN            rewrite run.json forever
python -m tests.record.children hold RUN                take the lock, print a line, wait for the end of stdin
python -m tests.record.children limited RUN BYTES       append rows until the file size limit is reached
python -m tests.record.children see RESULTS             print, for each id on stdin, whether its row is in the file
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import resource
import signal
import sys
from pathlib import Path

from agentv.errors import RecordError
from agentv.record.recovery import recover
from agentv.record.run_dir import RunDirectory
from agentv.record.writer import RowWriter
from tests.record.rows import make_row


def say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


def answer_of(number: int) -> str:
    """An answer with a different length for every row; every seventh is long enough to be partially written."""
    return f"answer {number} " * (1 + number % 13) + "é" * (200_000 if number % 7 == 3 else 0)


async def write(run: RunDirectory, count: int, out: Path | None = None) -> None:
    with run.lock():
        done = {key.eval_id for key in recover(run).done}
        missing = iter([n for n in range(count) if f"case-{n}" not in done])
        async with RowWriter(run, out=out) as writer:

            async def work() -> None:
                for number in missing:
                    await writer.append(make_row(f"case-{number}", answer_of(number)))
                    say(f"case-{number}")

            await asyncio.gather(*(work() for _ in range(4)))


def hold(run: RunDirectory) -> None:
    with run.lock():
        say("locked")
        sys.stdin.read()


async def fill(run: RunDirectory) -> None:
    """Append until it fails, then once more; print the acknowledged ids and the errors."""
    acknowledged, errors = [], []
    async with RowWriter(run) as writer:
        for number in itertools.count():
            try:
                await writer.append(make_row(f"case-{number}", "x" * 5000))
            except RecordError as error:
                errors.append(str(error))
                if len(errors) == 2:
                    break
            else:
                acknowledged.append(f"case-{number}")
    say(json.dumps({"acknowledged": acknowledged, "errors": errors, "size": run.results.stat().st_size}))


def limit_and_fill(run: RunDirectory, size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    asyncio.run(fill(run))


def see(results: Path) -> None:
    """Answer queries, reading only what was added to the file since the last one."""
    known: set[str] = set()
    begun = b""
    with results.open("rb") as file:
        say("ready")
        for line in sys.stdin:
            # The last line may belong to the next group and be only partially written.
            *whole, begun = (begun + file.read()).split(b"\n")
            known |= {json.loads(row)["eval_id"] for row in whole}
            say("yes" if line.strip() in known else "no")


def main(what: str, path: str, *rest: str) -> None:
    if what == "see":
        see(Path(path))
        return
    run = RunDirectory.open(Path(path))
    if what == "write":
        asyncio.run(write(run, int(rest[0]), Path(rest[1]) if len(rest) > 1 else None))
    elif what == "hold":
        hold(run)
    elif what == "limited":
        limit_and_fill(run, int(rest[0]))
    elif what == "fill":
        asyncio.run(fill(run))


if __name__ == "__main__":
    main(*sys.argv[1:])
