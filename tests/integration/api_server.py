"""The API function behind a port: real handlers over the emulated AWS, for clients that need HTTP."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, unquote

from functions.api.handler import handler
from tests.integration.harness import Context, Harness


@contextmanager
def serving(harness: Harness) -> Iterator[str]:
    """Its address. One request after the other, as the harness is one process of every function."""

    class Handler(BaseHTTPRequestHandler):
        wbufsize = -1  # or every answer would wait 40 ms for an acknowledgement

        def answer(self) -> None:
            path, _, query = self.path.partition("?")
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length)
            event = {
                "rawPath": unquote(path),
                "rawQueryString": query,
                "queryStringParameters": _joined(query),
                "headers": {name.lower(): value for name, value in self.headers.items()},
                "requestContext": {
                    "http": {"method": self.command, "path": unquote(path), "sourceIp": "127.0.0.1"},
                    "stage": "$default",
                    "requestId": "gateway",
                },
                "body": body.decode("utf-8", "replace") if body else None,
            }
            with harness.wire.handling("api"):
                said = handler(event, Context())
            text = str(said["body"]).encode()
            sent = base64.b64decode(text) if said.get("isBase64Encoded") else text
            self.send_response(said["statusCode"])
            for name, value in {**said["headers"], "Content-Length": str(len(sent))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent)
            self.wfile.flush()

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = do_TRACE = do_QUERY = answer  # noqa: N815  # http.server's own names

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # http.server's own name
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _joined(query: str) -> dict[str, str]:
    """Values of a repeated name together, as the gateway hands them on."""
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return {name: ",".join(values) for name, values in found.items()}
