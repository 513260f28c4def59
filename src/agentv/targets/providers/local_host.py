"""Serves a model file with llama.cpp: `python local_host.py SOCKET SETTINGS`, where SETTINGS is JSON.

Started by `local_server.py`, as a process of its own: llama.cpp blocks, and ends its process if it runs out of memory.
The address and the key of the server are sent through the socket, so that no other process can read them. The process
ends when the runtime closes the socket.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import socket
import sys
import traceback
from urllib.parse import urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

QUOTA = "/sys/fs/cgroup/cpu.max"
"""Microseconds of CPU time per period that a container may use."""
WARNINGS = 2
"""Level of the log: warnings and errors, without a line per request."""


def start(settings: dict[str, Any], key: str) -> Any:
    """The running server. Raises RuntimeError, after llama.cpp has written the reason to stderr."""
    import xllamacpp  # noqa: PLC0415 - an optional package

    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.model_alias = {settings["name"]}
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["context"] * settings["slots"]
    threads = settings["threads"] or fewer_cores()
    if threads is not None:
        params.cpuparams.n_threads = threads
    params.api_keys = [key]
    params.verbosity = WARNINGS
    params.cache_ram_mib = 0  # would keep up to 8 GiB of earlier prompts in memory
    params.ui = False
    params.offline = True
    return xllamacpp.Server(params)


def fewer_cores() -> int | None:
    """The cores that this process may use, if they are fewer than those of the machine, which llama.cpp counts."""
    here = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else here
    try:
        with open(QUOTA, encoding="ascii") as file:  # noqa: PTH123 - as imports
            quota, period = file.read().split()
        allowed = min(allowed, max(1, int(quota) // int(period)))
    except (OSError, ValueError):  # no cgroup, or no quota ("max")
        pass
    return allowed if allowed < here else None


def properties(url: str, key: str) -> dict[str, Any]:
    """What the server says about its model."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    connection.request("GET", "/props", headers={"Authorization": f"Bearer {key}"})
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def main(path: str, settings: str) -> None:
    os.dup2(2, 1)  # what the library prints is log output
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    key = secrets.token_urlsafe(32)
    server = start(json.loads(settings), key)
    url = server.listening_address
    tools = bool(properties(url, key).get("chat_template_caps", {}).get("supports_tools"))
    ready = json.dumps({"url": url, "key": key, "tools": tools}).encode()
    connection.sendall(b"ready 0 %d\n%b" % (len(ready), ready))
    while connection.recv(4096):
        pass


if __name__ == "__main__":
    code = 0
    try:
        main(*sys.argv[1:])
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)  # does not wait for answers that are no longer needed, or for threads of the library
