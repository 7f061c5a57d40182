"""Verifying what arrives at a webhook receiver, by the rules of Standard Webhooks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from typing import TYPE_CHECKING, Any

from ostler.errors import OstlerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TOLERANCE_SECONDS = 300


class NotGenuine(OstlerError):
    """Not signed with this receiver's secret, changed on its way, or too old."""


def verify(
    secrets: str | Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float | None = None,
) -> dict[str, Any]:
    """The event, if it is genuine. Any of the secrets will do, as there are two while they are rotated."""
    known = {name.lower(): value for name, value in headers.items()}
    try:
        id_, sent, signatures = (known[f"webhook-{part}"] for part in ("id", "timestamp", "signature"))
        age = (time.time() if now is None else now) - int(sent)
    except (KeyError, ValueError):
        raise NotGenuine("It lacks the headers of a signed webhook") from None
    if abs(age) > _TOLERANCE_SECONDS:
        raise NotGenuine("It is too old, or this machine's clock is wrong")
    signed = b".".join((id_.encode(), sent.encode(), body))
    good = [_signature(one, signed) for one in ([secrets] if isinstance(secrets, str) else secrets)]
    shown = [one.partition(",")[2] for one in signatures.split() if one.startswith("v1,")]
    if not any(hmac.compare_digest(one.encode(), other.encode()) for one in good for other in shown):
        raise NotGenuine("Its signature is not made with this receiver's secret")
    event: dict[str, Any] = json.loads(body)
    return event


def _signature(secret: str, signed: bytes) -> str:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"))
    except binascii.Error:
        raise OstlerError("A webhook secret looks like whsec_ and base64") from None
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
