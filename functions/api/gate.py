"""Who is calling and whether they may: decided before any route runs."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from functions.api.caller import ANYBODY, Caller
from functions.api.requests import MAX_BODY_BYTES
from functions.api.vouched import by_signature, by_token
from functions.shared.adapters.keys import ApiKeys
from functions.shared.domain.errors import CallerError
from functions.shared.settings import Settings

_OPEN = frozenset({"/health", "/docs", "/openapi.json"})
# Beyond GET = read and everything else = write; with whatever may follow the path.
_OTHERWISE = {
    "admin": re.compile(r"GET /api/webhooks/secret.*|POST /api/(cache/|jobs/dead/|sync).*"),
    "write": re.compile(r"GET /api/instances/[^/]+/connection.*"),  # whoever gets in can do anything there
    "read": re.compile(r"POST /api/quotes"),  # it changes nothing
}
_WANTED = {
    "keys": "Give a valid key as `Authorization: Bearer ost_…`",
    "jwt": "Give a token as `Authorization: Bearer …`, at a path under /api/",
    "iam": "Sign the request with AWS credentials, at a path under /api/",
}


def admit(event: Mapping[str, Any], settings: Settings, keys: ApiKeys) -> Caller:
    """The caller, or UNAUTHORIZED, FORBIDDEN, ROUTE_NOT_FOUND or PAYLOAD_TOO_LARGE."""
    method, path = event["requestContext"]["http"]["method"], event["rawPath"]  # what the router goes by
    presented = (event.get("headers") or {}).get("authorization")
    # A header that the gateway had no reason to check says nothing about anybody.
    if path in _OPEN and (presented is None or settings.auth != "keys"):
        return ANYBODY
    caller = _vouched(event, settings) if settings.auth != "keys" else _known(presented, keys)
    if caller is None:
        raise CallerError("UNAUTHORIZED", _WANTED[settings.auth])
    # The router would overlook a line's end, or the case of a method, where the rules above do not.
    if not path.isprintable() or method != method.upper():
        raise no_such_route()
    needed = scope_for(method, path)
    if not caller.may(needed):
        raise CallerError("FORBIDDEN", f"This needs the scope {needed}, which you lack")
    if _size(event) > MAX_BODY_BYTES:
        raise CallerError("PAYLOAD_TOO_LARGE", "The body is larger than 1 MB")
    return caller


def no_such_route() -> CallerError:
    return CallerError("ROUTE_NOT_FOUND", "There is no such route; /docs lists them all")


def _known(presented: str | None, keys: ApiKeys) -> Caller | None:
    scheme, _, key = (presented or "").partition(" ")
    found = keys.find(key.strip()) if scheme.lower() == "bearer" else None
    return Caller(found.id, found.scopes) if found else None


def _vouched(event: Mapping[str, Any], settings: Settings) -> Caller | None:
    """Nobody, where the request came by a route that the authorizer does not guard."""
    authorizer = event["requestContext"].get("authorizer") or {}
    if settings.auth == "iam":
        return by_signature(authorizer)
    return by_token(authorizer, settings.jwt_scope_prefix)


def scope_for(method: str, path: str) -> str:
    """What a caller must have for it."""
    for scope, requests in _OTHERWISE.items():
        if requests.fullmatch(f"{method} {path}"):
            return scope
    return "read" if method in ("GET", "HEAD", "OPTIONS") else "write"


def _size(event: Mapping[str, Any]) -> int:
    body = event.get("body") or ""
    if not event.get("isBase64Encoded"):
        return len(body.encode("utf-8", "surrogatepass"))
    try:
        return len(base64.b64decode(body, validate=True))
    except binascii.Error:
        return len(body)
