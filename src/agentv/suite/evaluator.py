"""How suites and plans see evaluators, without knowing any type by name. The classes are in `agentv.evaluators`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from agentv.evidence import EvaluatorRecord
from agentv.suite.files import SuiteFiles
from agentv.suite.findings import Findings
from agentv.suite.variables import CaseValues
from agentv.suite.yaml import NodePath

if TYPE_CHECKING:
    from agentv.interpreters.interpreter import Interpreter


class Need(Enum):
    """What an evaluator needs a run to provide."""

    SCRIPTS = auto()
    """A launcher that starts the evaluator's script."""
    JUDGE_ACCESS = auto()
    """A judge that the evaluator's script may call through the judge proxy."""
    JUDGE = auto()
    """A judge that the evaluator calls directly."""


JUDGED = frozenset({Need.JUDGE_ACCESS, Need.JUDGE})
"""Needs that require a judge target."""


class EvaluatorLike(Protocol):
    """An evaluator as suites and plans see it."""

    @property
    def name(self) -> str:
        """Unique within a case."""

    @property
    def type(self) -> str:
        """The `type` in suite files."""

    @property
    def needs(self) -> frozenset[Need]:
        """What the run must provide before this evaluator can be used."""

    def targets_named(self) -> Sequence[str]:
        """The targets named in its options."""

    def embeddings_named(self) -> Sequence[str]:
        """Those of them that must return embeddings."""

    def depends_on(self, directory: Path, /) -> Sequence[Path]:
        """Files that affect the score, such as the script."""

    def record(self) -> EvaluatorRecord:
        """The evaluator with all its options, for the record of the run."""

    @property
    def needs_reference(self) -> bool:
        """Whether it compares the answer with the reference answer of the case, which must then exist."""

    def variables_used(self) -> frozenset[str]:
        """The variables of the case that it inserts into its own templates, such as the prompt of a judge."""

    def interpreters(self, directory: Path, /) -> Sequence[tuple[str, Interpreter]]:
        """Interpreters of the user, and packages, that scripts need, each with the name of the evaluator."""

    def judge_targets(self) -> Sequence[str | None]:
        """The judge target of each evaluator (nested ones too) that needs a judge; None if its options name none."""


class TurnChecks(NamedTuple):
    """The evaluators of one turn of a conversation, as written, and what their templates can use."""

    evaluators: Sequence[Any]
    has_reference: bool
    values: CaseValues


class ReadsEvaluators(Protocol):
    """Creates evaluators from the entries of a suite. Problems go into `findings`, and the result is then None."""

    def with_defaults(self, options: Mapping[str, Any], /) -> ReadsEvaluators:
        """A reader that applies these options to every evaluator that inherits them and does not set them itself."""

    def without_search(self) -> ReadsEvaluators:
        """A reader for reading the suite again during a run, which does not search for programs again."""

    def is_templated(self, entry: Any, /) -> bool:
        """Whether an entry has templates in its options, so that it must be read for each case."""

    def read(
        self, entry: Any, findings: Findings, at: NodePath, files: SuiteFiles, values: CaseValues | None = None
    ) -> EvaluatorLike | None:
        """One entry of a list of evaluators. `values` are inserted into its templates."""

    def read_rubrics(
        self, name: str, rubrics: Any, findings: Findings, at: NodePath, files: SuiteFiles
    ) -> EvaluatorLike | None:
        """The evaluator that grades answers by the `rubrics` of the case at `at`."""

    def read_turns(
        self, turns: Sequence[TurnChecks], aggregation: str, findings: Findings, at: NodePath, files: SuiteFiles
    ) -> EvaluatorLike | None:
        """The evaluator of the turns of the case at `at`."""

    def read_default(self, findings: Findings, at: NodePath, files: SuiteFiles) -> EvaluatorLike | None:
        """The evaluator of cases that do not list any."""
