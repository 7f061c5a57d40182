"""How often a call goes out, after which waits, and what the circuit and the limiter are told."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from functions.shared.adapters.novita.attempts import FAIR_SECONDS, PROBE, Attempts, TimeLimits
from functions.shared.adapters.novita.calls import Answer, Call, Lost, Repeat
from functions.shared.adapters.novita.gate import Slot
from functions.shared.domain.circuit import Circuit, Go, Permit, Probe, Refused
from functions.shared.domain.errors import NotNow, NovitaForNow, OstlerError, OutcomeUnclear

FINE = Answer(200, {"data": []})
DOWN = Answer(503)
LATE = Lost(timed_out=True, sent=True)
UNREACHED = Lost(timed_out=False, sent=False)

READ = Call("list", "GET", "/products")
STOP = Call("stop", "POST", "/stop", circuit="actions", must_pass=True)
RESTART = Call("restart", "POST", "/restart", circuit="actions", repeat=Repeat.IF_UNSENT)
CREATE = Call("create", "POST", "/create", circuit="buys", repeat=Repeat.NEVER)
GO, PROBING = Go("reads", 1), Probe(Circuit("reads"))


@dataclass
class World:
    """Novita, circuits, limiter and time, all by script; the last entry of a script is repeated."""

    outcomes: list[Answer | Lost]
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

    def send(
        self, call: Call, *, connect_timeout: float, read_timeout: float, at_most: float
    ) -> Answer | Lost:
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
        self, kind: Slot, wait_at_most: float, wait: Callable[[float], None], *, buying: bool = False
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

    def make(self, call: Call, within: float = 100.0, chance: float = 1.0) -> Answer | OstlerError:
        attempts = Attempts(
            self,
            self,
            self,
            limits=TimeLimits(3, 10, 30),
            wait=self.wait,
            clock=lambda: self.time,
            random=lambda: chance,
        )
        began = self.time
        try:
            return attempts.make(call, within)
        except OstlerError as error:
            return error
        finally:
            assert self.time <= began + within


def test_a_call_that_works_is_sent_once() -> None:
    world = World([FINE])

    assert world.make(READ) == FINE
    assert world.told == ["Go succeeded"]
    assert world.waits == []


@pytest.mark.parametrize("trouble", [DOWN, LATE, UNREACHED])
def test_a_read_is_tried_three_times_with_doubling_waits(trouble: Answer | Lost) -> None:
    world = World([trouble])

    assert isinstance(world.make(READ), NovitaForNow)
    assert len(world.sent) == 3
    assert world.waits == [1.0, 2.0]
    assert world.told == ["Go failed"] * 3


def test_each_attempt_asks_the_circuit_and_takes_a_slot() -> None:
    world = World([DOWN, DOWN, FINE])

    assert world.make(READ) == FINE
    assert world.asked == [("reads", False)] * 3
    assert world.slots == ["normal"] * 3


def test_the_jitter_is_full() -> None:
    world = World([DOWN])

    world.make(READ, chance=0.0)

    assert world.waits == [0.0, 0.0]


@pytest.mark.parametrize("outcome", [DOWN, LATE, UNREACHED, Answer(429), Answer(400), Answer(200)])
def test_a_purchase_is_never_sent_twice(outcome: Answer | Lost) -> None:
    world = World([outcome])

    assert isinstance(world.make(CREATE), OstlerError)
    assert len(world.sent) == 1
    assert world.slots == ["normal buying"]


def test_a_restart_is_repeated_only_where_novita_cannot_have_heard_it() -> None:
    heard, unheard = World([LATE]), World([UNREACHED, FINE])

    assert isinstance(heard.make(RESTART), OutcomeUnclear)
    assert len(heard.sent) == 1
    assert unheard.make(RESTART) == FINE


@pytest.mark.parametrize("status", [400, 401, 409, 422])
def test_a_refusal_is_not_repeated_and_never_counts(status: int) -> None:
    world = World([Answer(status, {"code": status})])

    assert isinstance(world.make(READ), OstlerError)
    assert len(world.sent) == 1
    assert world.told == ["Go succeeded"]


def test_a_429_pauses_everybody_and_is_honoured() -> None:
    world = World([Answer(429, retry_after=7.0), FINE])

    assert world.make(READ) == FINE
    assert world.pauses == [7.0]
    assert world.waits == [7.0]
    assert world.told == ["Go succeeded"] * 2


def test_a_429_longer_than_the_callers_time_comes_back_at_once_with_the_wait() -> None:
    world = World([Answer(429, retry_after=60.0)])

    error = world.make(READ, within=20)

    assert isinstance(error, NotNow)
    assert error.retry_after == 60.0
    assert world.waits == []


def test_nothing_outlasts_the_callers_time() -> None:
    world = World([LATE], takes=60)

    error = world.make(READ, within=16)

    assert isinstance(error, NovitaForNow)
    assert [at_most for _, at_most in world.sent] == [13, 2.0]


def test_no_attempt_is_made_with_too_little_time_to_succeed() -> None:
    world = World([LATE], takes=60)

    world.make(READ, within=14.9)

    assert len(world.sent) == 1


def test_a_first_attempt_is_not_made_with_too_little_time_either() -> None:
    world = World([FINE])

    for within in (0.0, 0.1, 0.9):
        error = world.make(READ, within=within)
        assert isinstance(error, NotNow)
        assert error.code == "NOVITA_TIMEOUT"
    assert world.sent == []
    assert set(world.told) == {"Go unused"}


def test_a_caller_with_two_seconds_asks_and_may_wait_for_a_slot_for_half_of_them() -> None:
    at_once, in_a_second, later = (
        World([FINE]),
        World([FINE], slot_waits=[1.0]),
        World([FINE], slot_waits=[1.1]),
    )

    assert at_once.make(READ, within=2.0) == FINE
    assert in_a_second.make(READ, within=2.0) == FINE
    assert isinstance(later.make(READ, within=2.0), NotNow)


@pytest.mark.parametrize("call", [READ, STOP, RESTART])
def test_a_time_out_counts_only_after_a_time_in_which_novita_could_have_answered(call: Call) -> None:
    hurried, patient = World([LATE], takes=60), World([LATE], takes=60)

    hurried.make(call, within=4.9)
    patient.make(call, within=5.0)

    assert hurried.told == ["Go succeeded"]
    assert patient.told == ["Go failed"]


@pytest.mark.parametrize("trouble", [DOWN, UNREACHED, Lost(timed_out=False, sent=True)])
def test_what_is_no_time_out_counts_however_little_time_there_was(trouble: Answer | Lost) -> None:
    world = World([trouble])

    world.make(READ, within=1.5)

    assert world.told == ["Go failed"]


def test_a_purchase_that_is_not_answered_counts() -> None:
    world = World([LATE], takes=60)

    world.make(CREATE, within=40)

    assert world.told == ["Go failed"]


def test_a_caller_in_a_hurry_does_not_probe() -> None:
    hurried, patient = World([FINE]), World([FINE])

    hurried.make(READ, within=2.0)
    patient.make(READ, within=20.0)

    assert (hurried.probing, patient.probing) == ([False], [True])


def test_a_probe_does_not_wait_for_a_slot_into_the_time_of_its_answer() -> None:
    world = World([FINE], permits=[PROBING], slot_waits=[6.0])

    assert isinstance(world.make(READ, within=10.0), NotNow)
    assert world.told == ["Probe unused"]


def test_without_time_nothing_is_sent() -> None:
    world = World([FINE])

    assert isinstance(world.make(READ, within=0.0), NotNow)
    assert world.sent == []
    assert world.told == ["Go unused"]


def test_a_purchase_goes_out_only_with_time_for_its_whole_answer() -> None:
    short, enough = World([FINE]), World([FINE])

    assert isinstance(short.make(CREATE, within=33.0), NotNow)
    assert short.sent == []
    assert enough.make(CREATE, within=33.1) == FINE
    assert enough.sent == [("/create", 33)]


def test_a_purchase_does_not_wait_for_a_slot_into_the_time_of_its_answer() -> None:
    world = World([FINE], slot_waits=[5.0])

    error = world.make(CREATE, within=36.0)

    assert isinstance(error, NotNow)
    assert error.retry_after == 5.0
    assert world.told == ["Go unused"]


def test_a_call_may_be_content_with_less_of_a_wait_than_its_caller_has() -> None:
    modest = replace(READ, slot_wait=5.0)

    assert World([FINE], slot_waits=[5.0]).make(modest) == FINE
    assert isinstance(World([FINE], slot_waits=[5.1]).make(modest), NotNow)
    assert World([FINE], slot_waits=[5.1]).make(READ) == FINE


def test_the_wait_for_a_slot_is_part_of_the_callers_time() -> None:
    world = World([FINE], slot_waits=[5.0])

    assert world.make(READ, within=6.0) == FINE
    assert world.waits == [5.0]
    assert world.sent == [("/products", 1.0)]


def test_an_open_circuit_sends_nothing_and_says_when_to_come_back() -> None:
    world = World([FINE], permits=[Refused("reads", 42.0)])

    error = world.make(READ)

    assert isinstance(error, NotNow)
    assert (error.code, error.retry_after) == ("CIRCUIT_BREAKER_OPEN", 42.0)
    assert world.sent == []


def test_a_circuit_that_opens_between_attempts_ends_them() -> None:
    world = World([DOWN], permits=[GO, Refused("reads", 42.0)])

    assert isinstance(world.make(READ), NotNow)
    assert len(world.sent) == 1


def test_a_probe_is_a_cheap_read_and_comes_before_a_purchase() -> None:
    world = World([FINE], permits=[PROBING, PROBING, GO])

    assert world.make(CREATE) == FINE
    assert [path for path, _ in world.sent] == [PROBE.path, PROBE.path, "/create"]
    assert world.told == ["Probe succeeded", "Probe succeeded", "Go succeeded"]


def test_a_probe_that_fails_sends_nothing_else_and_is_not_repeated() -> None:
    world = World([DOWN], permits=[PROBING])

    error = world.make(CREATE)

    assert isinstance(error, NotNow)
    assert error.code == "CIRCUIT_BREAKER_OPEN"
    assert [path for path, _ in world.sent] == [PROBE.path]
    assert world.told == ["Probe failed"]


def test_a_probe_that_is_given_up_has_failed_however_little_time_it_had() -> None:
    class Sluggish(World):
        def enter(self, *_: Any, **__: Any) -> None:
            self.time += 0.02

    world = Sluggish([LATE], permits=[PROBING])

    assert isinstance(world.make(READ, within=FAIR_SECONDS + 0.01), NotNow)
    assert world.sent[0][1] < FAIR_SECONDS
    assert world.told == ["Probe failed"]


def test_a_probe_that_novita_refuses_shows_that_it_is_there() -> None:
    world = World([Answer(401), FINE], permits=[PROBING, GO])

    assert world.make(READ) == FINE
    assert world.told == ["Probe succeeded", "Go succeeded"]


def test_a_probe_that_finds_no_slot_is_given_back() -> None:
    world = World([FINE], permits=[PROBING], slot_waits=[500.0])

    assert isinstance(world.make(READ), NotNow)
    assert world.told == ["Probe unused"]


def test_stop_and_delete_must_pass_and_use_the_slots_kept_for_them() -> None:
    world = World([FINE])

    assert world.make(STOP) == FINE
    assert world.asked == [("actions", True)]
    assert world.slots == ["urgent"]
