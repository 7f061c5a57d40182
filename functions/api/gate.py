"""Who is calling and whether they may: decided before any route runs."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from functions.api.requests import MAX_BODY_BYTES
from functions.shared.adapters.keys import ApiKeys
from functions.shared.domain.errors import CallerError

_OPEN = frozenset({"/health", "/docs", "/openapi.json"})
_IMPLIED = {"read": {"read", "write", "admin"}, "write": {"write", "admin"}, "admin": {"admin"}}
# Beyond GET = read and everything else = write.
_ADMIN = (
    ("GET", "/api/webhooks/secret"),
    ("POST", "/api/cache/"),
    ("POST", "/api/jobs/dead/"),
    ("POST", "/api/sync"),
)


@dataclass(frozen=True)
class Caller:
    id: str
    scopes: frozenset[str]

    def may(self, scope: str) -> bool:
        return bool(self.scopes & _IMPLIED[scope])


ANYBODY = Caller("anonymous", frozenset())


def admit(event: Mapping[str, Any], keys: ApiKeys) -> Caller:
    """The caller, or UNAUTHORIZED, FORBIDDEN or PAYLOAD_TOO_LARGE."""
    http = event["requestContext"]["http"]
    headers = event.get("headers") or {}
    presented = headers.get("authorization")
    if http["path"] in _OPEN and presented is None:
        return ANYBODY
    caller = _known(presented, keys)
    needed = _scope(http["method"], http["path"])
    if not caller.may(needed):
        raise CallerError("FORBIDDEN", f"This key lacks the scope {needed}")
    if _size(event) > MAX_BODY_BYTES:
        raise CallerError("PAYLOAD_TOO_LARGE", "The body is larger than 1 MB")
    return caller


def _known(presented: str | None, keys: ApiKeys) -> Caller:
    scheme, _, key = (presented or "").partition(" ")
    found = keys.find(key.strip()) if scheme.lower() == "bearer" else None
    if found is None:
        raise CallerError("UNAUTHORIZED", "Give a valid key as `Authorization: Bearer ost_…`")
    return Caller(found.id, found.scopes)


def _scope(method: str, path: str) -> str:
    if any(method == m and path.startswith(prefix) for m, prefix in _ADMIN):
        return "admin"
    return "read" if method in ("GET", "HEAD", "OPTIONS") else "write"


def _size(event: Mapping[str, Any]) -> int:
    body = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return len(body.encode("utf-8", "surrogatepass"))
    try:
        return len(base64.b64decode(body, validate=True))
    except binascii.Error:
        return len(body)
