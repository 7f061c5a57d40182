"""A call through the gate, again where that is safe and may help, and never past the caller's time."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from functions.shared.adapters.novita.calls import Answer, Call, Lost, Repeat
from functions.shared.adapters.novita.failures import Verdict, judge
from functions.shared.adapters.novita.gate import Circuits, Limiter, Slot
from functions.shared.domain.circuit import Permit, Probe, Refused
from functions.shared.domain.errors import NotNow
from functions.shared.domain.reasons import Meaning, meaning
from functions.shared.log import logger
from functions.shared.metrics import ACCOUNT_REFUSALS, NOVITA_CALLS, NOVITA_ERRORS, NOVITA_LATENCY, measure

ATTEMPTS = 3
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 1.0, 30.0
WORTH_SENDING_SECONDS = 1.0  # with less than this left, an attempt would mostly be given up unanswered
# Half of what Novita has to answer a read. A time-out after less tells of a caller in a hurry, such as a GET
# with its 2 s, and must not close Novita to those who would have waited.
FAIR_SECONDS = 5.0
PROBE = Call("answer a probe", "GET", "/clusters", repeat=Repeat.NEVER)


@dataclass(frozen=True)
class TimeLimits:
    """Of one attempt. It ends after connect and answer together, whatever the server does."""

    connect_seconds: float = 3.0
    answer_seconds: float = 10.0
    purchase_seconds: float = 30.0

    def answer(self, call: Call) -> float:
        return self.purchase_seconds if call.buys else self.answer_seconds

    def whole(self, call: Call) -> float:
        return self.connect_seconds + self.answer(call)

    def fair(self, call: Call) -> float:
        return min(self.whole(call), FAIR_SECONDS)

    def least(self, call: Call) -> float:
        """A purchase is only begun with time to wait for its whole answer."""
        return self.whole(call) if call.buys else min(self.whole(call), WORTH_SENDING_SECONDS)


class Sender(Protocol):
    def send(
        self, call: Call, *, connect_timeout: float, read_timeout: float, at_most: float
    ) -> Answer | Lost: ...


class Attempts:
    def __init__(
        self,
        transport: Sender,
        circuits: Circuits,
        limiter: Limiter,
        *,
        limits: TimeLimits,
        wait: Callable[[float], None],
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._transport = transport
        self._circuits = circuits
        self._limiter = limiter
        self._limits = limits
        self._wait = wait
        self._clock = clock
        self._random = random

    def make(self, call: Call, within: float) -> Answer:
        until = self._clock() + within
        attempt = 1
        while True:
            result = self._through_the_gate(call, until)
            if isinstance(result, Answer):
                return result
            pause = self._pause(attempt, result)
            in_time = self._clock() + pause + self._limits.least(call) < until
            if attempt == ATTEMPTS or not in_time or not _may_repeat(call, result):
                raise result.error
            self._wait(pause)
            attempt += 1

    def _pause(self, attempt: int, verdict: Verdict) -> float:
        jittered = self._random() * min(FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1), LONGEST_WAIT_SECONDS)
        return max(jittered, verdict.error.retry_after or 0.0)

    def _through_the_gate(self, call: Call, until: float) -> Answer | Verdict:
        permit = self._permit(call, until)
        while isinstance(permit, Probe):
            result = self._send(PROBE, permit, "urgent", until)
            if isinstance(result, Verdict) and result.counts:
                raise NotNow("CIRCUIT_BREAKER_OPEN", f"Novita does not answer yet; not asked to {call.what}")
            permit = self._permit(call, until)
        return self._send(call, permit, "urgent" if call.must_pass else "normal", until)

    def _permit(self, call: Call, until: float) -> Permit:
        may_probe = self._clock() + self._limits.fair(PROBE) < until
        permit = self._circuits.ask(call.circuit, must_pass=call.must_pass, may_probe=may_probe)
        if isinstance(permit, Refused):
            raise NotNow(
                "CIRCUIT_BREAKER_OPEN",
                f"Novita has failed too often lately; not asked to {call.what}",
                retry_after=permit.retry_after,
            )
        return permit

    def _send(self, call: Call, permit: Permit, slot: Slot, until: float) -> Answer | Verdict:
        least = self._limits.fair(call) if isinstance(permit, Probe) else self._limits.least(call)
        try:
            patience = min(self._left(call, until - least), call.slot_wait)
            self._limiter.enter(slot, patience, self._wait, buying=call.buys)
            began = self._clock()
            at_most = min(self._limits.whole(call), self._left(call, until))
            outcome = self._transport.send(
                call,
                connect_timeout=self._limits.connect_seconds,
                read_timeout=self._limits.answer(call),
                at_most=at_most,
            )
        except Exception:  # no slot, no time, no key: nothing was sent
            self._circuits.unused(permit)
            raise
        measure(NOVITA_CALLS, by=call.circuit)
        measure(NOVITA_LATENCY, 1000 * (self._clock() - began), by=call.circuit)
        result = judge(call, outcome)
        hurried = at_most < self._limits.fair(call) and not isinstance(permit, Probe)
        if isinstance(result, Verdict) and _gave_up(outcome) and hurried:
            result = replace(result, counts=False)
        if isinstance(result, Verdict):
            self._report(call, permit, result)
        else:
            self._circuits.succeeded(permit)
        return result

    def _left(self, call: Call, until: float) -> float:
        left = until - self._clock()
        if left <= 0:
            raise _too_late(call)
        return left

    def _report(self, call: Call, permit: Permit, verdict: Verdict) -> None:
        if verdict.counts:
            self._circuits.failed(permit)
        else:
            self._circuits.succeeded(permit)
        if verdict.too_fast:
            self._limiter.pause(verdict.error.retry_after or 0.0)
        error = verdict.error
        _measure(call, verdict)
        said = {"call": call.what, "code": error.code, "counts": verdict.counts, **(error.details or {})}
        logger.warning("novita call failed", extra=said)


def _measure(call: Call, verdict: Verdict) -> None:
    if verdict.counts:
        measure(NOVITA_ERRORS, by=call.circuit)
    if verdict.error.code == "NOVITA_AUTHENTICATION_FAILED":
        measure(ACCOUNT_REFUSALS, by="key")
    if meaning((verdict.error.details or {}).get("reason", "")) is Meaning.MONEY:
        measure(ACCOUNT_REFUSALS, by="money")


def _gave_up(outcome: Answer | Lost) -> bool:
    return isinstance(outcome, Lost) and outcome.timed_out


def _too_late(call: Call) -> NotNow:
    return NotNow("NOVITA_TIMEOUT", f"Too little time is left to {call.what}; nothing was sent")


def _may_repeat(call: Call, verdict: Verdict) -> bool:
    allowed = call.repeat is Repeat.FREELY or (call.repeat is Repeat.IF_UNSENT and verdict.unheard)
    return verdict.again and allowed
