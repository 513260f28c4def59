"""A suite file that is changed in place: what is not added stays as it was, and nobody sees half of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv.cli.rubric_places import NoPlaceError, Rubrics, SuiteText, json_line_with_rubrics
from agentv.errors import Problem, SuiteError, UsageError
from agentv.evaluators.reading import read_evaluator
from agentv.suite.json_lines import parse_json
from agentv.suite.loader import CASES, JSON_LINES, load_suite
from agentv.suite.scalars import as_written
from agentv.suite.yaml_events import YamlWalk


@dataclass(slots=True)
class SuiteFile:
    """The text of a suite file, and which of its cases stand where."""

    path: Path
    """The file itself, links resolved."""
    text: str
    _yaml: SuiteText | None = None
    _numbers: dict[str, int] = field(default_factory=dict)
    """Case id -> its index in the list, or its line."""

    @classmethod
    def read(cls, path: Path) -> SuiteFile:
        """A suite that was loaded without mistakes."""
        real = path.resolve()
        # Line ends are kept as they are: no universal newlines.
        file = cls(real, real.read_bytes().decode("utf-8"))
        if real.suffix == JSON_LINES:
            for number, line in enumerate(file.text.split("\n")):
                if line.strip().lstrip("\ufeff"):
                    file._note(parse_json(line.strip().lstrip("\ufeff")), number)
        else:
            file._yaml = SuiteText(file.text)
            cases = YamlWalk(file.text).document()[CASES]
            for index, case in enumerate(cases if isinstance(cases, list) else ()):
                file._note(case, index)
        return file

    def _note(self, case: Any, number: int) -> None:
        if isinstance(case, Mapping) and "id" in case:
            self._numbers[str(as_written(case["id"]))] = number

    def obstacle(self, case_id: str) -> str | None:
        """Why nothing can be added to a case; None when it can."""
        if case_id not in self._numbers:
            return f"it stands in another file that {self.path.name} names: run this command on that {JSON_LINES} file"
        if self._yaml is not None:
            place = self._yaml.places.get(self._numbers[case_id])
            return str(place) if isinstance(place, NoPlaceError) else None
        return None

    def with_rubrics(self, added: Mapping[str, Rubrics]) -> tuple[str, dict[str, str]]:
        """The text with rubrics for these cases; and for which of them that was not possible, and why."""
        try:
            return self._with(added), {}
        except NoPlaceError:
            pass
        # They were paid for: one case that cannot take its rubrics does not lose those of the others.
        problems: dict[str, str] = {}
        for case_id, rubrics in added.items():
            try:
                self._with({case_id: rubrics})
            except NoPlaceError as error:
                problems[case_id] = str(error)
        rest = {case_id: rubrics for case_id, rubrics in added.items() if case_id not in problems}
        try:
            return self._with(rest), problems
        except NoPlaceError as error:
            return self.text, dict.fromkeys(added, str(error))

    def _with(self, added: Mapping[str, Rubrics]) -> str:
        by_number = {self._numbers[case_id]: rubrics for case_id, rubrics in added.items()}
        return self._lines_with(by_number) if self._yaml is None else self._yaml.with_rubrics(by_number)

    def _lines_with(self, by_number: Mapping[int, Rubrics]) -> str:
        lines = self.text.split("\n")
        for number, rubrics in by_number.items():
            lines[number] = json_line_with_rubrics(lines[number], rubrics)
        return "\n".join(lines)

    def refuse_read_only(self) -> None:
        """Before anybody is asked: a file that may not be written is not replaced, either."""
        if not self.path.stat().st_mode & 0o222 or not os.access(self.path, os.W_OK):
            raise UsageError(
                f"{self.path} is read-only.", next_step="Make it writable, or use --stdout. Nobody was asked."
            )

    def replace_with(self, new: str) -> None:
        """Put the new text in place of the old, at once. It is loaded first; a file that changed is left alone."""
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.stem}-", suffix=self.path.suffix)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(new.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
            self._refuse_mistakes(temporary)
            temporary.chmod(self.path.stat().st_mode & 0o7777)
            if self.path.read_bytes() != self.text.encode("utf-8"):
                raise UsageError(
                    f"{self.path} was changed while the model was asked.",
                    next_step="Nothing was written. Run the command again.",
                )
            temporary.replace(self.path)
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {error.strerror or error}.") from None
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()

    def _refuse_mistakes(self, path: Path) -> None:
        try:
            load_suite(path, read_evaluator)
        except SuiteError as error:
            problems = [Problem(self.path, p.line, p.column, p.message, p.source) for p in error.problems]
            raise SuiteError(
                problems, next_step="With the new rubrics the suite would have these mistakes. Nothing was written."
            ) from None
