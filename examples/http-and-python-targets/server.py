"""The same application as an HTTP API: `python server.py [PORT]`. With `?stream=true`, it streams its answers."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from shop import find


class Shop(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != "Bearer local-token":
            self.reply(401, json.dumps({"error": "the token is wrong"}))
            return
        text = find(body["question"])
        if "stream=true" in self.path:
            events = [{"delta": word + " "} for word in text.split()]
            lines = [f"data: {json.dumps(event)}\n\n" for event in events]
            self.reply(200, "".join([*lines, "data: [DONE]\n\n"]), "text/event-stream")
            return
        usage = {"prompt_tokens": len(body["question"].split()), "completion_tokens": len(text.split())}
        self.reply(200, json.dumps({"result": {"answer": text}, "usage": usage}))

    def reply(self, status: int, text: str, kind: str = "application/json") -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8765), Shop)
    print(f"listening on port {server.server_port}", flush=True)
    server.serve_forever()
