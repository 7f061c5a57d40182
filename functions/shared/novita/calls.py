"""One call to Novita's API, and what its answer, or the lack of one, means to us."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from typing import Any, Literal

from functions.shared.domain.errors import (
    AbsentWithoutReason,
    ImageAuthRefused,
    InvalidState,
    MachineNotFound,
    NoCapacity,
    NotFound,
    NotNow,
    NovitaForNow,
    NovitaRefused,
    OstlerError,
    OutcomeUnclear,
)
from functions.shared.domain.resilience import LONGEST_PAUSE_OF_ENDS_SECONDS, SlotClass

MAX_CHARACTERS = 200
MASK = "***"

_CREDENTIALS = (
    re.compile(r"(?i)\b(?:bearer|basic)\s+\S+"),
    re.compile(
        r"(?i)\b[\w-]*(?:passw(?:or)?d|secret|token|api[-_ ]?key|authorization|credentials?|image_?auth)\b"
        r"[\"']?\s*(?:[:=]|\bis\b)\s*\S+"
    ),
    re.compile(r"[^\s/:@]+:[^\s/@]+@"),  # user:password@host
    re.compile(r"\b(?:sk|gh[pousr]|hf|ost|whsec|glpat|dckr_pat|npm|xox[a-z])[-_]\w[\w-]{5,}"),
    re.compile(r"(?=[\w+=-]*\d)(?=[\w+=-]*[A-Za-z])[\w+=-]{20,}"),  # long and opaque
)


def quoted(text: str, limit: int = MAX_CHARACTERS) -> str:
    printable = "".join(one if one.isprintable() else " " for one in text[: limit * 10])
    for credential in _CREDENTIALS:
        printable = credential.sub(MASK, printable)
    return " ".join(printable.split())[:limit]


class ReasonMeaning(Enum):
    CAPACITY = auto()  # this offer cannot be had now
    MONEY = auto()
    AUTHENTICATION = auto()  # our key, or the account behind it
    TOO_FAST = auto()
    MISSING = auto()  # what the call named is not there
    NO_TEMPLATE = auto()
    STATE = auto()  # not from the status it is in
    REJECTED = auto()  # anything else that would be refused again
    FAULT = auto()  # Novita's own trouble


_WORDS = {
    ReasonMeaning.CAPACITY: """INSUFFICIENT_RESOURCE MIGRATE_INSUFFICIENT_RESOURCE CREATE_INSTANCE_LIMIT
        CLUSTER_STATUS NODE_STATUS DEPENDENT_RESOURCE_STATE GPU_SPEC_USED""",
    ReasonMeaning.MONEY: """BALANCE_NOT_ENOUGH EXPIRED_OR_BALANCE_NOT_ENOUGH UNSUPPORTED_BILLING_MODE
        ORDER_NOT_FOUND SAVING_PLAN_ALREADY_EXISTS PREPAID_INSTANCE_NOT_SUPPORT_RELEASE
        CREATING_INSTANCE_NOT_SUPPORT_RENEWAL WALLET_UNSUPPORT_RECHARGE_METHOD WALLET_NOT_FOUND""",
    ReasonMeaning.AUTHENTICATION: """UNAUTHORIZED FORBIDDEN INVALID_API_KEY MISSING_API_KEY INVALID_USER_TOKEN
        GET_TOKEN_FAILED BANNED_USER""",
    ReasonMeaning.TOO_FAST: "RATE_LIMIT_EXCEEDED SEND_CODE_TOO_FAST",
    ReasonMeaning.MISSING: "RESOURCE_NOT_FOUND",
    ReasonMeaning.NO_TEMPLATE: "TEMPLATE_NOT_FOUND TEMPLATE_IS_PRIVATE",
    ReasonMeaning.STATE: "CONFLICT",
    ReasonMeaning.REJECTED: """VALIDATOR_PARAM REQUEST INVALID_COMMAND_PARAM OPERATION_LIMIT
        NETWORK_STORAGE_TOO_LARGE CUR_CLUSTER_NETWORK_STORAGE_NOT_SUPPORT NETWORK_STORAGE_IN_USE
        NETWORK_STORAGE_UNAVAILABLE NETWORK_STORAGE_NOT_FOUND INSTANCE_LOCAL_STORAGE_NOT_FOUND
        IMAGE_NOT_FOUND IMAGE_AUTH_IN_USE
        NETWORK_NOT_FOUND NETWORK_IN_USE NETWORK_MAX_LIMIT JOB_NOT_FOUND INVALID_CODE INVALID_PUBLIC_KEY
        SEND_MSG_ERROR""",
    ReasonMeaning.FAULT: "UNKNOWN",
}
MEANINGS = {word: meaning for meaning, words in _WORDS.items() for word in words.split()}
_REJECTED_FAMILIES = ("USER_", "SERVERLESS_")
_WORD = re.compile(r"[A-Z0-9_]{1,64}")


def reason_word(given: object) -> str:
    """The reason where it is an enum word; anything else could be text, and text is not repeated."""
    return given if isinstance(given, str) and _WORD.fullmatch(given) else ""


def meaning_of(reason: str) -> ReasonMeaning | None:
    """None for a word that Novita has not documented: then the HTTP status decides."""
    if reason.startswith(_REJECTED_FAMILIES):
        return ReasonMeaning.REJECTED
    return MEANINGS.get(reason)


CircuitName = Literal["reads", "buys", "actions"]


class Repeat(Enum):
    FREELY = auto()  # reads, and actions that may be asked twice
    IF_UNSENT = auto()  # only where Novita cannot have heard it
    NEVER = auto()


@dataclass(frozen=True)
class NovitaCall:
    what: str  # "start machine 8097f1658f3e6ad1": completes "Novita refused to ..."
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    circuit: CircuitName = "reads"
    repeat: Repeat = Repeat.FREELY
    must_pass: bool = False  # goes out while the circuit is open, and uses the slots kept for it
    refused_before: bool = False  # so that it uses few slots, whoever else is refused
    machine_id: str = ""  # whose absence a not-found means
    # Asked right before each attempt is sent, with its slot in hand: whose the machine is may have changed.
    unless: Callable[[], bool] | None = field(default=None, repr=False, compare=False)
    absence_expected: bool = False  # Novita took its delete, so that a bare 404 tells nothing about Novita
    template_id: str = ""
    image_auth_by_id: bool = False
    slot_wait: float = inf  # seconds that it waits for a slot at most, of all that its caller has
    reads_as: SlotClass | None = (
        None  # whose slots a read uses, where not those of the function's other reads
    )
    # Of Novita's API for billing and metrics, which is another service: how it fails tells nothing about
    # machines, so that neither circuit nor limiter nor an alarm hears of it.
    account_api: bool = False

    @property
    def buys(self) -> bool:
        return self.circuit == "buys"

    @property
    def harmless_twice(self) -> bool:
        return self.repeat is Repeat.FREELY

    @property
    def acts(self) -> bool:
        return self.circuit == "actions"


@dataclass(frozen=True)
class NovitaKey:
    value: str = field(repr=False)
    version: str = ""  # of the secret that holds it


@dataclass(frozen=True)
class NovitaResponse:
    status: int
    body: Any = field(default=None, repr=False)  # parsed JSON; None where it is none
    retry_after: float | None = None
    key_version: str = ""  # of the key that it was asked with

    @property
    def fine(self) -> bool:
        return 200 <= self.status < 300

    @property
    def refusal(self) -> bool:
        return 400 <= self.status < 500

    @property
    def error(self) -> Mapping[str, Any]:
        return self.body if isinstance(self.body, dict) else {}

    @property
    def reason(self) -> str:
        return reason_word(self.error.get("reason"))

    @property
    def text(self) -> str:
        """Novita's own words: they may only be repeated through `quoted`."""
        said = (self.error.get(key) for key in ("message", "error", "title"))
        return next((text for text in said if isinstance(text, str) and text), "")


