"""Addresses, proxies and error bodies, as providers over HTTP meet them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

GOOD = (200, 201, 203)
"""Statuses of a reply that holds an answer: gateways say more than 200."""
_CODES = {"rate_limit_exceeded": 429, "rate_limit_error": 429, "server_error": 500, "overloaded_error": 529}
"""Statuses that vendors put into words."""
LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|::1")


def is_http(url: str) -> bool:
    """Whether this is an address a client can call."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def without_secrets(url: str) -> str:
    """Keys are found in the user-info and the query of addresses: neither is shown."""
    try:
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))
    except ValueError:
        return ""


def merged_headers(own: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Both; the others win, however they are spelled: no header goes out twice."""
    merged = {name.lower(): (name, value) for name, value in own.items()}
    for name, value in others.items():
        merged[name.lower()] = (merged.get(name.lower(), (name,))[0], value)
    return dict(merged.values())


def proxy_for(url: str, environment: Mapping[str, str]) -> str | None:
    """The proxy the environment asks for. Never one for loopback: no key leaves the machine for that."""
    parts = urlsplit(url)
    if LOOPBACK.fullmatch(parts.hostname or ""):
        return None
    names = {"no": "no_proxy", parts.scheme: f"{parts.scheme}_proxy"}
    proxies = {key: environment.get(name) or environment.get(name.upper(), "") for key, name in names.items()}
    if not proxies[parts.scheme]:
        return None
    # Slow to import, and few have a proxy.
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # noqa: PLC0415

    host = parts.hostname or ""
    with_port = f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
    if proxy_bypass_environment(host, proxies) or proxy_bypass_environment(with_port, proxies):
        return None
    proxy = proxies[parts.scheme]
    return proxy if "://" in proxy else f"http://{proxy}"


def server_message(text: str) -> str:
    """What the server says is wrong, in one of the shapes servers use."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip() or "no reason given"
    for value in (data.get("error"), data) if isinstance(data, dict) else ():
        if isinstance(value, str) and value:
            return value
        for key in ("message", "detail"):
            if isinstance(value, dict) and isinstance(value.get(key), str) and value[key]:
                return str(value[key])
    return text.strip() or "no reason given"


def error_code(error: Any) -> int:
    """The status inside an error that came with HTTP 200, as gateways send it."""
    if not isinstance(error, dict):
        return 200
    code = str(error.get("code"))
    if re.fullmatch("[45][0-9][0-9]", code):
        return int(code)
    return _CODES.get(code) or _CODES.get(str(error.get("type")), 200)


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """How long the server asks to wait: milliseconds, seconds, or a date."""
    for name, unit in (("retry-after-ms", 0.001), ("Retry-After", 1.0)):
        text = headers.get(name, "").strip()
        if not text:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            from email.utils import parsedate_to_datetime  # noqa: PLC0415 - few servers send a date

            try:
                seconds = (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
            except (TypeError, ValueError):
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def holds_half_characters(parsed: Any) -> bool:
    """Whether some text in a JSON value has a lone surrogate and cannot be written as UTF-8."""
    try:
        json.dumps(parsed, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
