"""The data model of a loaded suite: `EvalSuite` and `EvalCase`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentv.messages import Message
from agentv.regular_files import as_text, read_regular
from agentv.results import PassIf, Trials
from agentv.suite.evaluator import EvaluatorLike, Need
from agentv.suite.files import MAX_FILE_BYTES, SuiteFiles
from agentv.suite.findings import Form
from agentv.suite.models import MOST_POINTS, RubricModel, points_of
from agentv.suite.origins import Origins
from agentv.suite.yaml import NodePath

if TYPE_CHECKING:
    from agentv.interpreters.interpreter import Interpreter


class CaseTarget(NamedTuple):
    """The target that a case names for itself, and where the case is."""

    target: str
    path: Path
    form: Form | None
    node: NodePath


class NamedTarget(NamedTuple):
    """A target named by an evaluator, and the position of the case that uses the evaluator."""

    target: str
    path: Path
    line: int
    evaluator: str
    number: int | None = None
    """The index of the evaluator in the suite's list; None if the case lists it."""
    embeds: bool = False
    """Whether it must return embeddings."""


@dataclass(frozen=True, slots=True)
class TrialSettings:
    """The keys of `trials` that a suite or a case sets."""

    count: int | None = None
    pass_if: str | None = None
    stop_early: bool | None = None

    def over(self, other: TrialSettings) -> TrialSettings:
        """These settings, with those of `other` where they are not set."""
        return TrialSettings(
            other.count if self.count is None else self.count,
            other.pass_if if self.pass_if is None else self.pass_if,
            other.stop_early if self.stop_early is None else self.stop_early,
        )

    def trials(self) -> Trials:
        return Trials(self.count or 1, PassIf(self.pass_if or PassIf.MAJORITY), bool(self.stop_early))


@dataclass(frozen=True, slots=True)
class EvalSuite:
    """A suite that has been validated completely."""

    path: Path
    name: str
    """Its name in rows: `dataset`, or the file name without its suffix."""
    ids: tuple[str, ...]
    files: SuiteFiles
    digests: Mapping[str, str]
    """SHA-256 of the suite file and of every file it refers to, by path."""
    read_cases: Callable[[], Iterator[EvalCase]] = field(repr=False)
    head_path: Path = Path()
    """The file with its settings: the suite file, or the one beside a suite in JSON Lines."""
    description: str = ""
    target: str | None = None
    targets: tuple[str, ...] = ()
    """Targets that every case is sent to, if there are several."""
    workers: int | None = None
    max_cost: float | None = None
    judge_target: str | None = None
    threshold: float | None = None
    trials: TrialSettings = TrialSettings()
    case_trials: Mapping[str, TrialSettings] = field(default_factory=dict)
    """What cases set for themselves, by the id of the case."""
    evaluators: tuple[EvaluatorLike, ...] = ()
    case_targets: Mapping[str, CaseTarget] = field(default_factory=dict)
    """Targets that cases name for themselves, by the id of the case."""
    judge_names: tuple[NamedTarget, ...] = ()
    """Targets named by evaluators."""
    judge_choices: frozenset[str | None] = frozenset()
    """The judge targets of the evaluators that need a judge; contains None if one of them does not name its own."""
    evaluator_needs: frozenset[Need] = frozenset()
    """What the run must provide for the suite's evaluators."""
    interpreters: Mapping[Interpreter, str] = field(default_factory=dict)
    """The interpreters that its scripts need, besides that of agentv, each with the name of an evaluator."""
    without_evaluators: frozenset[str] = frozenset()
    """The ids of cases for which nothing names an evaluator. A judge grades them by default."""
    prompts: tuple[str, ...] = ()
    """The ids of its prompts. `cases` has every case once per prompt."""
    user_targets: Mapping[str, CaseTarget] = field(default_factory=dict)
    """Targets that play the user of a case, by the id of the case."""
    common_variables: frozenset[str] = frozenset()
    """The variables that every case has."""
    dialect: str = ""
    """The dialect that it is written in, if it is not ours."""
    notes: tuple[str, ...] = ()
    """What the user should know about it."""
    origins: Origins | None = field(default=None, repr=False)
    """Where the nodes of its head are written, if it is in another dialect."""

    @property
    def directory(self) -> Path:
        return self.files.directory

    def cases(self) -> Iterator[EvalCase]:
        """Every case, in file order; if there are prompts, once for each of them."""
        return self.read_cases()

    def variant_ids(self) -> Iterator[str]:
        """The id of each item of `cases`."""
        return (case_id for case_id in self.ids for _ in self.prompts or (None,))


