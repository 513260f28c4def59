"""Choose a row of a run: by the name of its case, or the worst one."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from agentv.errors import UsageError
from agentv.record.reading import RowHead
from agentv.results import RowKey, Verdict, has_prompt, is_of
from agentv.text import did_you_mean, plural, some_of

_LISTED = 5
_COMPARED = 2_000
"""Names that can be compared with a typo in a moment."""


class Wanted(NamedTuple):
    """Which rows are wanted: of a case (an id, `suite/id`, the beginning of one, or a glob), a target, an attempt."""

    case: str | None = None
    target: str | None = None
    attempt: int | None = None
    prompt: str | None = None

    @property
    def is_glob(self) -> bool:
        return self.case is not None and any(character in self.case for character in "*?[")


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen row, and its neighbours."""

    head: RowHead
    siblings: tuple[RowHead, ...]
    """All rows of this case, including the chosen one: other targets and attempts."""
    next_worst: RowHead | None
    """The worst row of another case after this one; None if no other case failed."""
    not_passed: int
    """Rows of the run that failed or errored."""


def passed(head: RowHead) -> bool:
    return head.verdict is Verdict.PASS and not head.errored


def worst_first(head: RowHead) -> tuple[int, float, RowKey]:
    """A sort key: rows that did not pass from the lowest score up, then errors, then rows that passed."""
    group = 1 if head.errored else 0 if head.verdict is not Verdict.PASS else 2
    return group, head.score, head.key


def matching(heads: Sequence[RowHead], case: str) -> list[RowHead]:
    """The rows whose case has this id, or `suite/id`; else those that match it as a glob, or begin with it."""
    found = [head for head in heads if head.key.eval_id == case]
    if found:
        return found
    similar = re.compile(fnmatch.translate(case) if Wanted(case).is_glob else re.escape(case)).match
    by_suite = "/" in case
    full = [head for head in heads if f"{head.key.suite}/{head.key.eval_id}" == case] if by_suite else []
    return (
        full
        or [head for head in heads if similar(head.key.eval_id)]
        or [head for head in heads if by_suite and similar(f"{head.key.suite}/{head.key.eval_id}")]
    )


def choose(heads: Sequence[RowHead], wanted: Wanted, run: str) -> Choice:
    """The worst of the wanted rows. UsageError if there are none, or if the name could be that of several cases.

    A glob may match several cases.
    """
    rows = listed(heads, wanted, run)
    if wanted.case is not None and not wanted.is_glob:
        cases = sorted({head.key[:2] for head in rows})
        if len(cases) > 1:
            raise _ambiguous(wanted.case, cases)
    chosen = _worst(rows)
    suite, eval_id = chosen.key[:2]
    failing = [head for head in heads if head.errored or head.verdict is not Verdict.PASS]
    siblings = [head for head in heads if head.key.eval_id == eval_id and head.key.suite == suite]
    return Choice(chosen, tuple(sorted(siblings, key=lambda head: head.key)), _after(chosen, failing), len(failing))


_SCORE_AND_KEY = itemgetter(RowHead._fields.index("score"), RowHead._fields.index("key"))


def _worst(heads: Sequence[RowHead]) -> RowHead:
    """The first row in the order of `worst_first`, without computing that for every row of a large run."""
    failed = [head for head in heads if head.verdict is not Verdict.PASS and not head.errored]
    return min(failed or [head for head in heads if head.errored] or heads, key=_SCORE_AND_KEY)


def _after(chosen: RowHead, failing: Sequence[RowHead]) -> RowHead | None:
    """The worst row of another case after the chosen one."""
    key, score, case = chosen.key, chosen.score, chosen.key[:2]
    if chosen.errored:
        after = [head for head in failing if head.errored and head.key > key and head.key[:2] != case]
    elif chosen.verdict is Verdict.PASS:
        return None
    else:
        worse = [head for head in failing if head.score >= score and (head.score > score or head.key > key)]
        after = [head for head in worse if not head.errored and head.key[:2] != case]
        after = after or [head for head in failing if head.errored and head.key[:2] != case]
    return min(after, key=_SCORE_AND_KEY, default=None)


