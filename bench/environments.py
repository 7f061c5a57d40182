"""Environments that share nothing but one table, on a virtual clock."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count, cycle
from pathlib import Path
from threading import Barrier
from typing import Any, TypeVar

import boto3
from botocore.config import Config

from bench.virtual_time import Clock, VirtualTableClock
from functions.shared.domain.resilience import CircuitPolicy, CircuitReport, Permit
from functions.shared.stores.circuits import Circuits
from functions.shared.stores.rate_limiter import RateLimiter
from local.emulator import Emulator
from local.ports import Ports

T = TypeVar("T")

ENVIRONMENTS = 20
POLICY = CircuitPolicy()
LIMIT = 100
LONGEST_CALL_WAIT = 15.0  # of a step of create or monitor
CALLER_WAIT = 1.0  # of a request that somebody waits for
READS = frozenset({"GetItem", "BatchGetItem", "Query"})

_numbers = count(1)
_session = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1")


class Environment:
    """One process of a function: its own connections and its own memory, nothing shared but the table."""

    def __init__(
        self, client: Any, table: str, clock: Clock, limit: int = LIMIT, skew_seconds: float = 0.0
    ) -> None:
        self.requests: Counter[str] = Counter()
        client.meta.events.register("before-send.dynamodb", self._count)
        self.circuits = Circuits(client, table, POLICY, clock, lambda: f"{next(_numbers):026}")
        skew = timedelta(seconds=skew_seconds)
        self.limiter = RateLimiter(client, table, limit, VirtualTableClock(lambda: clock() + skew, clock))

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

    def fleet(
        self, size: int = ENVIRONMENTS, limit: int = LIMIT, skews: tuple[float, ...] = (0.0,)
    ) -> "Fleet":
        """`skews`: how far the environments' own clocks are off, in turn."""
        table = f"fleet-{next(_numbers)}"
        keys = (("pk", "HASH"), ("sk", "RANGE"))
        self._clients[0].create_table(
            TableName=table,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
            BillingMode="PAY_PER_REQUEST",
        )
        clock = Clock()
        environments = [
            Environment(client, table, clock, limit, skew)
            for client, skew in zip(self._clients[:size], cycle(skews), strict=False)
        ]
        return Fleet(clock, environments)


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

    def state(self, name: str = "reads") -> CircuitReport:
        return next(report for report in self.first.circuits.states() if report.name == name)

    def ask(self, name: str = "reads") -> list[Permit]:
        return self.together(lambda environment: environment.circuits.ask(name))


@contextmanager
def emulator() -> Iterator[Place]:
    """DynamoDB's API over HTTP, on loopback, ended with the block."""
    with tempfile.TemporaryDirectory() as folder, Emulator(Path(folder), Ports.free().emulator) as started:
        yield Place(started.url)


def connect(endpoint: str) -> Any:
    # No proxies, no second attempts: each request is one that the code under test made.
    config = Config(proxies={}, connect_timeout=2, read_timeout=30, retries={"total_max_attempts": 1})
    return _session.client("dynamodb", endpoint_url=endpoint, config=config)
