"""The HTML file: one or two runs and all pages of the viewer, in one file that needs no server and no network.

It contains nothing but the runs that were named: no other run of the project, so that it can be passed on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, Literal

from agentv import __version__, jsonio
from agentv.errors import UsageError
from agentv.record.human_labels import answer_sha256
from agentv.record.manifest import is_being_written
from agentv.record.run_dir import RunDirectory
from agentv.results import variant_of
from agentv.text import plural
from agentv.view import assets, packed_columns
from agentv.view.addresses import page_address, run_address
from agentv.view.blocks import DetailBlocks, packed, plain
from agentv.view.details import Details
from agentv.view.file_rows import LARGEST, CaseRows, choose_counterparts, estimated_size
from agentv.view.history import AllHistories
from agentv.view.library import Library
from agentv.view.share import MASKED, masker_of

WithDetails = Literal["all", "failures"]


class RunFile:
    """The text of the file, in pieces. From the first one on, `notes` says what is not in it.

    Without `details`, all rows have them unless the file would be too large: then only cases that did not pass.
    """

    def __init__(
        self,
        library: Library,
        run: str,
        baseline: str | None = None,
        details: WithDetails | None = None,
        *,
        share: bool = False,
        at_comparison: bool = False,
    ) -> None:
        """`run` and `baseline` are addresses in the library. The file opens at the page of the run, or compares."""
        self.notes: list[str] = []
        self._library = library
        self._baseline = baseline
        self._compared: list[tuple[str, str]] = []
        self._details = details
        self._at_comparison = at_comparison
        addresses = [run] if baseline is None else [run, baseline]
        self._mask = masker_of(map(library.directory, addresses)).json if share else str
        self._runs = [_Run(library, address, number) for number, address in enumerate(addresses)]
        if share:
            self.notes.append(MASKED)

    def __iter__(self) -> Iterator[str]:
        comparisons = list(self._comparisons())
        self._choose(comparisons)
        histories = self._library.histories(run.address for run in self._runs)
        judged = [(self._library.judges(run.address), self._library.labels(run.address)) for run in self._runs]
        with ExitStack() as opened:
            for run in self._runs:
                run.open_details(opened.enter_context(self._library.details(run.address)))
            # Now that everything was read or opened, it is known whether it is what was hashed.
            infos = [self._info(run) for run in self._runs]
            contents = json.loads(self._mask(jsonio.dump_line(self._contents(infos))))
            yield assets.file_start(f"{self._masked(self._runs[0].address)} · agentv", _sums(contents))
            yield plain("contents", contents)
            yield from self._block("runs", {"version": __version__, "runs": [info["head"] for info in infos]})
            yield from self._block("trend", self._library.trend())
            for run, info, (judges, labels) in zip(self._runs, infos, judged, strict=True):
                yield from self._block(f"info-{run.number}", info)
                yield from packed(f"columns-{run.number}", self._masked_columns(run.take_columns()))
                yield from self._block(f"judges-{run.number}", judges)
                yield from self._block(f"labels-{run.number}", labels)
            for number, comparison in enumerate(comparisons):
                yield from self._block(f"compare-{number}", comparison)
            del comparisons, judged
            # Before the details, which are most of the file: pages that need none do not wait for them.
            yield assets.file_script()
            for run in self._runs:
                yield from run.blocks.pack(self._entries(run, histories))
        yield assets.file_end()

    @property
    def is_complete(self) -> bool:
        """Whether all rows have details."""
        return all(len(run.rows) == len(run.cases) for run in self._runs)

    def _comparisons(self) -> Iterator[Mapping[str, Any]]:
        """With the baseline, and the first prompt of the run with each of its others. Sets what was compared."""
        run = self._runs[0].address
        if self._baseline is not None:
            self._compared.append((self._baseline, run))
            yield self._library.compare(self._baseline, run)
        first, *others = self._library.info(run)["prompts"] or [""]
        for prompt in others:
            sides = variant_of(run, first), variant_of(run, prompt)
            try:
                comparison = self._library.compare(*sides)
            except UsageError:  # they have no case in common
                continue
            self._compared.append(sides)
            yield comparison

    def _choose(self, comparisons: Sequence[Mapping[str, Any]]) -> None:
        """Choose the rows with details."""
        size = 0
        if self._details is None:
            size = sum(estimated_size(run.directory, len(run.cases)) for run in self._runs)
        if self._details == "failures" or size > LARGEST:
            for (baseline, _), comparison in zip(self._compared, comparisons, strict=True):
                choose_counterparts(self._runs[0].cases, self._runs[baseline == self._baseline].cases, comparison)
            for run in self._runs:
                run.rows = run.cases.rows()
            left_out = sum(len(run.cases) - len(run.rows) for run in self._runs)
            if left_out:
                why = "--with failures" if self._details else f"with them, the file would have about {shown_size(size)}"
                self.notes.append(
                    f"Only cases that did not pass can be opened: the details of {plural(left_out, 'row')} are not in"
                    f" this file ({why})."
                )

    def _entries(self, run: _Run, histories: AllHistories) -> Iterator[str]:
        """The details of the chosen rows, as JSON."""
        for row in run.rows:
            result, detail = run.details.of(row)
            history = jsonio.dump_line(histories.of(result.key.case, run.address))
            text = f'{{"row":{row},"detail":{detail},"history":{history}}}'
            masked = self._mask(text)
            if masked is not text and masked != text:
                # So that a label that is given in the file is one of the recorded answer.
                masked = f'{masked[:-1]},"answer_sha256":"{answer_sha256(result.candidate_answer)}"}}'
            yield masked

    def _info(self, run: _Run) -> dict[str, Any]:
        """The facts about a run, without other runs of the project."""
        info = dict(self._library.info(run.address))
        info["ledger"] = self._library.ledger(run.address) if run.is_unchanged() else []
        if not run.is_unchanged():
            info["ledger"] = []  # it may have changed while it was hashed
            count = plural(len(run.cases), "row")
            self.notes.append(f"{run.address} was still being written: this file has its first {count}.")
        candidate = run.number == 0 and self._baseline is not None
        info["baseline"] = self._runs[1].address if candidate else None
        info["baselines"] = [head for head in info["baselines"] if head["address"] == info["baseline"]]
        return info

    def _contents(self, infos: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """`Contents` of `file_source.js`."""
        names = [self._masked(run.address) for run in self._runs]
        return {
            "version": __version__,
            "first": page_address("compare", *reversed(names)) if self._at_comparison else run_address(names[0]),
            "about": {
                "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
                "notes": self.notes,
                "ledger": [
                    {"run": run.address, "files": info["ledger"]} for run, info in zip(self._runs, infos, strict=True)
                ],
            },
            "runs": [
                {
                    "address": run.address,
                    "starts": run.blocks.starts,
                    "complete": len(run.rows) == len(run.cases),
                }
                for run in self._runs
            ],
            "compared": self._compared,
        }

    def _block(self, name: str, value: Any) -> Iterator[str]:
        return packed(name, self._mask(jsonio.dump_line(value)))

    def _masked_columns(self, columns: packed_columns.Columns) -> bytes:
        return packed_columns.pack(columns if self._mask is str else packed_columns.masked(columns, self._mask))

    def _masked(self, name: str) -> str:
        masked: str = json.loads(self._mask(json.dumps(name, ensure_ascii=False)))
        return masked


class _Run:
    """A run in the file, as it was when writing started."""

    def __init__(self, library: Library, address: str, number: int) -> None:
        self.address, self.number = address, number
        self.directory = library.directory(address)
        self._state = _state(self.directory)
        library.pin(address)
        self._columns = packed_columns.unpack(library.columns(address)[0])
        self.cases = CaseRows(packed_columns.plain(self._columns))
        self.rows: Sequence[int] = range(len(self.cases))
        """The rows with details."""
        self.details: Details
        self.blocks: DetailBlocks

    def open_details(self, details: Details) -> None:
        """Set the reader of the details. The rows must have been chosen."""
        self.details = details
        self.blocks = DetailBlocks(f"details-{self.number}", self.rows, details.length)

    def take_columns(self) -> packed_columns.Columns:
        """The columns, which are not kept."""
        columns, self._columns = self._columns, {}
        return columns

    def is_unchanged(self) -> bool:
        return self._state is not None and self._state == _state(self.directory)


def _state(directory: RunDirectory) -> list[tuple[int, int, int]] | None:
    """Identifies the contents of the record; None if it is being written."""
    if is_being_written(directory.path):
        return None
    files = [path.stat() for path in (directory.results, directory.cases, directory.judge_calls) if path.exists()]
    return [(file.st_ino, file.st_size, file.st_mtime_ns) for file in files]


def _sums(contents: Mapping[str, Any]) -> list[str]:
    """The hashes of the files of the record, as `sha256sum` prints them."""
    record = contents["about"]["ledger"]
    return [f"{file['sha256']}  {run['run']}/{file['name']}" for run in record for file in run["files"]]


def shown_size(size: int) -> str:
    """A size in words, such as `0.7 MB`."""
    return f"{size / 1e6:,.0f} MB" if size >= 10_000_000 else f"{size / 1e6:,.1f} MB"
