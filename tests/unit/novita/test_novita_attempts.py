"""How often a call goes out, after which waits, and what the circuit and the limiter are told."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from functions.shared.domain.errors import (
    AbsentWithoutReason,
    MachineNotFound,
    NoLongerOurs,
    NotNow,
    NovitaForNow,
    OstlerError,
    OutcomeUnclear,
)
from functions.shared.domain.resilience import (
    CallPermit,
    Circuit,
    Permit,
    ProbePermit,
    RefusedPermit,
    SlotClass,
)
from functions.shared.novita.attempts import FAIR_SECONDS, PROBE, Attempts, CallTimeouts
from functions.shared.novita.calls import NoResponse, NovitaCall, NovitaResponse, Repeat

FINE = NovitaResponse(200, {"data": []})
DOWN = NovitaResponse(503)
LATE = NoResponse(timed_out=True, sent=True)
UNREACHED = NoResponse(timed_out=False, sent=False)

READ = NovitaCall("list", "GET", "/products")
STOP = NovitaCall("stop", "POST", "/stop", circuit="actions", must_pass=True)
RESTART = NovitaCall("restart", "POST", "/restart", circuit="actions", repeat=Repeat.IF_UNSENT)
CREATE = NovitaCall("create", "POST", "/create", circuit="buys", repeat=Repeat.NEVER)
GO, PROBING = CallPermit("reads", 1), ProbePermit(Circuit("reads"))


@dataclass
class Harness:
    """Novita, circuits, limiter and time, all by script; the last entry of a script is repeated."""

    outcomes: list[NovitaResponse | NoResponse]
    permits: list[Permit] = field(default_factory=lambda: [GO])
    slot_waits: list[float] = field(default_factory=lambda: [0.0])
    takes: float = 0.0  # seconds that each call takes
    time: float = 1000.0
    sent: list[tuple[str, float]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    asked: list[tuple[str, bool]] = field(default_factory=list)
    probing: list[bool] = field(default_factory=list)  # whether the caller may probe
    slots: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    proven: bool = True  # the key
    reads_as: SlotClass = "looks"

    def send(
        self, call: NovitaCall, *, connect_timeout: float, read_timeout: float, at_most: float
    ) -> NovitaResponse | NoResponse:
        assert at_most <= connect_timeout + read_timeout
        self.sent.append((call.path, at_most))
        self.time += min(self.takes, at_most)
        return self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]

    def ask(self, name: str, *, must_pass: bool = False, may_probe: bool = True) -> Permit:
        self.asked.append((name, must_pass))
        self.probing.append(may_probe)
        return self.permits.pop(0) if len(self.permits) > 1 else self.permits[0]

    def succeeded(self, permit: Permit) -> None:
        self.told.append(f"{type(permit).__name__} succeeded")

    def failed(self, permit: Permit) -> None:
        self.told.append(f"{type(permit).__name__} failed")

    def unused(self, permit: Permit) -> None:
        self.told.append(f"{type(permit).__name__} unused")

    def enter(
        self, kind: SlotClass, wait_at_most: float, wait: Callable[[float], None], *, buying: bool = False
    ) -> None:
        self.slots.append(f"{kind} buying" if buying else kind)
        needed = self.slot_waits.pop(0) if len(self.slot_waits) > 1 else self.slot_waits[0]
        if needed > wait_at_most:
            raise NotNow("RATE_LIMIT_EXCEEDED", "no slot", retry_after=needed)
        if needed:
            wait(needed)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds

    def make(
        self, call: NovitaCall, within: float = 100.0, chance: float = 1.0
    ) -> NovitaResponse | OstlerError:
        attempts = Attempts(
            lambda: self,
            self,
            self,
            limits=CallTimeouts(3, 10, 30),
            wait=self.wait,
            clock=lambda: self.time,
            random=lambda: chance,
            believes=lambda _: self.proven,
            reads_as=lambda: self.reads_as,
        )
        began = self.time
        try:
            return attempts.make(call, within)
        except OstlerError as error:
            return error
        finally:
            assert self.time <= began + within


def test_a_call_that_works_is_sent_once() -> None:
    harness = Harness([FINE])

    assert harness.make(READ) == FINE
    assert harness.told == ["CallPermit succeeded"]
    assert harness.waits == []


@pytest.mark.parametrize("trouble", [DOWN, LATE, UNREACHED])
def test_a_read_is_tried_three_times_with_doubling_waits(trouble: NovitaResponse | NoResponse) -> None:
    harness = Harness([trouble])

    assert isinstance(harness.make(READ), NovitaForNow)
    assert len(harness.sent) == 3
    assert harness.waits == [1.0, 2.0]
    assert harness.told == ["CallPermit failed"] * 3


def test_each_attempt_asks_the_circuit_and_takes_a_slot() -> None:
    harness = Harness([DOWN, DOWN, FINE])

    assert harness.make(READ) == FINE
    assert harness.asked == [("reads", False)] * 3
    assert harness.slots == ["looks"] * 3


@pytest.mark.parametrize("reads_as", ["looks", "work", "callers"])
def test_whose_slots_a_call_uses_follows_from_the_call_and_from_who_makes_it(reads_as: SlotClass) -> None:
    harness = Harness([FINE], reads_as=reads_as)

    for call in (READ, replace(READ, reads_as="lookups"), RESTART, CREATE, STOP):
        harness.make(call)

    assert harness.slots == [reads_as, "lookups", "work", "work buying", "ends"]


def test_the_jitter_is_full() -> None:
    harness = Harness([DOWN])

    harness.make(READ, chance=0.0)

    assert harness.waits == [0.0, 0.0]


@pytest.mark.parametrize(
    "outcome", [DOWN, LATE, UNREACHED, NovitaResponse(429), NovitaResponse(400), NovitaResponse(200)]
)
def test_a_purchase_is_never_sent_twice(outcome: NovitaResponse | NoResponse) -> None:
    harness = Harness([outcome])

    assert isinstance(harness.make(CREATE), OstlerError)
    assert len(harness.sent) == 1
    assert harness.slots == ["work buying"]


def test_a_restart_is_repeated_only_where_novita_cannot_have_heard_it() -> None:
    heard, unheard = Harness([LATE]), Harness([UNREACHED, FINE])

    assert isinstance(heard.make(RESTART), OutcomeUnclear)
    assert len(heard.sent) == 1
    assert unheard.make(RESTART) == FINE


@pytest.mark.parametrize("status", [400, 401, 409, 422])
def test_a_refusal_is_not_repeated_and_never_counts(status: int) -> None:
    harness = Harness([NovitaResponse(status, {"code": status})])

    assert isinstance(harness.make(READ), OstlerError)
    assert len(harness.sent) == 1
    assert harness.told == ["CallPermit succeeded"]


def test_a_429_on_a_stop_pauses_the_others_for_longer_than_the_stop() -> None:
    harness = Harness([NovitaResponse(429, retry_after=3600.0)])

    refusal = harness.make(STOP, within=30)

    assert isinstance(refusal, NotNow)
    assert (refusal.retry_after, harness.pauses) == (50.0, [3600.0])


def test_a_429_pauses_everybody_and_is_honoured() -> None:
    harness = Harness([NovitaResponse(429, retry_after=7.0), FINE])

    assert harness.make(READ) == FINE
    assert harness.pauses == [7.0]
    assert harness.waits == [7.0]
    assert harness.told == ["CallPermit succeeded"] * 2


def test_a_429_longer_than_the_callers_time_comes_back_at_once_with_the_wait() -> None:
    harness = Harness([NovitaResponse(429, retry_after=60.0)])

    error = harness.make(READ, within=20)

    assert isinstance(error, NotNow)
    assert error.retry_after == 60.0
    assert harness.waits == []


def test_nothing_outlasts_the_callers_time() -> None:
    harness = Harness([LATE], takes=60)

    error = harness.make(READ, within=16)

    assert isinstance(error, NovitaForNow)
    assert [at_most for _, at_most in harness.sent] == [13, 2.0]


def test_no_attempt_is_made_with_too_little_time_to_succeed() -> None:
    harness = Harness([LATE], takes=60)

    harness.make(READ, within=14.9)

    assert len(harness.sent) == 1


def test_a_first_attempt_is_not_made_with_too_little_time_either() -> None:
    harness = Harness([FINE])

    for within in (0.0, 0.1, 0.9):
        error = harness.make(READ, within=within)
        assert isinstance(error, NotNow)
        assert error.code == "NOVITA_TIMEOUT"
    assert harness.sent == []
    assert set(harness.told) == {"CallPermit unused"}


def test_a_caller_with_two_seconds_asks_and_may_wait_for_a_slot_for_half_of_them() -> None:
    at_once, in_a_second, later = (
        Harness([FINE]),
        Harness([FINE], slot_waits=[1.0]),
        Harness([FINE], slot_waits=[1.1]),
    )

    assert at_once.make(READ, within=2.0) == FINE
    assert in_a_second.make(READ, within=2.0) == FINE
    assert isinstance(later.make(READ, within=2.0), NotNow)


@pytest.mark.parametrize("call", [READ, STOP, RESTART])
def test_a_time_out_counts_only_after_a_time_in_which_novita_could_have_answered(call: NovitaCall) -> None:
    hurried, patient = Harness([LATE], takes=60), Harness([LATE], takes=60)

    hurried.make(call, within=4.9)
    patient.make(call, within=5.0)

    assert hurried.told == ["CallPermit succeeded"]
    assert patient.told == ["CallPermit failed"]


@pytest.mark.parametrize("trouble", [DOWN, UNREACHED, NoResponse(timed_out=False, sent=True)])
def test_what_is_no_time_out_counts_however_little_time_there_was(
    trouble: NovitaResponse | NoResponse,
) -> None:
    harness = Harness([trouble])

    harness.make(READ, within=1.5)

    assert harness.told == ["CallPermit failed"]


def test_a_purchase_that_is_not_answered_counts() -> None:
    harness = Harness([LATE], takes=60)

    harness.make(CREATE, within=40)

    assert harness.told == ["CallPermit failed"]


def test_a_caller_in_a_hurry_does_not_probe() -> None:
    hurried, patient = Harness([FINE]), Harness([FINE])

    hurried.make(READ, within=2.0)
    patient.make(READ, within=20.0)

    assert (hurried.probing, patient.probing) == ([False], [True])


def test_a_probe_does_not_wait_for_a_slot_into_the_time_of_its_answer() -> None:
    harness = Harness([FINE], permits=[PROBING], slot_waits=[6.0])

    assert isinstance(harness.make(READ, within=10.0), NotNow)
    assert harness.told == ["ProbePermit unused"]


def test_without_time_nothing_is_sent() -> None:
    harness = Harness([FINE])

    assert isinstance(harness.make(READ, within=0.0), NotNow)
    assert harness.sent == []
    assert harness.told == ["CallPermit unused"]


def test_a_purchase_goes_out_only_with_time_for_its_whole_answer() -> None:
    short, enough = Harness([FINE]), Harness([FINE])

    assert isinstance(short.make(CREATE, within=33.0), NotNow)
    assert short.sent == []
    assert enough.make(CREATE, within=33.1) == FINE
    assert enough.sent == [("/create", 33)]


def test_a_purchase_does_not_wait_for_a_slot_into_the_time_of_its_answer() -> None:
    harness = Harness([FINE], slot_waits=[5.0])

    error = harness.make(CREATE, within=36.0)

    assert isinstance(error, NotNow)
    assert error.retry_after == 5.0
    assert harness.told == ["CallPermit unused"]


def test_a_call_may_be_content_with_less_of_a_wait_than_its_caller_has() -> None:
    modest = replace(READ, slot_wait=5.0)

    assert Harness([FINE], slot_waits=[5.0]).make(modest) == FINE
    assert isinstance(Harness([FINE], slot_waits=[5.1]).make(modest), NotNow)
    assert Harness([FINE], slot_waits=[5.1]).make(READ) == FINE


def test_the_wait_for_a_slot_is_part_of_the_callers_time() -> None:
    harness = Harness([FINE], slot_waits=[5.0])

    assert harness.make(READ, within=6.0) == FINE
    assert harness.waits == [5.0]
    assert harness.sent == [("/products", 1.0)]


def test_an_open_circuit_sends_nothing_and_says_when_to_come_back() -> None:
    harness = Harness([FINE], permits=[RefusedPermit("reads", 42.0)])

    error = harness.make(READ)

    assert isinstance(error, NotNow)
    assert (error.code, error.retry_after) == ("CIRCUIT_BREAKER_OPEN", 42.0)
    assert harness.sent == []


def test_a_circuit_that_opens_between_attempts_ends_them() -> None:
    harness = Harness([DOWN], permits=[GO, RefusedPermit("reads", 42.0)])

    assert isinstance(harness.make(READ), NotNow)
    assert len(harness.sent) == 1


def test_a_probe_is_a_cheap_read_and_comes_before_a_purchase() -> None:
    harness = Harness([FINE], permits=[PROBING, PROBING, GO])

    assert harness.make(CREATE) == FINE
    assert [path for path, _ in harness.sent] == [PROBE.path, PROBE.path, "/create"]
    assert harness.told == ["ProbePermit succeeded", "ProbePermit succeeded", "CallPermit succeeded"]


def test_a_probe_that_fails_sends_nothing_else_and_is_not_repeated() -> None:
    harness = Harness([DOWN], permits=[PROBING])

    error = harness.make(CREATE)

    assert isinstance(error, NotNow)
    assert error.code == "CIRCUIT_BREAKER_OPEN"
    assert [path for path, _ in harness.sent] == [PROBE.path]
    assert harness.told == ["ProbePermit failed"]


def test_a_probe_that_is_given_up_has_failed_however_little_time_it_had() -> None:
    class Sluggish(Harness):
        def enter(self, *_: Any, **__: Any) -> None:
            self.time += 0.02

    harness = Sluggish([LATE], permits=[PROBING])

    assert isinstance(harness.make(READ, within=FAIR_SECONDS + 0.01), NotNow)
    assert harness.sent[0][1] < FAIR_SECONDS
    assert harness.told == ["ProbePermit failed"]


def test_a_probe_that_novita_refuses_shows_that_it_is_there() -> None:
    harness = Harness([NovitaResponse(401), FINE], permits=[PROBING, GO])

    assert harness.make(READ) == FINE
    assert harness.told == ["ProbePermit succeeded", "CallPermit succeeded"]


def test_a_probe_that_finds_no_slot_is_given_back() -> None:
    harness = Harness([FINE], permits=[PROBING], slot_waits=[500.0])

    assert isinstance(harness.make(READ), NotNow)
    assert harness.told == ["ProbePermit unused"]


def test_stop_and_delete_must_pass_and_use_the_slots_kept_for_them() -> None:
    harness = Harness([FINE])

    assert harness.make(STOP) == FINE
    assert harness.asked == [("actions", True)]
    assert harness.slots == ["ends"]


def test_what_is_anothers_by_the_time_of_its_slot_is_not_sent_nor_tried_again() -> None:
    whose = iter([False, True])
    harness = Harness([DOWN], slot_waits=[5.0, 0.0])
    call = replace(STOP, machine_id="m-1", unless=lambda: next(whose))

    error = harness.make(call)

    assert isinstance(error, NoLongerOurs)
    assert len(harness.sent) == 1
    assert harness.slots == ["ends", "ends"]
    assert harness.told == ["CallPermit failed", "CallPermit unused"]


NOT_FOUND = NovitaResponse(400, {"reason": "RESOURCE_NOT_FOUND", "message": "no such instance"})
LOOK = NovitaCall("show machine m-1", "GET", "/gpu/instance", machine_id="m-1")


def test_a_not_found_is_believed_from_a_proven_key_through_a_closed_circuit() -> None:
    assert isinstance(Harness([NOT_FOUND]).make(LOOK), MachineNotFound)


def test_a_not_found_from_an_unproven_key_is_no_answer_and_is_not_held_against_novita() -> None:
    harness = Harness([NOT_FOUND], proven=False)

    error = harness.make(LOOK)

    assert isinstance(error, NovitaForNow)
    assert error.code == "NOVITA_AUTHENTICATION_FAILED"
    assert harness.told == ["CallPermit succeeded"]
    assert len(harness.sent) == 1


def test_a_not_found_that_passed_an_open_circuit_is_no_answer() -> None:
    harness = Harness([NOT_FOUND], permits=[CallPermit("actions", None)])

    error = harness.make(replace(STOP, machine_id="m-1"))

    assert isinstance(error, NovitaForNow)
    assert error.code == "CIRCUIT_BREAKER_OPEN"


def test_a_bare_404_counts_against_the_circuit_unless_a_delete_was_taken() -> None:
    unexpected, expected = Harness([NovitaResponse(404)]), Harness([NovitaResponse(404)])

    assert isinstance(unexpected.make(LOOK), AbsentWithoutReason)
    assert isinstance(expected.make(replace(LOOK, absence_expected=True)), AbsentWithoutReason)

    assert unexpected.told == ["CallPermit failed"] * 3
    assert expected.told == ["CallPermit succeeded"]
