"""Requests to places that strangers name: the checked address is the one dialled, and time and size end.

http.client rather than urllib3 or requests: it has no redirects, proxies, pools or retries to turn off,
takes a socket that is connected already, and boto3 has imported it anyway.
"""

import errno
import io
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

from functions.shared.domain.delivery.targets import (
    Address,
    BadTarget,
    HttpResponse,
    OutboundFailed,
    Target,
    forbidden_kind,
    networks,
    split_place,
    split_target,
)

_READ_BYTES = 16_384


A = TypeVar("A")


def first_reached(
    addresses: Sequence[A], reach: Callable[[A, float], socket.socket], left: Callable[[], float]
) -> socket.socket:
    """The first that answers. Each has its share of the time that is left; `left` raises when it is over."""
    for tried, address in enumerate(addresses, 1):
        try:
            return reach(address, left() / (len(addresses) - tried + 1))
        except OSError:
            if tried == len(addresses):
                raise
    raise OSError("no address to reach")


def public_tls() -> ssl.SSLContext:
    import certifi  # 30 ms, and only https needs it

    return ssl.create_default_context(cafile=certifi.where())


class OutboundHttp:
    def __init__(
        self,
        allow_cidrs: str = "",
        *,
        resolve: Callable[..., Sequence[tuple[Any, ...]]] = socket.getaddrinfo,
        dial: Callable[[tuple[str, int], float], socket.socket] = socket.create_connection,
        tls: Callable[[], ssl.SSLContext] = public_tls,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allowed = networks(allow_cidrs)
        self._resolve = resolve
        self._dial = dial
        self._make_tls = tls
        self._clock = clock

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_total: float,
        cap_bytes: int,
    ) -> HttpResponse:
        """The answer, however far its body came; raises OutboundFailed when there is none."""
        began = self._clock()
        with _named_failures():
            target = split_target(url)
            left = self._until(began + timeout_total)
            with (
                closing(self._open(target, left)) as plain,
                closing(self._secured(plain, target, left)) as sock,
            ):
                address = str(sock.getpeername()[0])
                response = _asked(_Timed(sock, left), target, method, headers or {}, body)
                received, cut = _received(response, cap_bytes)
        kept = {name.lower(): value for name, value in response.getheaders()}
        return HttpResponse(response.status, kept, received, self._clock() - began, address, cut)

    def connect(self, host: str, port: int, timeout: float) -> None:
        """Raises OutboundFailed unless something listens there."""
        with _named_failures():
            target = split_place(host, port)
            self._open(target, self._until(self._clock() + timeout)).close()

    def _until(self, end: float) -> Callable[[], float]:
        def left() -> float:
            seconds = end - self._clock()
            if seconds <= 0:
                raise TimeoutError
            return seconds

        return left

    def _open(self, target: Target, left: Callable[[], float]) -> socket.socket:
        addresses = [target.address] if target.address else self._looked_up(target, left)
        kinds = sorted(
            {kind for kind in (forbidden_kind(address, self._allowed) for address in addresses) if kind}
        )
        if kinds:
            raise BadTarget(f"must lead to public addresses only; {target.host} is {', '.join(kinds)}")
        if not addresses:
            raise OutboundFailed("dns_resolution_failed", f"{target.host} has no address")
        return first_reached(addresses, lambda address, seconds: self._reach(address, target, seconds), left)

    def _looked_up(self, target: Target, left: Callable[[], float]) -> list[Address]:
        """The resolver cannot be interrupted, so it is left behind when the time is over."""
        found: SimpleQueue[Sequence[tuple[Any, ...]]] = SimpleQueue()

        def look() -> None:
            try:
                found.put(self._resolve(target.host, target.port, 0, socket.SOCK_STREAM))
            except (OSError, UnicodeError):
                found.put(())

        threading.Thread(target=look, daemon=True).start()
        try:
            rows = found.get(timeout=left())
        except Empty:
            raise OutboundFailed(
                "dns_resolution_failed", f"{target.host} was not resolved in time", timed_out=True
            ) from None
        return list(dict.fromkeys(ip_address(row[4][0]) for row in rows))

    def _reach(self, address: Address, target: Target, seconds: float) -> socket.socket:
        sock = self._dial((str(address), target.port), seconds)
        try:
            peer = ip_address(sock.getpeername()[0])
            if peer != address:
                raise BadTarget(f"must be reached at the address that was checked; {target.host} was not")
        except (BadTarget, OSError):
            sock.close()
            raise
        return sock

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._make_tls()

    def _secured(self, sock: socket.socket, target: Target, left: Callable[[], float]) -> socket.socket:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if target.scheme != "https":
            return sock
        context = self._tls
        sock.settimeout(left())
        return context.wrap_socket(sock, server_hostname=target.host)


class _Timed(io.RawIOBase):
    """What http.client uses of a socket; no call in it outlives the whole request's time."""

    def __init__(self, sock: socket.socket, left: Callable[[], float]) -> None:
        self._sock = sock
        self._left = left

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._sock.settimeout(self._left())
            view = view[self._sock.send(view) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(self._left())
        return self._sock.recv_into(buffer)

    def close(self) -> None:
        """http.client closes its socket before the body is read; the caller of all this closes it."""


def _asked(
    sock: _Timed, target: Target, method: str, headers: Mapping[str, str], body: bytes | None
) -> HTTPResponse:
    connection = HTTPConnection(target.host, target.port)
    connection.sock = cast(socket.socket, sock)
    ours = {"User-Agent": "Ostler/1", **headers, "Host": target.authority, "Connection": "close"}
    connection.request(method, target.path, body, ours)
    return connection.getresponse()


def _received(response: HTTPResponse, cap_bytes: int) -> tuple[bytes, str]:
    body = bytearray()
    try:
        while len(body) < cap_bytes:
            part = response.read1(min(cap_bytes - len(body), _READ_BYTES))
            if not part:
                return bytes(body), "invalid_response" if response.length else ""
            body += part
    except (OSError, HTTPException) as error:
        return bytes(body), _category(error)
    return bytes(body), ""


@contextmanager
def _named_failures() -> Iterator[None]:
    try:
        yield
    except BadTarget as error:
        raise OutboundFailed("refused_target", str(error)) from error
    except (OSError, HTTPException) as error:
        category, detail = _category(error), getattr(error, "verify_message", "")
        raise OutboundFailed(
            category, category.replace("_", " ") + (f": {detail}" if detail else "")
        ) from error


def _category(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, ConnectionRefusedError):
        return "connection_refused"
    if isinstance(error, ConnectionError) or getattr(error, "errno", None) == errno.ENOTCONN:
        return "connection_reset"
    if isinstance(error, ssl.SSLError):
        return "ssl_error"
    return "invalid_response" if isinstance(error, HTTPException) else "network_unreachable"
