"""Novita's no as an error of ours: from the reason first, then from the HTTP status."""

from typing import Any

from functions.shared.adapters.novita.calls import Answer, Call
from functions.shared.adapters.novita.quoting import quoted
from functions.shared.domain import reasons
from functions.shared.domain.errors import (
    ImageAuthRefused,
    InvalidState,
    MachineNotFound,
    NoCapacity,
    NotFound,
    NotNow,
    NovitaForNow,
    NovitaRefused,
    OstlerError,
)
from functions.shared.domain.reasons import Meaning

# Only Novita's own reason makes an absence of these: a gateway that has lost its routes answers so, too.
ABSENT = frozenset({404, 410})
_COME_BACK = frozenset({408, 425})
_NOT_LET_IN = frozenset({401, 403})


def refusal(call: Call, answer: Answer) -> OstlerError:
    meaning = reasons.meaning(answer.reason) or _by_status(answer)
    said, why = details(answer), message(call, answer)
    if meaning is Meaning.CAPACITY:
        return NoCapacity("RESOURCE_CONSTRAINTS", why, details=said)
    if meaning is Meaning.AUTHENTICATION:
        return NovitaRefused("NOVITA_AUTHENTICATION_FAILED", why, details=said)
    if meaning is Meaning.FAULT:
        # Surely not done, since it is a 4xx; and surely not for good.
        kind = NotNow if call.buys else NovitaForNow
        return kind("NOVITA_UNAVAILABLE", why, details=said)
    if meaning in (Meaning.MISSING, Meaning.NO_TEMPLATE) and call.template_id:
        return NotFound("TEMPLATE_NOT_FOUND", why, details=said)
    if meaning is Meaning.MISSING and call.machine_id:
        return MachineNotFound(call.machine_id)
    if call.acts and (meaning is Meaning.STATE or "invalid state" in answer.text.lower()):
        return InvalidState("NOVITA_REJECTED", why, details=said)
    if call.image_auth_by_id and meaning in (Meaning.REJECTED, Meaning.MISSING):
        return ImageAuthRefused("NOVITA_REJECTED", why, details=said)
    return NovitaRefused("NOVITA_REJECTED", why, details=said)


def _by_status(answer: Answer) -> Meaning:
    if answer.status in _NOT_LET_IN:
        return Meaning.AUTHENTICATION
    return Meaning.FAULT if answer.status in (*ABSENT, *_COME_BACK) else Meaning.REJECTED


def details(answer: Answer) -> dict[str, Any]:
    said = {"httpStatus": answer.status}
    return {**said, "reason": answer.reason} if answer.reason else said


def message(call: Call, answer: Answer) -> str:
    """Novita's own text is left out where the call held secrets that it may repeat."""
    text = "" if call.buys else quoted(answer.text)
    why = answer.reason or f"HTTP {answer.status}"
    return f"Novita refused to {call.what}: {why}{f' ({text})' if text else ''}"