@dataclass(frozen=True, slots=True)
class Rubric:
    """One criterion of a rubric."""

    id: str
    description: str
    weight: float = 1.0
    required: bool = False
    operator: str | None = None
    score_ranges: tuple[tuple[int, int, str], ...] = ()
    """First score, last score and outcome of each range from 0 to 10."""
    min_score: float | None = None
    """Share of the best score that the criterion must reach, if it has score ranges."""

    @classmethod
    def of(cls, number: int, item: str | RubricModel) -> Rubric:
        """A criterion as written; `number` is its position, from 1."""
        if isinstance(item, str):
            return cls(f"rubric-{number}", item)
        ranges = () if item.score_ranges is None else points_of(item.score_ranges)
        least = item.min_score
        if item.required_min_score is not None:
            least = item.required_min_score / MOST_POINTS
        name = (item.id or "").strip() or f"rubric-{number}"
        best = ranges[-1][2] if ranges else ""
        return cls(name, item.description or best, item.weight, item.required, item.operator, ranges, least)

    @classmethod
    def listed(cls, items: Sequence[str | RubricModel]) -> tuple[Rubric, ...]:
        """The criteria of a list, each with an id."""
        return tuple(cls.of(number, item) for number, item in enumerate(items, 1))

    @property
    def settings(self) -> dict[str, Any]:
        """The fields that are set, for records."""
        return {key: value for key, value in asdict(self).items() if value is not None and value != ()}


@dataclass(frozen=True, slots=True)
class CaseTurn:
    """One turn of a conversation: what the user writes, and what is expected of the answer."""

    messages: tuple[Message, ...]
    expected_outcome: str | None = None
    reference_answer: str | None = None


@dataclass(frozen=True, slots=True)
class SimulatedUser:
    """A model that plays the user of a conversation."""

    target: str
    persona: str
    max_turns: int = 5
    stop_when: str | None = None


@dataclass(frozen=True, slots=True)
class EvalCase:
    """One input and what is expected of the answer, as written in the suite file."""

    id: str
    question: str
    input_messages: tuple[Message, ...]
    prompt: str | None = None
    """The id of the prompt that the messages are made from."""
    vars: Mapping[str, Any] = field(default_factory=dict)
    """The variables of the case."""
    turns: tuple[CaseTurn, ...] = ()
    """The turns of a conversation, if the case is one. `input_messages` has the messages of all of them."""
    user: SimulatedUser | None = None
    """The model that writes the user's messages after those of the case."""
    expected_outcome: str | None = None
    expected_messages: tuple[Message, ...] = ()
    reference_answer: str | None = None
    rubrics: tuple[Rubric, ...] = ()
    evaluators: tuple[EvaluatorLike, ...] = ()
    """The evaluators of this case, with the suite's defaults applied."""
    target: str | None = None
    threshold: float | None = None
    trials: TrialSettings | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    """The tags of the suite, then those of the case."""
    conversation_id: str | None = None
    system_prompt: str | None = None
    attachments: tuple[Path, ...] = ()
    """The files of the `file` parts in the input, in order."""
    guideline_files: tuple[Path, ...] = ()
    """The attachments that contain instructions rather than material."""
    line: int = 0
    texts: Mapping[Path, str] | None = field(default=None, repr=False, compare=False)
    """The text of each attachment, once it has been read."""
    problem: str | None = None
    """Why the case cannot be run: one of its files changed after the suite was validated."""

    @property
    def is_conversation(self) -> bool:
        """Whether the case has several turns."""
        return bool(self.turns) or self.user is not None

    @property
    def before_turns(self) -> tuple[Message, ...]:
        """The input without the messages of `turns`: the system messages of a prompt come before them."""
        return self.input_messages[: len(self.input_messages) - sum(len(turn.messages) for turn in self.turns)]

    def text_of(self, path: Path) -> str:
        """The text of an attachment."""
        if self.texts is not None and path in self.texts:
            return self.texts[path]
        return as_text(read_regular(path, MAX_FILE_BYTES))

    @property
    def input_files(self) -> tuple[Path, ...]:
        """The attachments that are material, not guidelines."""
        return tuple(path for path in self.attachments if path not in self.guideline_files)
