"""Keeps a script on this machine, and writes down what it wanted elsewhere: a line per host or `.env` file.

Python imports this module when it starts, because the tests put this folder into `PYTHONPATH`.
"""

from __future__ import annotations

import ipaddress
import os
import sys
from typing import Any

LOG = os.environ["GUARD_LOG"]
RESOLVING = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
CONNECTING = {"socket.connect", "socket.sendto", "socket.sendmsg"}


def _note(text: str) -> None:
    file = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{text}\n".encode())
    os.close(file)


def _is_here(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else str(host)
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name in ("localhost", "", "None")


def _guard(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        name = str(arguments[0]).rpartition("/")[2]
        if name in (".env", ".env.local"):
            _note(f"file {name}")
        return
    if event in RESOLVING:
        host = arguments[0]
    elif event in CONNECTING and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    if not _is_here(host):
        _note(f"host {host.decode() if isinstance(host, bytes) else host}")
        raise OSError(f"the tests allow no connection to {host}")


sys.addaudithook(_guard)
_note("guarded")
