"""What a shard gets of the limits of a run and of its targets, so that all shards together stay within them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from agentv.plan.options import RunOptions
from agentv.plan.shards import Shard
from agentv.targets.config import TargetsConfig, TargetSpec
from agentv.targets.provider import TargetSettings
from agentv.text import plural


def share_of_targets(config: TargetsConfig, shard: Shard) -> TargetsConfig:
    """The configuration with this shard's part of the rate and the concurrency of each target."""
    return replace(config, targets={name: _share_of(spec, shard) for name, spec in config.targets.items()})


def _share_of(spec: TargetSpec, shard: Shard) -> TargetSpec:
    settings = spec.reading.settings
    if not isinstance(settings, TargetSettings):
        return spec
    changes: dict[str, Any] = {}
    if settings.requests_per_minute is not None:
        changes["requests_per_minute"] = shard.share(settings.requests_per_minute)
    if settings.max_concurrency is not None:
        changes["max_concurrency"] = max(1, shard.whole_share(settings.max_concurrency))
    if not changes:
        return spec
    return replace(spec, reading=replace(spec.reading, settings=settings.model_copy(update=changes)))


def notes_on_shares(
    options: RunOptions, shard: Shard, called: Iterable[TargetSpec], original: dict[tuple[str, str], TargetSpec]
) -> list[str]:
    """What was divided, and what could not be. `original` has the targets as configured, by file and name."""
    divided: list[str] = []
    notes: list[str] = []
    if options.max_cost is not None:
        divided.append(f"${shard.share(options.max_cost):.4g} of --max-cost {options.max_cost:g}")
    if options.max_judge_calls is not None:
        divided.append(f"{shard.whole_share(options.max_judge_calls):,} of --max-judge-calls {options.max_judge_calls}")
    for spec in called:
        whole = original[str(spec.path), spec.name].reading.settings
        own = spec.reading.settings
        if not isinstance(whole, TargetSettings) or not isinstance(own, TargetSettings):
            continue
        if own.requests_per_minute is not None and whole.requests_per_minute is not None:
            divided.append(
                f"{own.requests_per_minute:.4g} of {whole.requests_per_minute:g} requests per minute to '{spec.name}'"
            )
        if own.max_concurrency is not None and whole.max_concurrency is not None:
            divided.append(f"{own.max_concurrency} of {whole.max_concurrency} parallel calls of '{spec.name}'")
            if whole.max_concurrency < shard.count:
                notes.append(
                    f"`max_concurrency: {whole.max_concurrency}` of target '{spec.name}' cannot be divided among "
                    f"{shard.count} shards: each makes one call at a time. To stay within it, run at most "
                    f"{plural(whole.max_concurrency, 'shard')} at the same time"
                )
    return [*([f"limits of shard {shard}: {', '.join(divided)}"] if divided else []), *notes]
