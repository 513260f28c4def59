"""Which variables are secret, and which environment child processes get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from agentv.redact import Redactor
from agentv.targets.config import SHORTEST_SECRET, TargetsConfig, TargetSpec, looks_secret, may_be_secret
from agentv.targets.environment import Environment


@dataclass(frozen=True, slots=True)
class Secrets:
    """The names of secret variables and the secret values of all targets of a run."""

    names: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()

    @classmethod
    def of(cls, configs: Iterable[TargetsConfig], environments: Iterable[Environment]) -> Secrets:
        names: set[str] = set()
        values: set[str] = set()
        for config in configs:
            for spec in config.targets.values():
                names |= spec.reading.reads
                values |= spec.reading.secret_values
        for environment in environments:
            for name, headers in _collector_headers(environment).items():
                names.add(name)
                values.update(header for header in headers if len(header) >= SHORTEST_SECRET)
            names |= environment.dotenv_names
            for name in environment.dotenv_names:
                value = environment.values.get(name, "")
                if looks_secret(name) and may_be_secret(name) and len(value) >= SHORTEST_SECRET:
                    values.add(value)
        return cls(frozenset(filter(may_be_secret, names)), frozenset(values))

    def scrub(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment without secret variables and without those whose value contains a secret in any encoding."""
        return dict(_scrubbed(self, tuple(environment.items())))

    def scrub_for(self, spec: TargetSpec, environment: Environment) -> dict[str, str]:
        """The environment for processes of one target: no secrets except those that its own entry reads."""
        own = {name: environment.values[name] for name in spec.reading.reads if name in environment.values}
        return {**self.scrub(environment.values), **own}


def _collector_headers(environment: Environment) -> dict[str, list[str]]:
    """The variables with headers for an OpenTelemetry collector, and the values of the headers."""
    if not any(name.startswith("OTEL_EXPORTER_OTLP_") for name in environment.values):
        return {}
    from agentv.http.otlp import secret_headers  # noqa: PLC0415 - most environments have none

    return secret_headers(environment.values)


@lru_cache(maxsize=16)
def _scrubbed(secrets: Secrets, environment: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Cached because every script of a run starts from the same environment."""
    redactor = Redactor(secrets.values)
    return {name: value for name, value in environment if name not in secrets.names and not redactor.finds(value)}
