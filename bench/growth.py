"""What a sweep takes for 10 to 100,000 instances: calls to Novita, time of a core, memory, money.

Each size is swept in a process of its own by the real handler, on a virtual clock, over DynamoDB's and
Novita's own wires; what answers there is another process, and not measured.
"""

import io
import json
import logging
import os
import resource
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from bench import prices
from bench.bill import AWS_SECONDS, CORE_MB, NOVITA_SECONDS
from bench.gate import OpenGate
from bench.large_world import BEGAN
from bench.table import Row
from functions.reconcile.handler import handler
from functions.shared.novita.calls import NovitaKey
from functions.shared.novita.client import Novita
from functions.shared.platform import wiring
from functions.shared.platform.aws import Secret
from functions.shared.platform.observability import logger
from functions.shared.platform.settings import Settings
from functions.shared.platform.wiring import Wiring
from infra.budgets import BUDGETS

SIZES = (10, 1_000, 10_000, 100_000)
MOVING = 1_000  # at most, whose messages are all lost
MOST_MB, MOST_SECONDS = 200, 20.0
MOST_MINUTES, MOST_LIST_CALLS = 60, 30
_PAGE = 500
_QUEUES = ("create", "monitor", "startup", "webhook")


@dataclass(frozen=True)
class Grown:
    many: int
    seconds: float  # of a core: the longest sweep
    mean_seconds: float
    megabytes: float
    list_calls: int  # of the sweep that made most
    minutes: int  # until all were compared
    picked_up: int  # minutes until all that was overdue was queued again
    month: float  # USD, of sweeping alone


class _Hands:
    """SQS: counts what is sent."""

    def __init__(self) -> None:
        self.sent = 0

    def send_message(self, **_: Any) -> None:
        self.sent += 1

    def get_queue_attributes(self, **_: Any) -> dict[str, Any]:
        numbers = ("", "NotVisible", "Delayed")
        return {"Attributes": {f"ApproximateNumberOfMessages{one}": "0" for one in numbers}}


class _Secrets:
    def read(self, _: str) -> Secret:
        return Secret("key", "v1")


class LargeWiring(Wiring):
    def __init__(self, address: str) -> None:
        required: dict[str, Any] = {f"{name}_queue_url": f"http://sqs/{name}" for name in _QUEUES}
        required |= {"dead_letter_queue_url": "http://sqs/dead", "table_name": "bench"}
        required |= dict.fromkeys(("topic_arn", "novita_secret_id", "webhook_secret_id"), "-")
        self.at = BEGAN + timedelta(minutes=1)
        super().__init__(Settings(**required), lambda: self.at, lambda _: None)
        self.address, self.hands = address, _Hands()

    def client(self, service: Any) -> Any:
        return self.hands if service == "sqs" else super().client(service)

    @cached_property
    def secrets(self) -> Any:
        return _Secrets()

    @cached_property
    def novita(self) -> Novita:
        gate = OpenGate()
        return Novita(
            f"{self.address}/gpu-instance/openapi/v1",
            key=lambda: NovitaKey("key", "v1"),
            correlation=lambda: "",
            circuits=gate,
            limiter=gate,
            wait=self.wait,
            now=self.clock,
        )


class _Context:
    def __init__(self) -> None:
        self._until = time.monotonic() + BUDGETS["reconcile"].timeout_seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(1000 * (self._until - time.monotonic()))


