"""A loopback OpenTelemetry collector for tests, which parses spans with the official protobuf classes."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Collector:
    """What arrived. `statuses` are the replies to the first requests; later requests get 200."""

    statuses: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    accepted: list[bytes] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    """Replies wait for this."""
    url: str = ""

    def spans(self) -> list[Any]:
        return [span for body in self.accepted for span in parsed_spans(body)]


def parsed(body: bytes | str) -> Any:
    """One OTLP message in JSON as a protobuf message. Raises if a field or a value is not valid."""
    data = json.loads(body)
    for spans in data["resourceSpans"]:
        for scope in spans["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:  # hexadecimal in OTLP, base64 in the usual JSON form of protobuf
                        span[name] = b64encode(bytes.fromhex(span[name])).decode()
    return json_format.ParseDict(data, ExportTraceServiceRequest())


def parsed_spans(body: bytes | str) -> list[Any]:
    return [span for one in parsed(body).resource_spans for scope in one.scope_spans for span in scope.spans]


def attributes(item: Any) -> dict[str, Any]:
    """The attributes of a span, an event or a resource, as Python values."""
    return {pair.key: _value(pair.value) for pair in item.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(item) for item in value.array_value.values] if kind == "array_value" else getattr(value, kind)


@contextmanager
def collector(*statuses: int, released: bool = True) -> Iterator[Collector]:
    """A collector on loopback. With `released=False`, replies wait until the test sets `released`."""
    state = Collector(list(statuses))
    if released:
        state.released.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.bodies.append(body)
            state.headers.append({name.lower(): value for name, value in self.headers.items()})
            state.paths.append(self.path)
            state.arrived.set()
            state.released.wait(60)
            status = state.statuses.pop(0) if state.statuses else 200
            if status == 200:
                state.accepted.append(body)
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            state.released.set()
            server.shutdown()
            thread.join()
