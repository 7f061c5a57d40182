"""A small real HTTP server that answers what a test says, and remembers what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOST = 0  # as a status: done, and the connection ends without an answer


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Said:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class SmallServer:
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    answers: list[Said] = field(default_factory=list)  # one after the other; then `otherwise`
    otherwise: Callable[[Asked], Said] = lambda _asked: Said(200, {})

    def say(self, status: int = 200, body: Any = None, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append(Said(status, body, named))

    def answer(self, asked: Asked) -> Said:
        self.asked.append(asked)
        return self.answers.pop(0) if self.answers else self.otherwise(asked)


def failure(code: str, message: str = "it is so", **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "requestId": "req-1", "retryable": False, **more}}


@contextmanager
def small_server() -> Iterator[SmallServer]:
    server = SmallServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(text) if text else None
            said = server.answer(Asked(self.command, self.path, dict(self.headers.items()), body))
            if said.status == LOST:
                self.close_connection = True
                self.connection.close()
                return
            sent = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
            self.send_response(said.status)
            for name, value in {"Content-Length": str(len(sent)), **said.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815  # http.server's own names

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # http.server's own name
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