def sweep_all(many: int) -> Grown:
    """In this process, which has done nothing else."""
    moving = min(MOVING, many // 10)
    with _world(many, moving) as address:
        wired = LargeWiring(address)
        wiring.use(wired)
        wired.key_trust.trust("bench")
        lines = io.StringIO()
        seconds: list[float] = []
        calls, counts, picked_up = [], Counter[str](), 0
        _read_counts(address)
        minutes = 0
        while not _all_compared(wired, many, minutes) and minutes < 2 * MOST_MINUTES:
            began = time.process_time()
            with redirect_stdout(lines):
                handler({}, _Context())
            seconds.append(time.process_time() - began)
            made = _read_counts(address)
            calls.append(made["list calls"])
            counts += made
            minutes += 1
            if not picked_up and wired.hands.sent >= moving:
                picked_up = minutes
                _ask(address, "/_handled")
                counts.clear()
            wired.at += timedelta(minutes=1)
            lines.truncate(0)
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    usual = seconds[picked_up:]  # where nothing was overdue
    mean = sum(usual) / len(usual)
    month = _month(mean, counts, len(usual))
    return Grown(many, max(seconds), mean, megabytes, max(calls), minutes, picked_up, month)


def _all_compared(wired: LargeWiring, many: int, minutes: int) -> bool:
    """A few more than it takes where all fit into one: some work is not done in every sweep."""
    if many <= wired.settings.sweep_at_once:
        return minutes >= 5
    return wired.list_walks.read().last is not None


def _month(cpu_seconds: float, counts: Counter[str], sweeps: int) -> float:
    reconcile = BUDGETS["reconcile"]
    table = sum(number for name, number in counts.items() if name[0].isupper())
    novita = counts["list calls"] + counts["get calls"]
    waits = (table * AWS_SECONDS + novita * NOVITA_SECONDS) / sweeps
    seconds = cpu_seconds / min(1.0, reconcile.memory_mb / CORE_MB) + waits
    each = seconds * reconcile.memory_mb / 1024 * prices.LAMBDA_GB_SECOND + prices.LAMBDA_REQUEST
    each += counts["read units"] / sweeps * prices.DYNAMODB_READ_UNIT
    each += counts["write units"] / sweeps * prices.DYNAMODB_WRITE_UNIT
    return each * prices.MONTH_SECONDS / 60


@contextmanager
def _world(many: int, moving: int) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.large_world", str(many), str(moving)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  # our own
    try:
        port = process.stdout.readline().strip() if process.stdout else ""
        address = f"http://127.0.0.1:{port}"
        os.environ |= {
            "AWS_ENDPOINT_URL": address,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "-",
            "AWS_SECRET_ACCESS_KEY": "-",
        }
        yield address
    finally:
        process.kill()
        process.wait()


def _read_counts(address: str) -> Counter[str]:
    return Counter(_ask(address, "/_counts"))


def _ask(address: str, path: str) -> Any:
    with urllib.request.urlopen(f"{address}{path}") as answer:  # noqa: S310  # our own process
        return json.load(answer)


def measured(many: int) -> Grown:
    command = [sys.executable, "-m", "bench.growth", str(many)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603  # our own
    return Grown(**json.loads(done.stdout.splitlines()[-1]))


def rows(sizes: tuple[int, ...] = SIZES) -> Iterator[Row]:
    for many in sizes:
        yield from rows_of(measured(many))


def rows_of(found: Grown) -> Iterator[Row]:
    of = f"{found.many:,} instances"
    spread = found.seconds - found.mean_seconds
    yield Row("growth", f"sweep of {of}: CPU, the longest", found.seconds, "s", MOST_SECONDS, spread=spread)
    yield Row("growth", f"sweep of {of}: memory", found.megabytes, "MB", MOST_MB, anchor="the whole process")
    yield Row("growth", f"{of}: reads of the list", found.list_calls, "a minute", MOST_LIST_CALLS)
    yield Row("growth", f"{of}: all compared within", found.minutes, "min", MOST_MINUTES)
    yield Row("growth", f"{of}: all overdue picked up within", found.picked_up, "min", 2)
    rent = f"${found.many * 0.35 * 730:,.0f} for the machines"
    yield Row("growth", f"{of}: a month of sweeps", found.month, "USD", anchor=rent)


def main() -> int:
    logger.setLevel(logging.ERROR)
    if len(sys.argv) > 1:
        print(json.dumps(asdict(sweep_all(int(sys.argv[1])))))
        return 0
    good = True
    for row in rows():
        print(f"{'ok' if row.holds else 'NO'}  {row.name:<52} {row.value:>10.2f} {row.unit}", flush=True)
        good &= row.holds
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
