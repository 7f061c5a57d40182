"""Twenty environments that share one table, on a virtual clock: what the breaker and the limiter let through.

`python -m bench.fleet` starts an emulator of DynamoDB and prints a figure for each promise.
"""

import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import count, pairwise
from pathlib import Path
from threading import Barrier
from typing import Any, TypeVar

import boto3
from botocore.config import Config

from functions.shared.adapters.circuits import Circuits
from functions.shared.adapters.limiter import Limiter
from functions.shared.domain.circuit import Go, Permit, Policy, Probe, Report
from functions.shared.domain.errors import NotNow
from functions.shared.domain.limit import Kind

T = TypeVar("T")

ENVIRONMENTS = 20
POLICY = Policy()
LIMIT = 100
LONGEST_CALL_WAIT = 15.0
READS = frozenset({"GetItem", "BatchGetItem", "Query"})

_numbers = count(1)
_session = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1")


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Environment:
    """One process of a function: its own connections and its own memory, nothing shared but the table."""

    def __init__(self, client: Any, table: str, clock: Clock, limit: int = LIMIT) -> None:
        self.requests: Counter[str] = Counter()
        client.meta.events.register("before-send.dynamodb", self._count)
        self.circuits = Circuits(client, table, POLICY, clock, lambda: f"{next(_numbers):026}")
        self.limiter = Limiter(client, table, limit, clock)

    def _count(self, request: Any, **_: Any) -> None:
        self.requests[request.headers["X-Amz-Target"].decode().partition(".")[2]] += 1

    @property
    def reads(self) -> int:
        return sum(number for name, number in self.requests.items() if name in READS)

    @property
    def writes(self) -> int:
        return self.requests.total() - self.reads


class Place:
    """Where the tables are: one of its own for every scenario."""

    def __init__(self, endpoint: str) -> None:
        self._clients = [connect(endpoint) for _ in range(ENVIRONMENTS)]

    def fleet(self, size: int = ENVIRONMENTS, limit: int = LIMIT) -> "Fleet":
        table = f"fleet-{next(_numbers)}"
        keys = (("pk", "HASH"), ("sk", "RANGE"))
        self._clients[0].create_table(
            TableName=table,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
            BillingMode="PAY_PER_REQUEST",
        )
        clock = Clock()
        return Fleet(clock, [Environment(client, table, clock, limit) for client in self._clients[:size]])


@dataclass(frozen=True)
class Fleet:
    clock: Clock
    environments: list[Environment]

    @property
    def first(self) -> Environment:
        return self.environments[0]

    @property
    def writes(self) -> int:
        return sum(one.writes for one in self.environments)

    def together(self, work: Callable[[Environment], T]) -> list[T]:
        """Each environment in a thread of its own, all let go at the same moment."""
        barrier = Barrier(len(self.environments))

        def start(environment: Environment) -> T:
            barrier.wait()
            return work(environment)

        with ThreadPoolExecutor(len(self.environments)) as threads:
            return list(threads.map(start, self.environments))

    def open(self, name: str = "reads") -> None:
        for _ in range(POLICY.failure_threshold):
            self.first.circuits.failed(self.first.circuits.ask(name))

    def state(self, name: str = "reads") -> Report:
        return next(report for report in self.first.circuits.states() if report.name == name)

    def ask(self, name: str = "reads") -> list[Permit]:
        return self.together(lambda environment: environment.circuits.ask(name))


@dataclass(frozen=True)
class Stampede:
    calls: int
    bound: int
    openings_announced: int


