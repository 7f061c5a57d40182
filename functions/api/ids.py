"""Request and correlation ids: taken from the caller where they are fit to be logged, else made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import uuid4

_FIT = re.compile(r"[A-Za-z0-9._-]{1,128}")


@dataclass(frozen=True)
class RequestIds:
    request_id: str
    correlation_id: str

    def headers(self) -> dict[str, str]:
        return {"X-Request-ID": self.request_id, "X-Correlation-ID": self.correlation_id}


def read_ids(headers: Mapping[str, str]) -> RequestIds:
    """Header names arrive in lower case from an HTTP API."""
    request_id = _fit(headers.get("x-request-id")) or str(uuid4())
    return RequestIds(request_id, _fit(headers.get("x-correlation-id")) or request_id)


def _fit(given: str | None) -> str | None:
    return given if given and _FIT.fullmatch(given) else None
