"""A fake of the package `xllamacpp`, copied to a directory of its own: the interface that agentv uses, without a model.

The content of the model file and the prompt say what happens.
"""

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class CommonParams:
    def __init__(self) -> None:
        self.model, self.cpuparams = SimpleNamespace(path=""), SimpleNamespace(n_threads=-1)


REFUSED = {
    "long": (400, "request (4031 tokens) exceeds the available context size (2048 tokens), try increasing it"),
    "image": (500, "image input is not supported - hint: mmproj"),
}
"""Prompt -> the status and the message of the error."""


def answer(body: Any, params: Any) -> tuple[int, Any]:
    prompt = body["messages"][-1]["content"]
    if prompt in REFUSED:
        status, reason = REFUSED[prompt]
        return status, {"error": {"code": status, "message": reason}}
    if prompt == "die":
        print("llama.cpp: out of memory", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if prompt == "slow":
        time.sleep(0.2)
    (name,) = params.model_alias
    seen = {key: value for key, value in body.items() if key != "messages"}
    message = {"role": "assistant", "content": json.dumps([os.getpid(), seen])}
    choice = {"index": 0, "finish_reason": "length", "message": message}
    return 200, {"model": name, "choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}


def handler_of(params: Any, *, tools: bool) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def reply(self, status: int, value: Any) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.reply(200, {"chat_template_caps": {"supports_tools": tools}})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers["Authorization"] != f"Bearer {params.api_keys[0]}":
                self.reply(401, {"error": {"message": "Invalid API Key"}})
            else:
                self.reply(*answer(body, params))

    return Handler


class Server:
    def __init__(self, params: Any) -> None:
        model = Path(params.model.path).read_bytes()
        with Path(f"{params.model.path}.starts").open("a") as starts:
            starts.write(f"{os.getpid()} {params.n_ctx} {params.n_parallel} {params.cpuparams.n_threads}\n")
        if b"incomplete" in model:
            print("0.1 E llama_model_load: error loading model: the file is incomplete", file=sys.stderr)
            raise RuntimeError("Failed to init server")
        if b"memory" in model:
            print("0.1 E llama_init: failed to allocate buffer for kv cache", file=sys.stderr)
            raise RuntimeError("Failed to init server")
        if b"huge" in model:
            os.kill(os.getpid(), signal.SIGKILL)
        if b"slow" in model:
            time.sleep(1)

        server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(params, tools=b"tools" in model))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{server.server_address[1]}"
