"""URLs: validation, removal of secrets, and the proxy set in the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

_LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|::1")


def is_http(url: str) -> bool:
    """Whether this is a valid HTTP or HTTPS URL."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def is_loopback(url: str) -> bool:
    """Whether the host of a URL is the local machine."""
    return _LOOPBACK.fullmatch(urlsplit(url).hostname or "") is not None


def without_secrets(url: str) -> str:
    """The URL without user info, query and fragment, which may contain keys."""
    try:
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))
    except ValueError:
        return ""


def proxy_for(url: str, environment: Mapping[str, str]) -> str | None:
    """The proxy for a URL from the environment. Loopback never uses one, so that no key leaves the machine."""
    if is_loopback(url):
        return None
    parts = urlsplit(url)
    names = {"no": "no_proxy", parts.scheme: f"{parts.scheme}_proxy"}
    proxies = {key: environment.get(name) or environment.get(name.upper(), "") for key, name in names.items()}
    proxy = proxies[parts.scheme]
    if not proxy:
        return None
    # Imported here because it is slow, and most environments have no proxy.
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # noqa: PLC0415

    host = parts.hostname or ""
    with_port = f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
    if proxy_bypass_environment(host, proxies) or proxy_bypass_environment(with_port, proxies):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"
