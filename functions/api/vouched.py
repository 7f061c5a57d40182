"""Callers that the gateway has checked: what its authorizer leaves in the event, as a caller of ours."""

from collections.abc import Mapping
from typing import Any

from functions.api.caller import SCOPES, Caller

_LONGEST_SUBJECT = 255  # what OpenID Connect allows


def by_token(authorizer: Mapping[str, Any], prefix: str) -> Caller | None:
    """`auth=jwt`: the subject, with the scopes of ours that the token carries."""
    claims = _part(_part(authorizer, "jwt"), "claims")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT:
        return None
    ours = {name: scope for scope in SCOPES for name in (scope, f"{prefix}/{scope}", f"{prefix}:{scope}")}
    return Caller(f"jwt:{subject}", frozenset(ours[name] for name in _names(claims) if name in ours))


def by_signature(authorizer: Mapping[str, Any]) -> Caller | None:
    """`auth=iam`: policies on the routes' ARNs say who may call what, so who comes through may."""
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
