"""Who is calling, whether they may and how often, before any route: by an API key or by the gateway."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any

from functions.api.requests import MAX_BODY_BYTES
from functions.shared.domain.errors import CallerError, TooManyRequests
from functions.shared.domain.money.caps import NO_CAPS, CapLimits
from functions.shared.domain.resilience import RequestBudget
from functions.shared.platform.aws import Secrets
from functions.shared.platform.settings import Settings
from functions.shared.stores.api_keys import ApiKey, ApiKeys

SCOPES = ("read", "write", "admin")
_IMPLIED = {"read": {"read", "write", "admin"}, "write": {"write", "admin"}, "admin": {"admin"}}


@dataclass(frozen=True)
class Caller:
    """The id is the actor in the event history; `key_`, `jwt:` and `iam:` keep the kinds apart."""

    id: str
    scopes: frozenset[str]
    caps: CapLimits = NO_CAPS  # of a key

    def may(self, scope: str) -> bool:
        return bool(self.scopes & _IMPLIED[scope])


ANONYMOUS = Caller("anonymous", frozenset())


_LONGEST_SUBJECT = 255  # what OpenID Connect allows


def caller_from_token(authorizer: Mapping[str, Any], prefix: str) -> Caller | None:
    """`auth=jwt`: the subject, with the scopes of ours that the token carries."""
    claims = _part(_part(authorizer, "jwt"), "claims")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT:
        return None
    ours = {name: scope for scope in SCOPES for name in (scope, f"{prefix}/{scope}", f"{prefix}:{scope}")}
    return Caller(f"jwt:{subject}", frozenset(ours[name] for name in _names(claims) if name in ours))


def caller_from_signature(authorizer: Mapping[str, Any]) -> Caller | None:
    """`auth=iam`: IAM policies on the routes decide; whoever the gateway lets through has all scopes."""
    arn = _part(authorizer, "iam").get("userArn")
    return Caller(f"iam:{arn}", frozenset(SCOPES)) if isinstance(arn, str) and arn else None


def _names(claims: Mapping[str, Any]) -> list[str]:
    """The gateway writes a claim that is a list as `[one two]`."""
    scope = claims.get("scope")
    if isinstance(scope, list):
        return [name for name in scope if isinstance(name, str)]
    return scope.removeprefix("[").removesuffix("]").split() if isinstance(scope, str) else []


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = whole.get(name)
    return part if isinstance(part, Mapping) else {}


_OPEN_PATHS = frozenset({"/", "/health", "/docs", "/openapi.json"})
# Beyond GET = read and everything else = write; with whatever may follow the path.
_OTHER_SCOPES = {
    "admin": re.compile(
        r"GET /api/webhooks/secret.*|POST /api/(cache/|jobs/dead/|sync|pause|resume).*"
        r"|(PUT|DELETE) /api/budgets.*"
    ),
    "write": re.compile(r"GET /api/instances/[^/]+/connection.*"),  # whoever gets in can do anything there
    "read": re.compile(r"POST /api/quotes"),  # it changes nothing
}
_ORIGIN_HEADER = "x-origin-verify"  # which CloudFront adds, see infra/edge.py
_HOW_TO_AUTHENTICATE = {
    "keys": "Give a valid key as `Authorization: Bearer ost_…`",
    "jwt": "Give a token as `Authorization: Bearer …`, at a path under /api/",
    "iam": "Sign the request with AWS credentials, at a path under /api/",
}


@dataclass(frozen=True)
class Authorize:
    """The caller, or UNAUTHORIZED, FORBIDDEN, RATE_LIMIT_EXCEEDED, ROUTE_NOT_FOUND or PAYLOAD_TOO_LARGE."""

    settings: Settings
    secrets: Secrets
    api_keys: ApiKeys
    caller_budget: RequestBudget
    stranger_budget: RequestBudget

    def __call__(self, event: Mapping[str, Any]) -> Caller:
        method, path = event["requestContext"]["http"]["method"], event["rawPath"]  # what the router goes by
        headers = event.get("headers") or {}
        presented = headers.get("authorization")
        self._require_edge(headers)
        if path in _OPEN_PATHS:
            return self._on_open_path(presented, event)
        caller = self._identified(event, presented)
        _spend(self.caller_budget, caller.id)
        # The router ignores a line break and the case of a method; the rules above would not match them.
        if not path.isprintable() or method != method.upper():
            raise no_such_route()
        needed = scope_for(method, path)
        if not caller.may(needed):
            raise CallerError("FORBIDDEN", f"This needs the scope {needed}, which you lack")
        if _size(event) > MAX_BODY_BYTES:
            raise CallerError("PAYLOAD_TOO_LARGE", "The body is larger than 1 MB")
        return caller

    def _on_open_path(self, presented: str | None, event: Mapping[str, Any]) -> Caller:
        """Only the deep check shows more to holders of a key. Otherwise none is looked at, not even a bad
        one: whether the service answers must not depend on the table. With another kind of auth the gateway
        checks nothing here, so that the header proves nothing."""
        asks_deep = "deep" in (event.get("queryStringParameters") or {})
        return (self._looked_up(presented) if asks_deep else None) or ANONYMOUS

    def _identified(self, event: Mapping[str, Any], presented: str | None) -> Caller:
        """Whoever has no valid key or token has few tries: neither the table nor this process is theirs."""
        known = self._known(event, presented)
        if known is None:
            source = self._source(event)
            _hold_back(self.stranger_budget, source)
            known = self._looked_up(presented)
            if known is None:
                self.stranger_budget.spend(source)
                raise CallerError("UNAUTHORIZED", _HOW_TO_AUTHENTICATE[self.settings.auth])
        return known

    def _require_edge(self, headers: Mapping[str, str]) -> None:
        """Where there is something in front of this that holds strangers back, nobody comes around it."""
        if not (secret_id := self.settings.origin_secret_id):
            return
        shown = headers.get(_ORIGIN_HEADER, "").encode("utf-8", "replace")
        if not compare_digest(shown, self.secrets.read(secret_id).value.encode()):
            raise CallerError("FORBIDDEN", "This is not the address of the service")

    def _source(self, event: Mapping[str, Any]) -> str:
        """The caller's address; behind CloudFront the gateway sees CloudFront, and adds it at the end."""
        passed = ((event.get("headers") or {}).get("x-forwarded-for") or "").split(",")
        if self.settings.origin_secret_id and len(passed) > 1:
            return str(passed[-2].strip())
        return str(event["requestContext"]["http"].get("sourceIp", ""))

    def _known(self, event: Mapping[str, Any], presented: str | None) -> Caller | None:
        if self.settings.auth != "keys":
            return _caller_from_gateway(event, self.settings)
        return _caller_from_key(self.api_keys.remembered(_bearer(presented)))

    def _looked_up(self, presented: str | None) -> Caller | None:
        return (
            _caller_from_key(self.api_keys.find(_bearer(presented))) if self.settings.auth == "keys" else None
        )


def _spend(budget: RequestBudget, caller: str) -> None:
    _hold_back(budget, caller)
    budget.spend(caller)


def _hold_back(budget: RequestBudget, caller: str) -> None:
    if wait := budget.wait(caller):
        raise TooManyRequests("You have asked too often; come back when `Retry-After` says", wait)


def no_such_route() -> CallerError:
    return CallerError("ROUTE_NOT_FOUND", "There is no such route; /docs lists them all")


def _bearer(presented: str | None) -> str:
    scheme, _, key = (presented or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def _caller_from_key(key: ApiKey | None) -> Caller | None:
    return Caller(key.id, key.scopes, key.caps) if key else None


def _caller_from_gateway(event: Mapping[str, Any], settings: Settings) -> Caller | None:
    """None where the request came by a route without an authorizer."""
    authorizer = event["requestContext"].get("authorizer") or {}
    if settings.auth == "iam":
        return caller_from_signature(authorizer)
    return caller_from_token(authorizer, settings.jwt_scope_prefix)


def scope_for(method: str, path: str) -> str:
    """What a caller must have for it."""
    for scope, requests in _OTHER_SCOPES.items():
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
