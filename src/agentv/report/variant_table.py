"""The variants of one run side by side, as summaries and comparisons show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from agentv.codec import OMIT_DEFAULT, encode
from agentv.text import plural

MOST_NAMES = 4
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class VariantCase:
    """The scores of one case with every variant; None where it was not scored."""

    suite: str
    eval_id: str
    scores: tuple[float | None, ...]

    @property
    def spread(self) -> float:
        known = [score for score in self.scores if score is not None]
        return max(known) - min(known) if known else 0.0


@dataclass(frozen=True, slots=True)
class Rival:
    """A variant that is compared with the best one, on the cases that both have."""

    variant: str
    difference: float | None
    """Mean score of the best variant minus that of this one."""
    low: float | None
    high: float | None
    """The confidence interval of the difference, corrected for the number of comparisons."""
    conclusion: str
    cases: int


@dataclass(frozen=True, slots=True)
class Variants:
    """The variants of a run, compared."""

    names: tuple[str, ...]
    means: tuple[float | None, ...]
    cases: tuple[VariantCase, ...]
    """The cases that differ most between the variants."""
    more_cases: int
    best: str | None
    """The variant with the highest mean score; None if nothing was scored."""
    rivals: tuple[Rival, ...]
    """The other variants, the strongest first."""
    is_clear: bool
    """Whether the best variant is better than each of the others, beyond chance."""
    confidence: float = CONFIDENCE
    each_with: Annotated[str, OMIT_DEFAULT] = ""
    """What each case was run with besides, such as `8 prompts`. Scores are means over them."""

    def to_dict(self) -> dict[str, Any]:
        return encode(self)


def variant_order(manifest: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The targets and the prompts of a run in the order of its options and suites. Rows arrive in any order."""
    suites = manifest.get("suites")
    known = [suite for suite in suites if isinstance(suite, dict)] if isinstance(suites, list) else []
    targets = [name for suite in known for name in suite.get("targets") or ()]
    prompts = [name for suite in known for name in suite.get("prompts") or ()]
    return list(dict.fromkeys(targets)), list(dict.fromkeys(prompts))


def in_words(variants: Variants) -> str:
    """Which variant is best, in one sentence."""
    if variants.best is None or not variants.rivals:
        return "No variant was scored." if variants.best is None else f"Only {variants.best} was scored."
    first, level = variants.rivals[0], f"{100 * variants.confidence:g}%"
    corrected = f", corrected for {len(variants.rivals)} comparisons" if len(variants.rivals) > 1 else ""
    if first.difference == 0:
        tied = [variants.best, *(rival.variant for rival in variants.rivals if rival.difference == 0)]
        listed = f"{', '.join(tied[:-1])} and {tied[-1]}" if len(tied) <= MOST_NAMES else f"{len(tied)} variants"
        return f"{listed} have the {'same' if len(tied) == len(variants.names) else 'highest'} mean score."
    few = f"{plural(first.cases, 'case')} {'is' if first.cases == 1 else 'are'}"
    if first.difference is None or first.low is None or first.high is None:
        return f"{variants.best} has the highest mean score, but {few} too few to be certain."
    over = f" over {plural(first.cases, 'case')}, each with {variants.each_with}" if variants.each_with else ""
    interval = f"{level} interval {first.low:+.2f} to {first.high:+.2f}{over}{corrected}"
    gap = f"{first.difference:+.2f} over {first.variant} ({interval})"
    if variants.is_clear:
        return f"{variants.best} is best: {gap}."
    return f"No clear winner: {variants.best} has the highest mean score, {gap}."
