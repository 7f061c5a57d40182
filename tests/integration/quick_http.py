"""Sending botocore's requests to the emulator over connections of our own.

botocore's own way of sending costs as much as the emulator's work, and the tests make tens of thousands of
calls. Everything before and after it stays botocore's: parameters, serialisation, events, parsing, errors.
Whoever `stands_in` for an address in this process is asked without a connection.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
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
    except (OSError, HTTPException) as error:  # as botocore's own sender says it, so that it is tried again
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
    connection = _connection(place)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        content = response.read()
    except BaseException:
        _kept.connections.pop(place, None)
        raise
    return response.status, dict(response.headers.items()), content


def _connection(place: str) -> HTTPConnection:
    connections: dict[str, tuple[HTTPConnection, float]] = _kept.__dict__.setdefault("connections", {})
    connection, used_at = connections.get(place, (None, 0.0))
    if connection is None or time.monotonic() - used_at > _IDLE_SECONDS:
        connection = HTTPConnection(place, timeout=60)
    connections[place] = (connection, time.monotonic())
    return connection
