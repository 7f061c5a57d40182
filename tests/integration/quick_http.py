"""Sending botocore's requests to the emulator over connections of our own.

botocore's own way of sending costs as much as the emulator's work, and the tests make tens of thousands of
calls. Everything before and after it stays botocore's: parameters, serialisation, events, parsing, errors.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from threading import local
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSResponse, HeadersDict
from botocore.exceptions import ConnectionClosedError

_IDLE_SECONDS = 2.0  # the emulator closes what was idle for longer, and a request would meet that
_kept = local()


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
    try:
        status, answered, body = exchange(request.url, request.method, path, request.body, headers)
    except (OSError, HTTPException) as error:  # as botocore's own sender says it, so that it is tried again
        raise ConnectionClosedError(endpoint_url=request.url) from error
    headers_read: Any = HeadersDict(answered)  # what the response makes of any itself
    return AWSResponse(request.url, status, headers_read, _Raw(body))


def exchange(
    url: str, method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> tuple[int, dict[str, str], bytes]:
    """One call over a connection that is kept: status, headers and body of the answer."""
    place = urlsplit(url).netloc
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