def stampede(place: Place) -> Stampede:
    """All start at once against a dead dependency, and go on until they are told to stop."""
    fleet = place.fleet()
    fleet.ask()  # everybody believes that all is well
    events: list[object] = []

    def call_until_refused(environment: Environment) -> int:
        calls = 0
        while isinstance(permit := environment.circuits.ask("reads"), Go):
            calls += 1
            events.append(environment.circuits.failed(permit))
        return calls

    calls = sum(fleet.together(call_until_refused))
    announced = sum(event is not None for event in events)
    return Stampede(calls, POLICY.failure_threshold + ENVIRONMENTS, announced)


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
            if isinstance(permit, Probe):
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
        while isinstance(permit, Probe):
            environment.circuits.succeeded(permit)
            permit = environment.circuits.ask("reads")
    closed_at = fleet.clock()
    waiting = list(fleet.environments)
    last = 0.0
    while waiting and last < 60:
        last = (fleet.clock() - closed_at).total_seconds()
        waiting = [one for one in waiting if not isinstance(one.circuits.ask("reads"), Go)]
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
        while isinstance(permit := other.ask("reads"), Probe):
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
    environment = Environment(connect(f"http://127.0.0.1:{_free_port()}"), "nowhere", Clock())
    circuits, limiter = environment.circuits, environment.limiter

    def goes_out(name: str, kind: Kind, *, must_pass: bool = False, buying: bool = False) -> bool:
        try:
            permit = circuits.ask(name, must_pass=must_pass)
            limiter.take(kind, 0, buying=buying)
        except NotNow:
            return False
        circuits.failed(permit)
        return isinstance(permit, Go)

    return Unreachable(
        reads=goes_out("reads", "normal"),
        starts=goes_out("actions", "normal"),
        deletes=goes_out("actions", "urgent", must_pass=True),
        creates=goes_out("buys", "normal", buying=True),
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


@dataclass
class Traffic:
    """Calls sent, in seconds since the start."""

    seconds: float
    sent: list[float] = field(default_factory=list)
    urgent_waits: list[float] = field(default_factory=list)
    writes: int = 0

    @property
    def most_in_60_seconds(self) -> int:
        """Both ends counted in, so a little stricter than a window."""
        return max(bisect_right(self.sent, at + 60) - index for index, at in enumerate(self.sent))

    @property
    def per_minute(self) -> float:
        return len(self.sent) / self.seconds * 60

    @property
    def writes_per_call(self) -> float:
        return self.writes / len(self.sent)

    def between(self, start: float, end: float) -> int:
        return sum(start <= at < end for at in self.sent)


def traffic(
    place: Place,
    seconds: float = 600,
    deletes: tuple[float, ...] = (),
    pauses: dict[float, float] | None = None,
) -> Traffic:
    """As much normal work as there can be, deletes at their times, and 429s with what they ask for."""
    fleet = place.fleet()
    start = fleet.clock()
    result = Traffic(seconds)
    order = count()
    due: list[tuple[float, int, Environment, Kind, str, float]] = []

    def plan(at: float, environment: Environment, kind: Kind, step: str, since: float) -> None:
        heappush(due, (at, next(order), environment, kind, step, since))

    for number, environment in enumerate(fleet.environments):
        plan(0.0, environment, "normal", "ask", 0.0)
        for at in deletes[number :: len(fleet.environments)]:
            plan(at, environment, "urgent", "ask", at)
    for at, asked in (pauses or {}).items():
        plan(at, fleet.first, "normal", f"pause {asked}", at)
    while due:
        at, _, environment, kind, step, since = heappop(due)
        if at >= seconds:
            break
        fleet.clock.now = start + timedelta(seconds=at)
        limiter = environment.limiter
        if step.startswith("pause"):
            limiter.pause(float(step.split()[1]))
        elif step == "ask":
            try:
                delay = limiter.take(kind, LONGEST_CALL_WAIT)
            except NotNow as error:
                plan(at + (error.retry_after or 0.1), environment, kind, "ask", since)
            else:
                plan(at + delay, environment, kind, "look" if delay else "send", since)
        elif step == "look" and limiter.paused():
            plan(at, environment, kind, "ask", since)
        else:
            result.sent.append(at)
            if kind == "urgent":
                result.urgent_waits.append(at - since)
            else:
                plan(at + 0.1 + (next(order) % 10) / 10, environment, kind, "ask", 0.0)
    result.writes = fleet.writes
    return result


@dataclass(frozen=True)
class Burst:
    creates_waiting: int
    longest_create_wait: float
    delete_wait: float


def burst_of_creates(place: Place) -> Burst:
    """Everybody takes what is to be had for creates, then one delete comes."""
    fleet = place.fleet()

    def take_all(environment: Environment) -> list[float]:
        waits: list[float] = []
        try:
            while True:
                waits.append(environment.limiter.take("normal", 15))
        except NotNow:
            return waits

    waits = [wait for some in fleet.together(take_all) for wait in some]
    return Burst(len(waits), max(waits), fleet.first.limiter.take("urgent", 15))


@dataclass(frozen=True)
class Crowd:
    slots: int
    different: int
    most_writes_for_one: int


def crowd(place: Place) -> Crowd:
    """Twenty writers at the same moment, at a limit high enough that all are served."""
    fleet = place.fleet(limit=400)

    def take(environment: Environment) -> tuple[float, int]:
        return environment.limiter.take("normal", 15), environment.writes

    taken = fleet.together(take) + fleet.together(take)
    waits = [wait for wait, _ in taken]
    most = max(now - before for (_, before), (_, now) in zip(taken[:20], taken[20:], strict=True))
    return Crowd(len(waits), len(set(waits)), max(most, max(writes for _, writes in taken[:20])))


@dataclass(frozen=True)
class HighLimit:
    calls: int
    writes: int


def high_limit(place: Place, calls: int = 10_000) -> HighLimit:
    """One environment, as fast as 10,000 a minute allow."""
    fleet = place.fleet(1, limit=10_000)
    for _ in range(calls):
        fleet.clock.advance(fleet.first.limiter.take("normal", 15))
    return HighLimit(calls, fleet.writes)


@contextmanager
def emulator() -> Iterator[Place]:
    """DynamoDB's API over HTTP, on loopback, ended with the block."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "TMPDIR": folder,
            "BIND_HOST": "127.0.0.1",
            "MINISTACK_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(port),
            "SFTP_ENABLED": "0",
            "IOT_MTLS_ENABLED": "0",
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "ministack"], env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}/_ministack/ready", process)
            yield Place(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(address: str, process: "subprocess.Popen[bytes]") -> None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(600):
        try:
            direct.open(address, timeout=1).close()
        except (urllib.error.URLError, OSError):
            if process.poll() is not None:
                raise RuntimeError("the emulator ended at once") from None
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the emulator did not start")


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def connect(endpoint: str) -> Any:
    # No proxies, no second attempts: each request is one that the code under test made.
    config = Config(proxies={}, connect_timeout=2, read_timeout=30, retries={"total_max_attempts": 1})
    return _session.client("dynamodb", endpoint_url=endpoint, config=config)


def _probes(permits: list[Permit]) -> int:
    return sum(isinstance(permit, Probe) for permit in permits)


@dataclass(frozen=True)
class Figure:
    promise: str
    measured: str
    bound: str
    holds: bool


def figures(place: Place) -> Iterator[Figure]:
    dead = max((stampede(place) for _ in range(5)), key=lambda one: one.calls)
    yield Figure(
        "calls to a dead Novita before all stop", f"{dead.calls}", f"≤ {dead.bound}", dead.calls <= dead.bound
    )
    still = while_open(place)
    once = still.probes <= still.periods and not still.probes_before_time
    yield Figure("probes in the open periods", f"{still.probes} in {still.periods}", "≤ 1 each", once)
    gap, least = still.shortest_gap_seconds, POLICY.recovery_timeout
    yield Figure("shortest time between two probes", f"{gap:.1f} s", f"≥ {least:g} s", gap >= least)
    back = recovery(place)
    in_time = back.resumed == ENVIRONMENTS and back.last_after_seconds <= POLICY.cache_seconds
    within = f"all {ENVIRONMENTS} ≤ {POLICY.cache_seconds:g} s"
    yield Figure("resumed after closing", f"{back.resumed} in {back.last_after_seconds:g} s", within, in_time)
    stale = stale_prober(place)
    yield Figure("states moved by a stale prober", f"{stale.moved} of {stale.reports}", "0", stale.moved == 0)
    gone = unreachable()
    passed = [name for name in ("reads", "starts", "deletes", "creates") if getattr(gone, name)]
    as_told = passed == ["reads", "starts", "deletes"]
    yield Figure("go out without the table", ", ".join(passed), "no creates", as_told)
    well = healthy(place)
    yield Figure(f"writes in {well.calls:,} healthy calls", f"{well.writes}", "0", well.writes == 0)
    few, lifetimes = well.most_reads <= well.lifetimes, f"{well.lifetimes} cache lifetimes"
    yield Figure(f"reads in {lifetimes}", f"{well.most_reads}", f"≤ {well.lifetimes}", few)
    busy = traffic(place, 600)
    enough = busy.per_minute >= 95
    yield Figure("calls a minute, enough work, 10 min", f"{busy.per_minute:.1f}", "≥ 95", enough)
    mixed = traffic(place, 240, deletes=DELETES)
    top = max(busy.most_in_60_seconds, mixed.most_in_60_seconds)
    yield Figure("most calls in any 60 s, with deletes", f"{top}", "≤ 105", top <= 105)
    yield Figure("table writes for a call", f"{mixed.writes_per_call:.2f}", "≤ 3", mixed.writes_per_call <= 3)
    rush = burst_of_creates(place)
    waiting = f"{rush.delete_wait:g} s, creates {rush.longest_create_wait:.1f} s"
    yield Figure("a delete behind a burst of creates", waiting, "0 s", rush.delete_wait == 0)
    slowed = traffic(place, 90, pauses={30.0: 20.0})
    during = slowed.between(30.001, 50)
    yield Figure("calls in the 20 s after a 429 asked for 20 s", f"{during}", "0", during == 0)
    met = crowd(place)
    apart = met.different == met.slots and met.most_writes_for_one <= 3
    tries = f"{met.different} of {met.slots} apart, {met.most_writes_for_one} writes"
    yield Figure("slots of 20 writers at once", tries, "all apart, ≤ 3", apart)
    high = high_limit(place)
    cheap = high.writes <= high.calls / 20
    yield Figure(f"writes for {high.calls:,} calls at 10,000/min", f"{high.writes}", "≤ 500", cheap)


# A steady trickle, and twelve at once in the middle.
DELETES = tuple(float(at) for at in range(10, 240, 5)) + (120.5,) * 12


def main() -> int:
    logging.getLogger("functions").setLevel(logging.ERROR)  # the table that is not there is meant
    with emulator() as place:
        good = True
        for figure in figures(place):
            mark = "ok" if figure.holds else "NO"
            print(f"{mark}  {figure.promise:<46} {figure.measured:>26}   {figure.bound}", flush=True)
            good &= figure.holds
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
