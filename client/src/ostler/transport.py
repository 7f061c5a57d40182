"""One request at a time over HTTP: tried again where that is safe, and its errors by their code."""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests

from ostler.errors import ApiError, BadAddress, BadAnswer, OstlerError, Unreachable, error_class

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 15.0
_LOST = (
    requests.exceptions.ConnectionError,
    requests.exceptions.Timeout,
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
)


class Transport:
    """Every request may be sent twice: reads, PUT and DELETE by their nature, all others by their key."""

    def __init__(
        self,
        url: str,
        key: str | None,
        *,
        retry_for: float = 60.0,
        timeout: float = 35.0,  # the gateway answers within 30
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        on_retry: Callable[[OstlerError], None] | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadAddress(f"{url!r} is no http or https address: write https://… or http://…")
        self.url = url.rstrip("/")
        self.retry_for = retry_for
        self.timeout = timeout
        self.clock = clock
        self.sleep = sleep
        self.on_retry = on_retry
        self._session = requests.Session()
        self._session.headers["Accept"] = "application/json"
        if key:
            # As auth and not as a header: or an entry of ~/.netrc for that host would take its place.
            self._session.auth = _Bearer(key)

    def close(self) -> None:
        self._session.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        keyed: bool = False,
        idempotency_key: str | None = None,
        retry_for: float | None = None,
        timeout: float | None = None,
    ) -> requests.Response:
        """The answer, once it is a good one; `keyed`: one Idempotency-Key for all attempts."""
        seconds = min(self.timeout, timeout or self.timeout)
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())} if keyed else {}
        params = {name: _shown(value) for name, value in (query or {}).items() if value is not None}
        until = self.clock() + (self.retry_for if retry_for is None else retry_for)
        attempt = 0
        while True:
            error, wait = self._attempt(method, path, params, body, headers, seconds)
            if not isinstance(error, Exception):
                return error
            pause = _backoff(attempt) if wait is None else wait
            if wait == _NEVER or self.clock() + pause >= until:
                raise error
            if self.on_retry:
                self.on_retry(error)
            self.sleep(pause)
            attempt += 1

    def _attempt(
        self,
        method: str,
        path: str,
        params: dict[str, Any],
        body: Any,
        headers: dict[str, str],
        seconds: float,
    ) -> tuple[requests.Response | OstlerError, float | None]:
        """The answer or the error, and how long to wait before the next attempt (None: as one likes)."""
        try:
            answer = self._session.request(
                method,
                self.url + path,
                params=params,
                json=body,
                headers=headers,
                timeout=seconds,
                allow_redirects=False,  # the key goes where it was meant to go, or nowhere
            )
        except _LOST as lost:
            return Unreachable(f"{self.url} does not answer: {_reason(lost)}"), None
        except requests.exceptions.RequestException as wrong:
            return OstlerError(f"{self.url}: {wrong}"), _NEVER
        if 200 <= answer.status_code < 300:
            return answer, None
        error = api_error(answer)
        if not isinstance(error, ApiError) or not _worth_another(error):
            return error, _NEVER
        return error, error.retry_after


_NEVER = float("inf")


class _Bearer(requests.auth.AuthBase):
    def __init__(self, key: str) -> None:
        self._key = key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._key}"
        return request


def _shown(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _backoff(attempt: int) -> float:
    longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0**attempt)
    return random.uniform(longest / 2, longest)  # noqa: S311  # no secret: only that not all come at once


def _reason(error: Exception) -> str:
    if isinstance(error, requests.exceptions.Timeout):
        return "it took too long"
    text = str(error)
    for sign, words in (
        ("refused", "nobody listens there"),
        ("resolve", "no such host"),
        ("Name or service", "no such host"),
        ("certificate", "its certificate is not valid"),
    ):
        if sign in text:
            return words
    return "the connection was lost"


def _worth_another(error: ApiError) -> bool:
    """The service says so itself; what the gateway answers says nothing."""
    return (
        error.retryable
        or error.status == 429
        or (error.status >= 500 and error.code in ("", "INTERNAL_ERROR"))
    )


def api_error(answer: requests.Response) -> OstlerError:
    """The error of an answer, by its code; what no Ostler says is an error of its own kind."""
    told: Any = None
    with contextlib.suppress(ValueError):
        told = answer.json()
    error = told.get("error") if isinstance(told, dict) else None
    if isinstance(error, dict) and isinstance(error.get("code"), str):
        return error_class(error["code"], answer.status_code)(
            str(error.get("message") or error["code"]),
            code=error["code"],
            status=answer.status_code,
            request_id=str(error.get("requestId") or ""),
            correlation_id=str(error.get("correlationId") or ""),
            retryable=error.get("retryable") is True,
            retry_after=_retry_after(answer, error.get("retryAfter")),
            details=error["details"] if isinstance(error.get("details"), dict) else None,
            fields=error["validationErrors"] if isinstance(error.get("validationErrors"), list) else (),
        )
    if answer.status_code in (401, 403, 429) or answer.status_code >= 500:  # the gateway's own words
        text = told.get("message") if isinstance(told, dict) else None
        message = str(text or answer.reason or "no reason given")
        return error_class("", answer.status_code)(
            f"{message} (HTTP {answer.status_code}, from the gateway)",
            code="",
            status=answer.status_code,
            retry_after=_retry_after(answer, None),
        )
    place = answer.url.partition("?")[0]
    return BadAnswer(f"{place} answers {answer.status_code}, and not as Ostler does: is the address right?")


def _retry_after(answer: requests.Response, told: Any) -> float | None:
    for value in (told, answer.headers.get("Retry-After")):
        try:
            if value is not None and 0 <= float(value) < 86_400:
                return max(float(value), 0.05)
        except (TypeError, ValueError):
            continue
    return None
