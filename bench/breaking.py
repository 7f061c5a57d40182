"""What the circuit breaker lets through: a dead Novita, probes, recovery, a stale prober, no table."""

from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from bench.environments import (
    ENVIRONMENTS,
    POLICY,
    Environment,
    Place,
    connect,
)
from bench.virtual_time import Clock
from functions.shared.domain.errors import NotNow
from functions.shared.domain.resilience import CallPermit, Permit, ProbePermit, SlotClass, SlotRequest
from local.ports import Ports


@dataclass(frozen=True)
class Stampede:
    calls: int
    bound: int
    openings: int


def stampede(place: Place) -> Stampede:
    """All start at once against a dead dependency, and go on until they are told to stop."""
    fleet = place.fleet()
    fleet.ask()  # everybody believes that all is well

    def call_until_refused(environment: Environment) -> int:
        calls = 0
        while isinstance(permit := environment.circuits.ask("reads"), CallPermit):
            calls += 1
            environment.circuits.failed(permit)
        return calls

    calls = sum(fleet.together(call_until_refused))
    # Nothing but openings has moved it, and each was announced in the write that raised the epoch.
    return Stampede(calls, POLICY.failure_threshold + ENVIRONMENTS, fleet.state().epoch)


@dataclass(frozen=True)
class WhileOpen:
    periods: int
    probes: int
    probes_before_time: int
    shortest_gap_seconds: float


def while_open(place: Place, periods: int = 6) -> WhileOpen:
    """Still dead: all ask just before the circuit may be probed, at that moment, and during the probe."""
    fleet = place.fleet()
    fleet.open()
    early = probed = 0
    times = [fleet.clock()]
    for _ in range(periods):
        until = fleet.state().open_until or fleet.clock()
        fleet.clock.now = until - timedelta(milliseconds=1)
        early += _probes(fleet.ask())
        fleet.clock.now = until
        permits = fleet.ask()
        during = fleet.ask()
        probed += _probes(permits) + _probes(during)
        times.append(fleet.clock())
        for environment, permit in zip(fleet.environments, permits, strict=True):
            if isinstance(permit, ProbePermit):
                environment.circuits.failed(permit)
    gaps = [(later - sooner).total_seconds() for sooner, later in pairwise(times)]
    return WhileOpen(periods, probed, early, min(gaps))


@dataclass(frozen=True)
class Recovery:
    resumed: int
    last_after_seconds: float


def recovery(place: Place) -> Recovery:
    """Alive again: seconds from the write that closed the circuit until the last environment sends."""
    fleet = place.fleet()
    fleet.open()
    fleet.ask()  # everybody has seen it open
    fleet.clock.advance(POLICY.recovery_timeout)
    permits = fleet.ask()
    for environment, permit in zip(fleet.environments, permits, strict=True):
        while isinstance(permit, ProbePermit):
            environment.circuits.succeeded(permit)
            permit = environment.circuits.ask("reads")
    closed_at = fleet.clock()
    waiting = list(fleet.environments)
    last = 0.0
    while waiting and last < 60:
        last = (fleet.clock() - closed_at).total_seconds()
        waiting = [one for one in waiting if not isinstance(one.circuits.ask("reads"), CallPermit)]
        fleet.clock.advance(0.25)
    return Recovery(len(fleet.environments) - len(waiting), last)


@dataclass(frozen=True)
class StaleProber:
    reports: int
    moved: int


def stale_prober(place: Place) -> StaleProber:
    """A prober that slept through its lease reports into a circuit that has since closed, or opened again."""
    reports = moved = 0
    for good in (True, False):
        fleet = place.fleet(2)
        slow, other = (one.circuits for one in fleet.environments)
        fleet.open()
        fleet.clock.advance(POLICY.recovery_timeout)
        stale = slow.ask("reads")
        fleet.clock.advance(POLICY.recovery_timeout)
        while isinstance(permit := other.ask("reads"), ProbePermit):
            (other.succeeded if good else other.failed)(permit)
        before = fleet.state()
        for report in (slow.failed, slow.succeeded, slow.unused):
            report(stale)
            reports += 1
            moved += fleet.state() != before
    return StaleProber(reports, moved)


@dataclass(frozen=True)
class Unreachable:
    reads: bool
    starts: bool
    deletes: bool
    creates: bool


def unreachable() -> Unreachable:
    """What goes out when nobody answers at the table's address."""
    environment = Environment(connect(f"http://127.0.0.1:{Ports.free().emulator}"), "nowhere", Clock())
    circuits, limiter = environment.circuits, environment.limiter

    def goes_out(name: str, kind: SlotClass, *, must_pass: bool = False, buying: bool = False) -> bool:
        try:
            permit = circuits.ask(name, must_pass=must_pass)
            limiter.ask(SlotRequest(kind, begun=buying), 0)
        except NotNow:
            return False
        circuits.failed(permit)
        return isinstance(permit, CallPermit)

    return Unreachable(
        reads=goes_out("reads", "looks"),
        starts=goes_out("actions", "work"),
        deletes=goes_out("actions", "ends", must_pass=True),
        creates=goes_out("buys", "work", buying=True),
    )


@dataclass(frozen=True)
class Healthy:
    calls: int
    writes: int
    lifetimes: int
    most_reads: int


def healthy(place: Place, calls: int = 10_000, seconds: float = 100) -> Healthy:
    fleet = place.fleet()
    rounds = calls // ENVIRONMENTS
    for _ in range(rounds):
        for environment in fleet.environments:
            environment.circuits.succeeded(environment.circuits.ask("reads"))
        fleet.clock.advance(seconds / rounds)
    lifetimes = round(seconds / POLICY.cache_seconds)
    return Healthy(calls, fleet.writes, lifetimes, max(one.reads for one in fleet.environments))


def _probes(permits: list[Permit]) -> int:
    return sum(isinstance(permit, ProbePermit) for permit in permits)
