"""Where OpenTelemetry spans are sent: an address, or the standard OTEL variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit, urlunsplit

from agentv.errors import UsageError
from agentv.http.urls import is_http, proxy_for, without_secrets

PATH = "/v1/traces"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
"""Variables with headers, which are secret. The headers for traces override those for everything."""
TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class OtlpEndpoint:
    """Where spans are sent. All headers are secrets."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = TIMEOUT
    proxy: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, address: str | None, environment: Mapping[str, str]) -> OtlpEndpoint | None:
        """The endpoint at this address, otherwise in the standard variables; None if it is in neither."""
        if address:
            url, source = _with_path(address), "the OTLP endpoint"
        elif url := environment.get(ENDPOINTS[0], ""):
            source = ENDPOINTS[0]  # used unchanged, as the specification demands
        elif base := environment.get(ENDPOINTS[1], ""):
            url, source = _with_path(base), ENDPOINTS[1]
        else:
            return None
        if not is_http(url):
            raise UsageError(
                f"{source} must be an http or https URL, got '{without_secrets(address or url)}'.",
                next_step="Set the address of a collector, for example http://127.0.0.1:4318",
            )
        headers = {
            name.lower(): value for variable in HEADERS for name, value in pairs_in(environment.get(variable, ""))
        }
        return cls(url, headers, _timeout(environment), proxy_for(url, environment))

    @property
    def shown(self) -> str:
        return without_secrets(self.url)

    @property
    def secrets(self) -> tuple[str, ...]:
        parts = urlsplit(self.url)
        in_url = [part for part in (parts.username, parts.password, parts.query) if part]
        values = [*self.headers.values(), *(value.partition(" ")[2] for value in self.headers.values())]
        return tuple(value for value in (*values, *in_url) if value)


def captures_content(environment: Mapping[str, str], *, wanted: bool) -> bool:
    """Whether spans contain prompts and answers: by option, or by the standard variable."""
    return wanted or environment.get(CONTENT, "").strip().lower() in ("true", "1", "span_only", "span_and_event")


def secret_headers(environment: Mapping[str, str]) -> dict[str, list[str]]:
    """The variables that contain headers, and the values in each of them. They must not reach a script."""
    return {name: [value for _, value in pairs_in(text)] for name in HEADERS if (text := environment.get(name))}


def pairs_in(text: str) -> Iterator[tuple[str, str]]:
    """The pairs of `name=value,name=value`, with percent-encoded values. Malformed pairs are skipped."""
    for pair in text.split(","):
        name, separator, value = pair.partition("=")
        if separator and name.strip():
            yield name.strip(), unquote(value.strip())


def _with_path(base: str) -> str:
    """The address for traces: the base with `/v1/traces`, unless it has it already."""
    try:
        parts = urlsplit(base)
    except ValueError:
        return base
    path = parts.path.rstrip("/")
    return base if path.endswith(PATH) else urlunsplit(parts._replace(path=path + PATH))


def _timeout(environment: Mapping[str, str]) -> float:
    for name in ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"):
        text = environment.get(name, "").strip()
        if text.isdecimal() and int(text[:9]) > 0:
            return int(text[:9]) / 1000
    return TIMEOUT
