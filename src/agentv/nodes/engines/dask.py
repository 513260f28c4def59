"""`tcp://` and `tls://`: the workers of a Dask cluster. Everything goes through the scheduler, so one port is enough.

Workers get a handler for frames (`dask_worker.py`); there are no tasks, actors or futures.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from agentv import __version__
from agentv.errors import NodesLostError, UsageError
from agentv.nodes.channel import Change, Joined, Left, NodeRefusedError
from agentv.nodes.engines import EngineAddress
from agentv.targets.nodes_section import TlsFiles

if TYPE_CHECKING:
    from agentv.nodes.engines.dask_wire import Wire

DEFAULT_PORT = 8786
PLUGIN = b"cagentv.nodes.engines.dask_worker\nNodePlugin\n)R."
"""`NodePlugin()` by reference, for `pickle.loads` in a worker. The driver itself neither pickles nor unpickles."""
OPERATION = "agentv_exchange"
PATIENCE = 15.0
"""How long a reply may take in addition to the time for which it is held back."""
SLOWEST = 100_000
"""Bytes per second of the slowest network that is usable."""
RETRY_SECONDS = 1.0
REFRESH_SECONDS = 60.0
"""Workers are listed again after this time, even without an event."""
MOST_EXCHANGES = 400
"""Exchanges at the same time. A scheduler has at most 512 connections to workers."""
MOST_IDLE = 64
MOST_SHOWN = 300


@dataclass(slots=True)
class DaskNode:
    """One worker, from its arrival until it has left."""

    address: str
    directory: str
    """The local directory of the worker, which differs for each process."""
    installing: asyncio.Lock = field(default_factory=asyncio.Lock)
    installs: int = 0


class DaskEngine:
    """The workers of a scheduler."""

    def __init__(self, address: EngineAddress) -> None:
        self.encrypted = address.scheme == "tls"
        self._text = address.text
        self._host, self._port = _host_and_port(address)
        self._context, self._server_name = _security(address)
        self._client = f"agentv-{secrets.token_hex(8)}"
        self._nodes: dict[str, DaskNode] = {}
        self._used: dict[str, int] = {}
        """How many workers had this address."""
        self._idle: list[Wire] = []
        self._stream: Wire | None = None
        self._exchanges = asyncio.Semaphore(MOST_EXCHANGES)

    async def __aenter__(self) -> Self:
        try:
            self._stream = await self._subscribed()
        except (OSError, EOFError, NodeRefusedError) as error:
            raise NodesLostError(
                f"cannot connect to the Dask scheduler {self._text}: {_reason(error)}", next_step=self._advice(error)
            ) from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with contextlib.suppress(OSError):
                async with asyncio.timeout(1):
                    await stream.write([{"op": "unsubscribe-topic", "topic": "all"}, {"op": "close-stream"}])
            stream.close()
        self._forget_idle()
        await asyncio.sleep(0)  # lets the connections close

    def _advice(self, error: BaseException) -> str:
        if isinstance(error, ssl.SSLError):
            return (
                "Check the files of `nodes: {tls: ...}`: authority, certificate and key must be those of the cluster."
            )
        if isinstance(error, EOFError | ConnectionResetError):
            return (
                "Check that the scheduler accepts the driver's certificate, and that it uses TLS."
                if self.encrypted
                else "If the scheduler uses TLS, its address begins with tls://."
            )
        return "Check that the scheduler is running and can be reached from this machine."

    # -- nodes

    async def changes(self) -> AsyncIterator[Change]:
        """Workers that join and leave. Without a connection to the scheduler, nothing is known to have changed."""
        while True:
            changed = asyncio.Event()
            reading: asyncio.Task[None] | None = None
            try:
                stream = self._stream or await self._subscribed()
                self._stream = stream
                reading = asyncio.get_running_loop().create_task(_events(stream, changed))
                while not reading.done():
                    changed.clear()
                    for change in self._difference(await self._workers()):
                        yield change
                    await _either(changed, reading, REFRESH_SECONDS)
                    # Many workers may join at the same time, and each list names all of them.
                    await asyncio.sleep(min(1.0, len(self._nodes) / 1000))
            except (OSError, EOFError, NodeRefusedError):
                pass
            finally:
                if reading is not None:
                    reading.cancel()
                    await asyncio.wait({reading})
            if self._stream is not None:
                self._stream.close()
                self._stream = None
            self._forget_idle()
            await asyncio.sleep(RETRY_SECONDS)

    async def _subscribed(self) -> Wire:
        """A connection that gets the events of the scheduler."""
        stream = await self._connected()
        try:
            async with asyncio.timeout(PATIENCE):
                register = {"op": "register-client", "client": self._client, "reply": False}
                await stream.write({**register, "versions": {"packages": {}}})
                await stream.read()
                await stream.write([{"op": "subscribe-topic", "topic": "all"}])
        except BaseException:
            stream.close()
            raise
        return stream

    async def _workers(self) -> dict[str, str]:
        """The addresses of all workers, with their local directories."""
        reply = await self._call({"op": "identity"}, PATIENCE)
        workers = reply.get("workers") if isinstance(reply, dict) else None
        if not isinstance(workers, dict):
            raise OSError("the scheduler does not list its workers")
        return {
            address: str(worker.get("local_directory")) if isinstance(worker, dict) else ""
            for address, worker in workers.items()
            if isinstance(address, str) and len(address) <= 200 and address.isprintable()
        }

    def _difference(self, workers: Mapping[str, str]) -> list[Change]:
        changes: list[Change] = []
        for name, node in list(self._nodes.items()):
            if workers.get(node.address) != node.directory:
                del self._nodes[name]
                changes.append(Left(name))
        present = {node.address for node in self._nodes.values()}
        for address, directory in workers.items():
            if address not in present:
                count = self._used[address] = self._used.get(address, 0) + 1
                name = address if count == 1 else f"{address}#{count}"
                self._nodes[name] = DaskNode(address, directory)
                changes.append(Joined(name))
        return changes

    # -- frames

    async def exchange(self, node: str, frame: bytes, hold: float) -> bytes:
        worker = self._nodes.get(node)
        if worker is None:
            raise ConnectionError("the worker has left")
        # With many nodes, those that wait must not use up the connections of the scheduler.
        hold = min(hold, hold * MOST_EXCHANGES / 2 / len(self._nodes))
        request = {"op": OPERATION, "frame": frame, "hold": hold}
        async with self._exchanges:
            installs = worker.installs
            reply = await self._proxied(worker, request, hold + len(frame) / SLOWEST)
            if reply is None:  # there is no such handler
                async with worker.installing:
                    if worker.installs == installs:
                        await self._install(worker)
                reply = await self._proxied(worker, request, hold + len(frame) / SLOWEST)
        match reply:
            case {"frame": bytes(content)}:
                return content
            case {"refused": str(reason)}:
                raise NodeRefusedError(reason)
            case {"failed": str(reason)}:
                raise ConnectionError(reason)
            case None:
                raise ConnectionError("the worker has removed the plugin of agentv")
        raise NodeRefusedError("it sent an object instead of bytes, which was not read")

    async def _install(self, worker: DaskNode) -> None:
        """Add the plugin to a worker, which starts a node process there."""
        name = f"agentv-{secrets.token_hex(8)}"  # to add a plugin with a known name ends the one that is there
        try:
            reply = await self._proxied(worker, {"op": "plugin-add", "plugin": PLUGIN, "name": name})
        except OSError as error:
            if not any(kind in str(error) for kind in ("ModuleNotFoundError", "ImportError", "AttributeError")):
                raise
            reply = {"exception_text": str(error)}
        if not isinstance(reply, dict) or reply.get("status") != "OK":
            text = _unwrapped(str(reply.get("exception_text") if isinstance(reply, dict) else reply))
            raise NodeRefusedError(
                f"its Dask worker cannot start agentv: {text}",
                next_step=f"Install the driver's version on the node: pip install 'agentv[dask]=={__version__}'",
            )
        worker.installs += 1

    async def _proxied(self, worker: DaskNode, message: Mapping[str, Any], patience: float = 0.0) -> Any:
        """Send a request to a worker, through the scheduler."""
        serializers = ["msgpack", "error"]
        request = {"op": "proxy", "worker": worker.address, "msg": message, "serializers": serializers}
        return await self._call(request, PATIENCE + patience)

    async def _call(self, message: Mapping[str, Any], patience: float) -> Any:
        while self._idle and self._idle[-1].is_closed:
            self._idle.pop().close()
        wire = self._idle.pop() if self._idle else await self._connected()
        try:
            reply = await wire.call({**message, "reply": True}, patience)
        except EOFError:
            wire.close()
            self._forget_idle()
            raise ConnectionError("the scheduler has closed the connection") from None
        except BaseException:
            wire.close()  # a late reply must not be taken for that of another call
            raise
        if len(self._idle) < MOST_IDLE:
            self._idle.append(wire)
        else:
            wire.close()
        return reply

    async def _connected(self) -> Wire:
        from agentv.nodes.engines.dask_wire import Wire  # noqa: PLC0415 - needs the extra `dask`

        return await Wire.connect(self._host, self._port, self._context, self._server_name)

    def _forget_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


async def _events(stream: Wire, changed: asyncio.Event) -> None:
    """Set `changed` for each event about workers, until the connection ends.

    Any worker can publish events, so they are only a reason to look.
    """
    try:
        while True:
            messages = await stream.read()
            for message in messages if isinstance(messages, list) else ():
                match message:
                    case {"op": "event", "event": [_, {"action": "add-worker" | "remove-worker"}]}:
                        changed.set()
    except (OSError, EOFError, NodeRefusedError):
        pass


async def _either(changed: asyncio.Event, reading: asyncio.Task[None], seconds: float) -> None:
    waiting = asyncio.get_running_loop().create_task(changed.wait())
    try:
        await asyncio.wait({waiting, reading}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


def _host_and_port(address: EngineAddress) -> tuple[str, int]:
    parts = urlsplit(f"//{address.rest}")
    try:
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:
        host = None
    if not host or parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None:
        raise UsageError(
            f"--on {address.scheme}://... must be the host and port of a Dask scheduler, got '{address.text}'",
            next_step=f"For example: {address.scheme}://scheduler:{DEFAULT_PORT}",
        )
    return host, port


def _security(address: EngineAddress) -> tuple[ssl.SSLContext | None, str | None]:
    """The TLS context, and the name that the scheduler's certificate must have, if that is checked."""
    try:
        from distributed.security import Security  # noqa: PLC0415 - an extra, and slow
    except ImportError as error:
        raise UsageError(
            f"--on {address.text} needs the package distributed, which cannot be imported ({error})",
            next_step="Install it with: pip install 'agentv[dask]'",
        ) from None
    files: TlsFiles | None = address.settings.tls
    tls = {} if files is None else _tls_options(files)
    try:
        options = Security(**tls).get_connection_args("client")  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError) as error:  # ssl.SSLError is an OSError
        source = "the configuration of Dask" if files is None else f"{files.ca}, {files.cert} and {files.key}"
        raise UsageError(
            f"the TLS files cannot be used ({source}): {error}",
            next_step="`nodes: {tls: {ca, cert, key}}` names PEM files; the key must fit the certificate.",
        ) from None
    context = options["ssl_context"]
    if address.scheme == "tcp":
        if options["require_encryption"] and files is None:
            raise UsageError(
                f"the configuration of Dask requires encryption, which {address.text} does not have",
                next_step=f"Use tls://{address.rest}.",
            )
        return None, None
    if not isinstance(context, ssl.SSLContext):
        raise UsageError(
            f"--on {address.text} needs TLS files, and there are none",
            next_step="Set `nodes: {tls: {ca, cert, key}}` in the configuration, or TLS in the configuration of Dask.",
        )
    name = options["extra_conn_args"].get("server_hostname")
    return context, name if isinstance(name, str) else None


def _tls_options(files: TlsFiles) -> dict[str, Any]:
    return {
        "tls_ca_file": files.ca,
        "tls_client_cert": files.cert,
        "tls_client_key": files.key,
        "require_encryption": True,
    }


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer"
    if isinstance(error, EOFError):
        return "it closed the connection"
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return str(error) or type(error).__name__


def _unwrapped(text: str) -> str:
    """The text of an exception that the scheduler has received as `Exception("...")` and sent as a string."""
    inner = text.removeprefix("Exception(").removesuffix(")") if text.startswith("Exception(") else text
    return inner.strip("'\"").replace("\\'", "'").replace('\\"', '"')[:MOST_SHOWN]
