"""One exchange over HTTP, within its time and size, told as a value: no error of `requests` gets out."""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import requests
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError, MaxRetryError, NewConnectionError, ReadTimeoutError
from urllib3.util import Timeout

from functions.shared.adapters.novita import connections
from functions.shared.adapters.novita.calls import Answer, Call, Lost
from functions.shared.domain import retry_after
from functions.shared.domain.errors import NotNow, NovitaRefused
from functions.shared.log import logger

MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_IDLE = timedelta(seconds=20)  # a connection older than this may have died while the function was frozen
SHORTEST_MASKED = 8
LONGEST_PAUSE_SECONDS = 3600.0  # a wrong Retry-After must not stop the fleet for longer
# What requests and urllib3 raise, and what a TLS socket says that the alarm has shut down.
FAILED = (OSError, HTTPError, ValueError)
_KEY = re.compile(r"[\x21-\x7e]+")
_CORRELATION = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Transport:
    def __init__(
        self,
        base_url: str,
        *,
        key: Callable[[], str],
        correlation: Callable[[], str],
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._key = key
        self._correlation = correlation
        self._clock = clock
        self._now = now
        self._session = connections.session()
        self._used_at = now()

    def send(
        self, call: Call, *, connect_timeout: float, read_timeout: float, at_most: float
    ) -> Answer | Lost:
        until = self._clock() + at_most
        limits = Timeout(connect=connect_timeout, read=read_timeout, total=at_most)
        key = self._usable_key()
        try:
            if not call.buys:
                return self._exchange(self._warm_session(), call, key, limits, until)
            # A connection of its own: one that died unnoticed would make the outcome unclear.
            with connections.session() as fresh:
                return self._exchange(fresh, call, key, limits, until)
        except FAILED as error:
            return _lost(error)

    def _exchange(
        self, session: requests.Session, call: Call, key: str, limits: Any, until: float
    ) -> Answer | Lost:
        response = session.request(
            call.method,
            self._base_url + call.path,
            params=call.query,
            data=None if call.body is None else json.dumps(call.body).encode(),
            headers=self._headers(key),
            timeout=limits,  # the adapter takes urllib3's Timeout, though the stubs do not say so
            stream=True,
            allow_redirects=False,
        )
        needs_body = response.status_code < 300 and not call.acts
        with response, connections.Alarm(until - self._clock(), response.raw.shutdown) as alarm:
            try:
                raw = _read(response)
            except FAILED as error:
                if needs_body:
                    return Lost(timed_out=alarm.rang or _timed_out(error), sent=True)
                raw = None  # the status is known, and says enough
        if alarm.rang and needs_body:
            return Lost(timed_out=True, sent=True)
        wait = retry_after.seconds(response.headers.get("Retry-After"), self._now(), LONGEST_PAUSE_SECONDS)
        return Answer(response.status_code, _parsed(raw, key), wait)

    def _headers(self, key: str) -> dict[str, str]:
        headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "User-Agent": "ostler",
        }
        correlation = self._correlation()
        return headers | ({"X-Correlation-ID": correlation} if _CORRELATION.fullmatch(correlation) else {})

    def _usable_key(self) -> str:
        """A key that no header can carry would be repeated in the error about it."""
        try:
            key = self._key().strip()
        except (ClientError, BotoCoreError) as error:
            logger.warning("novita key not read", error=type(error).__name__)
            raise NotNow("NOVITA_UNAVAILABLE", "The Novita key cannot be read; nothing was sent") from error
        if not _KEY.fullmatch(key):
            raise NovitaRefused("NOVITA_AUTHENTICATION_FAILED", "The Novita key is empty or not a key")
        return key

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


def _lost(error: Exception) -> Lost:
    if isinstance(error, requests.ConnectTimeout):
        return Lost(timed_out=True, sent=False)
    cause = error.args[0] if error.args else None
    connected = not (isinstance(cause, MaxRetryError) and isinstance(cause.reason, NewConnectionError))
    return Lost(timed_out=_timed_out(error), sent=connected)


def _timed_out(error: Exception) -> bool:
    cause = error.args[0] if error.args else None
    return isinstance(error, requests.Timeout | TimeoutError) or isinstance(cause, ReadTimeoutError)
