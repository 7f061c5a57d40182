"""One exchange over HTTP, within its time and size, as a value: no error of `requests` gets out."""

import json
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from http.client import HTTPException
from http.cookiejar import DefaultCookiePolicy
from threading import Lock, Timer
from types import TracebackType
from typing import Any, Self

import requests
from botocore.exceptions import BotoCoreError, ClientError
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    MaxRetryError,
    NewConnectionError,
    ReadTimeoutError,
)
from urllib3.response import HTTPResponse
from urllib3.util import Timeout
from urllib3.util.connection import allowed_gai_family, create_connection

from functions.shared.domain.errors import NotNow, NovitaRefused
from functions.shared.domain.resilience import retry_after_seconds
from functions.shared.novita.calls import NoResponse, NovitaCall, NovitaKey, NovitaResponse
from functions.shared.outbound.http import first_reached
from functions.shared.platform.observability import logger


class Watchdog:
    """Calls `act` once after so many seconds, unless it was left by then."""

    def __init__(self, seconds: float, act: Callable[[], object]) -> None:
        self.fired = False
        self._left = False
        self._act = act
        self._lock = Lock()
        self._timer = Timer(max(seconds, 0), self._go)
        self._timer.daemon = True

    def _go(self) -> None:
        with self._lock:
            if self._left:
                return
            self.fired = True
            with suppress(OSError, RuntimeError, ValueError):  # the connection was closed in the meantime
                self._act()

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
    with Watchdog(connection.timeout or 0, lambda: open_socket.shutdown(socket.SHUT_RDWR)) as watchdog:
        try:
            response = getresponse()
        except (OSError, HTTPException, ValueError) as error:  # the last from a TLS socket shut down
            if watchdog.fired:
                raise TimeoutError("the headers did not arrive in time") from error
            raise
    if watchdog.fired:  # headers that break off pass for complete ones
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

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3 itself has it
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

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]  # as urllib3 itself has it
        return _answered_in_time(self, super().getresponse)


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _Https


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}


def new_session() -> requests.Session:
    """No retries, cookies, proxies or .netrc of its own: what is sent is what the client says."""
    made = requests.Session()
    made.trust_env = False
    made.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    made.mount("http://", _Adapter(max_retries=0))
    made.mount("https://", _Adapter(max_retries=0))
    return made


MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_IDLE = timedelta(seconds=20)  # a connection older than this may have died while the function was frozen
SHORTEST_MASKED = 8
LONGEST_PAUSE_SECONDS = 3600.0  # a wrong Retry-After must not stop the fleet for longer
# What requests and urllib3 raise, and what a TLS socket says that the watchdog has shut down.
FAILED = (OSError, HTTPError, ValueError)
_KEY = re.compile(r"[\x21-\x7e]+")
_CORRELATION = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Transport:
    def __init__(
        self,
        base_url: str,
        *,
        key: Callable[[], NovitaKey],
        correlation: Callable[[], str],
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._account_url = self._base_url.replace("/gpu-instance/", "/", 1)
        self._key = key
        self._correlation = correlation
        self._clock = clock
        self._now = now
        self._session = new_session()
        self._used_at = now()

    def send(
        self, call: NovitaCall, *, connect_timeout: float, read_timeout: float, at_most: float
    ) -> NovitaResponse | NoResponse:
        until = self._clock() + at_most
        limits = Timeout(connect=connect_timeout, read=read_timeout, total=at_most)
        key = self.usable_key()
        try:
            if not call.buys:
                return self._exchange(self._warm_session(), call, key, limits, until)
            # A connection of its own: one that died unnoticed would make the outcome unclear.
            with new_session() as fresh:
                return self._exchange(fresh, call, key, limits, until)
        except FAILED as error:
            return _lost(error)

    def _exchange(
        self, session: requests.Session, call: NovitaCall, key: NovitaKey, limits: Any, until: float
    ) -> NovitaResponse | NoResponse:
        response = session.request(
            call.method,
            (self._account_url if call.account_api else self._base_url) + call.path,
            params=call.query,
            data=None if call.body is None else json.dumps(call.body).encode(),
            headers=self._headers(key.value),
            timeout=limits,  # the adapter takes urllib3's Timeout, though the stubs do not say so
            stream=True,
            allow_redirects=False,
        )
        needs_body = response.status_code < 300 and not call.acts
        with response, Watchdog(until - self._clock(), response.raw.shutdown) as watchdog:
            try:
                raw = _read(response)
            except FAILED as error:
                if needs_body:
                    return NoResponse(timed_out=watchdog.fired or _timed_out(error), sent=True)
                raw = None  # the status is known, and says enough
        if watchdog.fired and needs_body:
            return NoResponse(timed_out=True, sent=True)
        wait = retry_after_seconds(response.headers.get("Retry-After"), self._now(), LONGEST_PAUSE_SECONDS)
        return NovitaResponse(response.status_code, _parsed(raw, key.value), wait, key.version)

    def _headers(self, key: str) -> dict[str, str]:
        headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "User-Agent": "ostler",
        }
        correlation = self._correlation()
        return headers | ({"X-Correlation-ID": correlation} if _CORRELATION.fullmatch(correlation) else {})

    def usable_key(self) -> NovitaKey:
        """A key that no header can carry would be repeated in the error about it."""
        try:
            given = self._key()
            key = given.value.strip()
        except (ClientError, BotoCoreError) as error:
            logger.warning("novita key not read", error=type(error).__name__)
            raise NotNow("NOVITA_UNAVAILABLE", "The Novita key cannot be read; nothing was sent") from error
        if not _KEY.fullmatch(key):
            raise NovitaRefused("NOVITA_AUTHENTICATION_FAILED", "The Novita key is empty or not a key")
        return NovitaKey(key, given.version)

    def _warm_session(self) -> requests.Session:
        now = self._now()
        if now - self._used_at > MAX_IDLE:
            self._session.close()  # drops the idle connections; the session makes new ones
        self._used_at = now
        return self._session


def _read(response: requests.Response) -> bytes | None:
    """The body, or None where it is larger than any answer of Novita's should be."""
    raw = bytearray()
    for chunk in response.iter_content(64 * 1024):
        raw += chunk
        if len(raw) > MAX_BODY_BYTES:
            return None
    return bytes(raw)


def _parsed(raw: bytes | None, key: str) -> Any:
    """The key is taken out of an answer that repeats it, before anybody can quote it."""
    if not raw:
        return None
    if len(key) >= SHORTEST_MASKED:
        raw = raw.replace(key.encode(), b"***")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _lost(error: Exception) -> NoResponse:
    if isinstance(error, requests.ConnectTimeout):
        return NoResponse(timed_out=True, sent=False)
    cause = error.args[0] if error.args else None
    connected = not (isinstance(cause, MaxRetryError) and isinstance(cause.reason, NewConnectionError))
    return NoResponse(timed_out=_timed_out(error), sent=connected)


def _timed_out(error: Exception) -> bool:
    cause = error.args[0] if error.args else None
    return isinstance(error, requests.Timeout | TimeoutError) or isinstance(cause, ReadTimeoutError)