@dataclass(frozen=True)
class NoResponse:
    """No answer. `sent` is False only where Novita cannot have heard a word."""

    timed_out: bool
    sent: bool


# Absent only with Novita's own reason: a gateway that has lost its routes answers with these, too.
ABSENT = frozenset({404, 410})
_COME_BACK = frozenset({408, 425})
_NOT_LET_IN = frozenset({401, 403})


def refusal(call: NovitaCall, answer: NovitaResponse) -> OstlerError:
    meaning = meaning_of(answer.reason) or _by_status(answer)
    said, why = details(answer), message(call, answer)
    if meaning is ReasonMeaning.CAPACITY:
        return NoCapacity("RESOURCE_CONSTRAINTS", why, details=said)
    if meaning is ReasonMeaning.AUTHENTICATION:
        return NovitaRefused("NOVITA_AUTHENTICATION_FAILED", why, details=said)
    if call.machine_id and answer.status in ABSENT and not answer.reason:
        return AbsentWithoutReason("NOVITA_UNAVAILABLE", why, details=said)
    if meaning is ReasonMeaning.FAULT:
        # Surely not done, since it is a 4xx; and surely not for good.
        kind = NotNow if call.buys else NovitaForNow
        return kind("NOVITA_UNAVAILABLE", why, details=said)
    if meaning in (ReasonMeaning.MISSING, ReasonMeaning.NO_TEMPLATE) and call.template_id:
        return NotFound("TEMPLATE_NOT_FOUND", why, details=said)
    if meaning is ReasonMeaning.MISSING and call.machine_id:
        return MachineNotFound(call.machine_id)
    if call.acts and (meaning is ReasonMeaning.STATE or "invalid state" in answer.text.lower()):
        return InvalidState("NOVITA_REJECTED", why, details=said)
    if call.image_auth_by_id and meaning in (ReasonMeaning.REJECTED, ReasonMeaning.MISSING):
        return ImageAuthRefused("NOVITA_REJECTED", why, details=said)
    return NovitaRefused("NOVITA_REJECTED", why, details=said)


