"""A call through circuit and rate limiter, again where that is safe, within the caller's time."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from functions.shared.domain.errors import MachineNotFound, NoLongerOurs, NotNow, NovitaForNow
from functions.shared.domain.resilience import CallPermit, Permit, ProbePermit, RefusedPermit, SlotClass
from functions.shared.novita.calls import (
    CallFailure,
    NoResponse,
    NovitaCall,
    NovitaResponse,
    ReasonMeaning,
    Repeat,
    classify,
    meaning_of,
)
from functions.shared.platform.observability import (
    ACCOUNT_REFUSALS,
    NOVITA_CALLS,
    NOVITA_ERRORS,
    NOVITA_LATENCY,
    logger,
    measure,
    timed,
)


class CallCircuits(Protocol):
    def ask(self, name: str, *, must_pass: bool = False, may_probe: bool = True) -> Permit: ...

    def succeeded(self, permit: Permit) -> None: ...

    def failed(self, permit: Permit) -> None: ...

    def unused(self, permit: Permit) -> None:
        """Nothing was sent on it."""


class CallSlots(Protocol):
    def enter(
        self, kind: SlotClass, wait_at_most: float, wait: Callable[[float], None], *, buying: bool = False
    ) -> None:
        """Returns when the call may be sent, or raises NotNow where that is later than `wait_at_most`."""

    def pause(self, seconds: float) -> object: ...


ATTEMPTS = 3
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 1.0, 30.0
WORTH_SENDING_SECONDS = 1.0  # with less than this left, an attempt would mostly be given up unanswered
# Half of what Novita has to answer a read. A time-out after less tells of a caller in a hurry, such as a GET
# with its 2 s, and must not close Novita to those who would have waited.
FAIR_SECONDS = 5.0
_DOUBTED_SECONDS = 300.0  # what is not believed is not asked often: somebody has to put in another key
PROBE = NovitaCall("answer a probe", "GET", "/clusters", repeat=Repeat.NEVER)


@dataclass(frozen=True)
class CallTimeouts:
    """Of one attempt. It ends after connect and answer together, whatever the server does."""

    connect_seconds: float = 3.0
    answer_seconds: float = 10.0
    purchase_seconds: float = 30.0

    def answer(self, call: NovitaCall) -> float:
        return self.purchase_seconds if call.buys else self.answer_seconds

    def whole(self, call: NovitaCall) -> float:
        return self.connect_seconds + self.answer(call)

    def fair(self, call: NovitaCall) -> float:
        return min(self.whole(call), FAIR_SECONDS)

    def least(self, call: NovitaCall) -> float:
        """A purchase is only begun with time to wait for its whole answer."""
        return self.whole(call) if call.buys else min(self.whole(call), WORTH_SENDING_SECONDS)


class Sender(Protocol):
    def send(
        self, call: NovitaCall, *, connect_timeout: float, read_timeout: float, at_most: float
    ) -> NovitaResponse | NoResponse: ...


class Attempts:
    def __init__(
        self,
        transport: Callable[[], Sender],
        circuits: CallCircuits,
        limiter: CallSlots,
        *,
        limits: CallTimeouts,
        wait: Callable[[float], None],
        clock: Callable[[], float],
        random: Callable[[], float],
        believes: Callable[[str], bool],
        reads_as: Callable[[], SlotClass] = lambda: "looks",
    ) -> None:
        self._make_transport = transport
        self._circuits = circuits
        self._limiter = limiter
        self._limits = limits
        self._wait = wait
        self._clock = clock
        self._random = random
        self._believes = believes
        self._reads_as = reads_as

    @cached_property
    def _transport(self) -> Sender:
        return self._make_transport()

    def make(self, call: NovitaCall, within: float) -> NovitaResponse:
        with timed("novita"):
            return self._make(call, within)

    def _make(self, call: NovitaCall, within: float) -> NovitaResponse:
        until = self._clock() + within
        attempt = 1
        while True:
            result = self._send_if_permitted(call, until)
            if isinstance(result, NovitaResponse):
                return result
            pause = self._pause(attempt, result)
            in_time = self._clock() + pause + self._limits.least(call) < until
            if attempt == ATTEMPTS or not in_time or not _may_repeat(call, result):
                raise result.error
            self._wait(pause)
            attempt += 1

    def _pause(self, attempt: int, failure: CallFailure) -> float:
        jittered = self._random() * min(FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1), LONGEST_WAIT_SECONDS)
        return max(jittered, failure.error.retry_after or 0.0)

    def _send_if_permitted(self, call: NovitaCall, until: float) -> NovitaResponse | CallFailure:
        permit = self._permit(call, until)
        while isinstance(permit, ProbePermit):
            result = self._send(PROBE, permit, "ends", until)
            if isinstance(result, CallFailure) and result.counts:
                raise NotNow("CIRCUIT_BREAKER_OPEN", f"Novita does not answer yet; not asked to {call.what}")
            permit = self._permit(call, until)
        return self._send(call, permit, self._slot_class(call), until)

    def _slot_class(self, call: NovitaCall) -> SlotClass:
        if call.must_pass:
            return "refused" if call.refused_before else "ends"
        return "work" if call.buys or call.acts else call.reads_as or self._reads_as()

    def _permit(self, call: NovitaCall, until: float) -> Permit:
        may_probe = self._clock() + self._limits.fair(PROBE) < until
        permit = self._circuits.ask(call.circuit, must_pass=call.must_pass, may_probe=may_probe)
        if isinstance(permit, RefusedPermit):
            raise NotNow(
                "CIRCUIT_BREAKER_OPEN",
                f"Novita has failed too often lately; not asked to {call.what}",
                retry_after=permit.retry_after,
            )
        return permit

    def _send(
        self, call: NovitaCall, permit: Permit, slot: SlotClass, until: float
    ) -> NovitaResponse | CallFailure:
        least = self._limits.fair(call) if isinstance(permit, ProbePermit) else self._limits.least(call)
        try:
            patience = min(self._left(call, until - least), call.slot_wait)
            self._limiter.enter(slot, patience, self._wait, buying=call.buys)
            if call.unless and call.unless():
                raise NoLongerOurs(call.machine_id)
            began = self._clock()
            at_most = min(self._limits.whole(call), self._left(call, until))
            outcome = self._transport.send(
                call,
                connect_timeout=self._limits.connect_seconds,
                read_timeout=self._limits.answer(call),
                at_most=at_most,
            )
        except Exception:  # no slot, no time, no key, not ours: nothing was sent
            self._circuits.unused(permit)
            raise
        measure(NOVITA_CALLS, by=call.circuit)
        measure(NOVITA_LATENCY, 1000 * (self._clock() - began), by=call.circuit)
        result = classify(call, outcome)
        hurried = at_most < self._limits.fair(call) and not isinstance(permit, ProbePermit)
        if isinstance(result, CallFailure) and (call.account_api or (_gave_up(outcome) and hurried)):
            result = replace(result, counts=False)
        if isinstance(result, CallFailure):
            self._report(call, permit, result)
            return self._believed(call, permit, outcome, result)
        self._circuits.succeeded(permit)
        return result

    def _believed(
        self, call: NovitaCall, permit: Permit, outcome: NovitaResponse | NoResponse, failure: CallFailure
    ) -> CallFailure:
        """A not-found is no answer while Novita fails, or from a key that may be another account's."""
        if not isinstance(failure.error, MachineNotFound) or not isinstance(outcome, NovitaResponse):
            return failure
        if isinstance(permit, CallPermit) and permit.epoch is None:
            why, code = "while Novita was failing", "CIRCUIT_BREAKER_OPEN"
        elif not self._believes(outcome.key_version):
            why, code = "by a key that has shown no machine of ours yet", "NOVITA_AUTHENTICATION_FAILED"
            measure(ACCOUNT_REFUSALS, by="unproven")
        else:
            return failure
        logger.warning("not-found not believed", call=call.what, why=why)
        error = NovitaForNow(
            code, f"Not found when asked to {call.what}, but {why}", retry_after=_DOUBTED_SECONDS
        )
        return replace(failure, error=error)

    def _left(self, call: NovitaCall, until: float) -> float:
        left = until - self._clock()
        if left <= 0:
            raise _too_late(call)
        return left

    def _report(self, call: NovitaCall, permit: Permit, failure: CallFailure) -> None:
        if failure.counts:
            self._circuits.failed(permit)
        else:
            self._circuits.succeeded(permit)
        if failure.too_fast and not call.account_api:
            self._limiter.pause(failure.pause_seconds)
        error = failure.error
        _measure(call, failure)
        said = {"call": call.what, "code": error.code, "counts": failure.counts, **(error.details or {})}
        logger.warning("novita call failed", extra=said)


def _measure(call: NovitaCall, failure: CallFailure) -> None:
    if failure.counts:
        measure(NOVITA_ERRORS, by=call.circuit)
    if call.account_api:
        return
    if failure.error.code == "NOVITA_AUTHENTICATION_FAILED":
        measure(ACCOUNT_REFUSALS, by="key")
    if meaning_of((failure.error.details or {}).get("reason", "")) is ReasonMeaning.MONEY:
        measure(ACCOUNT_REFUSALS, by="money")


def _gave_up(outcome: NovitaResponse | NoResponse) -> bool:
    return isinstance(outcome, NoResponse) and outcome.timed_out


def _too_late(call: NovitaCall) -> NotNow:
    return NotNow("NOVITA_TIMEOUT", f"Too little time is left to {call.what}; nothing was sent")


def _may_repeat(call: NovitaCall, failure: CallFailure) -> bool:
    allowed = call.repeat is Repeat.FREELY or (call.repeat is Repeat.IF_UNSENT and failure.unheard)
    return failure.again and allowed
