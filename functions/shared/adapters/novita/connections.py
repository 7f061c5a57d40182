"""HTTP connections on which no server can hold us longer than the time given, however slowly it drips."""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from http.cookiejar import DefaultCookiePolicy
from threading import Lock, Timer
from types import TracebackType
from typing import Any, Self

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError
from urllib3.response import HTTPResponse
from urllib3.util.connection import allowed_gai_family, create_connection

from functions.shared.adapters.dialling import first_reached


class Alarm:
    """Calls `ring` once after so many seconds, unless it was left by then."""

    def __init__(self, seconds: float, ring: Callable[[], object]) -> None:
        self.rang = False
        self._left = False
        self._ring = ring
        self._lock = Lock()
        self._timer = Timer(max(seconds, 0), self._go)
        self._timer.daemon = True

    def _go(self) -> None:
        with self._lock:
            if self._left:
                return
            self.rang = True
            with suppress(OSError, RuntimeError, ValueError):  # the connection was closed in the meantime
                self._ring()

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._left = True
        self._timer.cancel()


def _answered_in_time(connection: HTTPConnection, getresponse: Callable[[], HTTPResponse]) -> HTTPResponse:
    """A socket's time-out starts again with every packet; this one does not."""
    open_socket: socket.socket = connection.sock
    with Alarm(connection.timeout or 0, lambda: open_socket.shutdown(socket.SHUT_RDWR)) as alarm:
        try:
            response = getresponse()
        except (OSError, HTTPException, ValueError) as error:  # the last from a TLS socket shut down
            if alarm.rang:
                raise TimeoutError("the headers did not arrive in time") from error
            raise
    if alarm.rang:  # headers that break off pass for complete ones
        response.close()
        raise TimeoutError("the headers did not arrive in time")
    return response


def _connected_in_time(connection: HTTPConnection) -> socket.socket:
    """urllib3 itself gives every address of the host the whole time."""
    whole = connection.timeout or 0
    until = time.monotonic() + whole

    def left() -> float:
        seconds = until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    def reach(address: tuple[str, int], seconds: float) -> socket.socket:
        return create_connection(address, seconds, socket_options=connection.socket_options)

    try:
        rows = socket.getaddrinfo(connection.host, connection.port, allowed_gai_family(), socket.SOCK_STREAM)
        addresses = [(str(row[4][0]), connection.port) for row in rows]
        reached = first_reached(addresses, reach, left)
        reached.settimeout(left())  # for the handshake that may follow
    except TimeoutError as error:
        raise ConnectTimeoutError(connection, f"not reached within {whole} s") from error
    except (OSError, UnicodeError) as error:
        raise NewConnectionError(connection, "not reached") from error
    return reached


class _Http(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _connected_in_time(self)

    def getresponse(self) -> HTTPResponse:  # type: ignore[override] # as urllib3 itself has it
        return _answered_in_time(self, super().getresponse)


class _Https(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _connected_in_time(self)

    def connect(self) -> None:
        try:
            super().connect()
        except TimeoutError as error:  # in the TLS handshake, as below: nothing was sent
            raise ConnectTimeoutError(self, "no TLS in time") from error
        except OSError as error:
            raise NewConnectionError(self, "no TLS") from error

    def getresponse(self) -> HTTPResponse:  # type: ignore[override] # as urllib3 itself has it
        return _answered_in_time(self, super().getresponse)


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _Https


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}


def session() -> requests.Session:
    """No retries, cookies, proxies or .netrc of its own: what is sent is what the client says."""
    made = requests.Session()
    made.trust_env = False
    made.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    made.mount("http://", _Adapter(max_retries=0))
    made.mount("https://", _Adapter(max_retries=0))
    return made
