"""Sending botocore's requests to the emulator over connections of our own.

botocore's own way of sending costs as much as the emulator's work, and the tests make tens of thousands of
calls. Everything before and after it stays botocore's: parameters, serialisation, events, parsing, errors.
Whoever `stands_in` for an address in this process is asked without a connection.
"""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import local
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSResponse, HeadersDict
from botocore.exceptions import ConnectionClosedError

_IDLE_SECONDS = 2.0  # the emulator closes what was idle for longer, and a request would meet that
_kept = local()

Exchanged = tuple[int, dict[str, str], bytes]  # status, headers and body of the answer
Exchange = Callable[[str, str, bytes | None, dict[str, str]], Exchanged]  # method, path, body and headers
_stand_ins: dict[str, Exchange] = {}


def send_quickly(client: Any) -> Any:
    client.meta.events.register("before-send", _send)
    return client


@dataclass(frozen=True)
class _Raw:
    body: bytes

    def stream(self) -> Iterator[bytes]:
        yield self.body


def _send(request: Any, **_: Any) -> AWSResponse:
    headers = {
        name: value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()
    }
    parts = urlsplit(request.url)
    path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    form = request.body.encode() if isinstance(request.body, str) else request.body
    try:
        status, answered, body = exchange(request.url, request.method, path, form, headers)
    except OSError as error:  # as botocore's own sender says it, so that it is tried again
        raise ConnectionClosedError(endpoint_url=request.url) from error
    headers_read: Any = HeadersDict(answered)  # what the response makes of any itself
    return AWSResponse(request.url, status, headers_read, _Raw(body))


@contextmanager
def stands_in(place: str, asked: Exchange) -> Iterator[None]:
    """What is sent to that host is asked of this one; no answer is an OSError."""
    _stand_ins[place] = asked
    try:
        yield
    finally:
        del _stand_ins[place]


def exchange(url: str, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Exchanged:
    """One call, over a connection that is kept."""
    place = urlsplit(url).netloc
    if asked := _stand_ins.get(place):
        return asked(method, path, body, headers)
    named = {"Host": place} | headers | {"Content-Length": str(len(body or b""))}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    connection = _connection(place)
    try:
        connection.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + (body or b""))  # in one piece
        status, answered, content = _answer(connection)
    except BaseException:
        _forget(place)
        raise
    if answered.get("connection") == "close":  # it has had its share
        _forget(place)
    return status, answered, content


def _answer(connection: socket.socket) -> Exchanged:
    received = b""
    while (end := received.find(b"\r\n\r\n")) < 0:
        received += _more(connection)
    first, *lines = received[:end].decode("latin-1").split("\r\n")
    named = (line.split(": ", 1) for line in lines)
    headers = {name.lower(): value for name, value in named}
    while len(received) < end + 4 + int(headers["content-length"]):
        received += _more(connection)
    return int(first.split()[1]), headers, received[end + 4 :]


def _more(connection: socket.socket) -> bytes:
    if more := connection.recv(1 << 20):
        return more
    raise ConnectionResetError


def _forget(place: str) -> None:
    _kept.connections.pop(place)[0].close()


def _connection(place: str) -> socket.socket:
    connections: dict[str, tuple[socket.socket, float]] = _kept.__dict__.setdefault("connections", {})
    connection, used_at = connections.get(place, (None, 0.0))
    if connection is None or time.monotonic() - used_at > _IDLE_SECONDS:
        host, _, port = place.partition(":")
        connection = socket.create_connection((host, int(port)), timeout=60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connections[place] = (connection, time.monotonic())
    return connection