def listed(heads: Sequence[RowHead], wanted: Wanted, run: str) -> list[RowHead]:
    """The wanted rows. UsageError, with the most similar names, if there are none."""
    rows = _narrowed(heads, wanted, run)
    if wanted.case is None:
        return rows
    found = matching(rows, wanted.case)
    if found:
        return found
    elsewhere = matching(heads, wanted.case)
    if elsewhere:  # the case exists, but not with this target and attempt
        pairs = sorted({(head.key.target, head.key.attempt) for head in elsewhere})
        names = ", ".join(f"target {target} attempt {attempt}" for target, attempt in pairs[:_LISTED])
        target = [] if wanted.target is None else [f"target '{wanted.target}'"]
        attempt = [] if wanted.attempt is None else [f"attempt {wanted.attempt}"]
        raise UsageError(
            f"case '{wanted.case}' has no row with {' and '.join(target + attempt)} in run {run}.",
            next_step=f"It has: {names}.",
        )
    known = case_names(heads)
    raise UsageError(
        f"run {run} has no case '{wanted.case}'{did_you_mean(wanted.case, known)}.",
        next_step=f"Its cases: {some_of(known, near=wanted.case)}. List them with `agentv show {run} --list`.",
    )


def case_names(heads: Sequence[RowHead]) -> list[str]:
    """Ids of cases, at most as many as can be compared with a typo in a moment."""
    return list(dict.fromkeys(head.key.eval_id for head in heads))[:_COMPARED]


def _narrowed(heads: Sequence[RowHead], wanted: Wanted, run: str) -> list[RowHead]:
    """The rows of the wanted target and attempt."""
    if not heads:
        raise UsageError(f"run {run} has no rows yet.")
    target, attempt = wanted.target, wanted.attempt
    rows = [head for head in heads if target is None or is_of(head.key.target, target)]
    if target is not None and not rows:
        targets = sorted({head.key.target for head in heads})
        raise UsageError(
            f"run {run} has no target '{target}'{did_you_mean(target, targets)}.",
            next_step=f"Its targets: {some_of(targets, near=target)}.",
        )
    if wanted.prompt is not None:
        rows = [head for head in rows if has_prompt(head.key.target, wanted.prompt)]
        if not rows:
            variants = sorted({head.key.target for head in heads})
            raise UsageError(
                f"run {run} has no prompt '{wanted.prompt}'.",
                next_step=f"Its variants: {some_of(variants, near=wanted.prompt)}.",
            )
    if attempt is None:
        return rows
    known = sorted({head.key.attempt for head in rows})
    rows = [head for head in rows if head.key.attempt == attempt]
    if not rows:
        raise UsageError(f"run {run} has no attempt {attempt}.", next_step=f"It has attempts 1 to {known[-1]}.")
    return rows


def _ambiguous(pattern: str, cases: Sequence[Any]) -> UsageError:
    ids = {eval_id for _, eval_id in cases}
    names = [f"{suite}/{eval_id}" for suite, eval_id in cases] if len(ids) < len(cases) else [*map(str, ids)]
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return UsageError(
        f"'{pattern}' is ambiguous: {plural(len(cases), 'case')} match.",
        next_step=f"Use one of {', '.join(sorted(names)[:_LISTED])}{more}; or a glob for the worst of them.",
    )


def counterpart(head: RowHead, heads: Sequence[RowHead]) -> RowHead | None:
    """The row of another run to compare with: of the same case and, if possible, of the same target and attempt."""
    key = head.key
    return min(
        (other for other in heads if other.key[:2] == key[:2]),
        key=lambda other: (other.key.target != key.target, other.key.attempt != key.attempt, worst_first(other)),
        default=None,
    )


def largest_drop(heads: Sequence[RowHead], others: Sequence[RowHead]) -> RowHead | None:
    """The row that lost most compared with the row of the same key in another run; None if no score fell."""
    before = {other.key: other.score for other in others if not other.errored}
    drops = ((before.get(head.key, 0.0) - head.score, head) for head in heads if not head.errored)
    drop, worst = max(drops, key=lambda pair: pair[0], default=(0.0, None))
    return worst if drop > 0 else None