def _by_status(answer: NovitaResponse) -> ReasonMeaning:
    if answer.status in _NOT_LET_IN:
        return ReasonMeaning.AUTHENTICATION
    return ReasonMeaning.FAULT if answer.status in (*ABSENT, *_COME_BACK) else ReasonMeaning.REJECTED


def details(answer: NovitaResponse) -> dict[str, Any]:
    said = {"httpStatus": answer.status}
    return {**said, "reason": answer.reason} if answer.reason else said


def message(call: NovitaCall, answer: NovitaResponse) -> str:
    """Novita's own text is left out where the call held secrets that it may repeat."""
    text = "" if call.buys else quoted(answer.text)
    why = answer.reason or f"HTTP {answer.status}"
    return f"Novita refused to {call.what}: {why}{f' ({text})' if text else ''}"


UNSAID_PAUSE_SECONDS = 2.0  # after a 429 without Retry-After
# On a 5xx these are not believed: an outage must not pass for an absence or for a machine's status.
_NEEDS_4XX = frozenset({ReasonMeaning.MISSING, ReasonMeaning.NO_TEMPLATE, ReasonMeaning.STATE})


@dataclass(frozen=True)
class CallFailure:
    error: OstlerError
    counts: bool = False  # against the circuit
    again: bool = False  # another attempt may go better, if the call may be repeated at all
    unheard: bool = False  # Novita did not take the call
    too_fast: bool = False
    pause_seconds: float = 0.0  # that Novita asks of all calls, if it was too fast


def classify(call: NovitaCall, outcome: NovitaResponse | NoResponse) -> NovitaResponse | CallFailure:
    """The answer, where it is one to what was asked."""
    if isinstance(outcome, NoResponse):
        return _lost(call, outcome)
    if outcome.fine:  # what an action is answered with is not documented, and nothing is read from it
        readable = call.acts or isinstance(outcome.body, dict)
        return outcome if readable else CallFailure(unreadable(call))
    if outcome.status == 429 or (outcome.refusal and meaning_of(outcome.reason) is ReasonMeaning.TOO_FAST):
        return _too_fast(call, outcome)
    if outcome.refusal:
        bare = outcome.status in ABSENT and not outcome.reason  # as good as no answer, like a 5xx
        telling = bare and not call.absence_expected
        return CallFailure(refusal(call, outcome), counts=telling, again=telling, unheard=True)
    return _failed(call, outcome)


def unreadable(call: NovitaCall) -> OstlerError:
    return _open_ended(
        call, "NOVITA_UNAVAILABLE", f"Novita's answer when asked to {call.what} makes no sense"
    )


def _lost(call: NovitaCall, lost: NoResponse) -> CallFailure:
    if not call.harmless_twice and not lost.sent:
        error: OstlerError = NotNow(
            "NOVITA_UNAVAILABLE", f"Novita was not reached to {call.what}; nothing was sent"
        )
    elif lost.timed_out:
        error = _open_ended(
            call, "NOVITA_TIMEOUT", f"Novita did not answer in time when asked to {call.what}"
        )
    else:
        error = _open_ended(
            call, "NOVITA_UNAVAILABLE", f"The connection failed when Novita was asked to {call.what}"
        )
    return CallFailure(error, counts=True, again=True, unheard=not lost.sent)


def _too_fast(call: NovitaCall, answer: NovitaResponse) -> CallFailure:
    pause = UNSAID_PAUSE_SECONDS if answer.retry_after is None else answer.retry_after
    wait = min(pause, LONGEST_PAUSE_OF_ENDS_SECONDS) if call.must_pass else pause
    error = NotNow("RATE_LIMIT_EXCEEDED", message(call, answer), details=details(answer), retry_after=wait)
    return CallFailure(error, again=True, unheard=True, too_fast=True, pause_seconds=pause)


def _failed(call: NovitaCall, answer: NovitaResponse) -> CallFailure:
    """5xx, and redirects, which are not followed: Novita's API has none."""
    meaning = meaning_of(answer.reason)
    business = meaning not in (None, ReasonMeaning.FAULT)
    server_error = answer.status >= 500
    if server_error and business and meaning not in _NEEDS_4XX and not call.buys:
        return CallFailure(refusal(call, answer))
    code = "NOVITA_TIMEOUT" if answer.status == 504 else "NOVITA_UNAVAILABLE"
    error = _open_ended(
        call, code, f"Novita failed to {call.what}: {answer.reason or f'HTTP {answer.status}'}"
    )
    error.details, error.retry_after = details(answer), answer.retry_after
    technical = server_error and not business
    return CallFailure(error, counts=technical, again=technical)


def _open_ended(call: NovitaCall, code: str, why: str) -> OstlerError:
    """Whether it was done matters where doing it twice does."""
    return NovitaForNow(code, why) if call.harmless_twice else OutcomeUnclear(code, why)
