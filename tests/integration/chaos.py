"""Everything goes wrong at once, over many instances: `make soak SEED=… INSTANCES=…`.

The same seed makes the same decisions in the same order: who asks for what and when, which call meets which
fault, where functions die, what happens meanwhile, how long the service's own jitter lets it wait. Virtual
time begins at the same moment, everything runs on one thread, and nothing waits for real time. Not reproduced
are the simulator's ids and the real time that calls take: neither changes an order here, and a test holds two
runs of one seed against each other.
"""

import argparse
import os
import random as randomness
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from functions.api.use_cases import create_instance, merge_lists
from functions.shared.domain.delivery.targets import HttpResponse, OutboundFailed
from functions.shared.outbound.http import OutboundHttp
from functions.shared.platform import wiring
from functions.shared.platform.observability import logger
from local.emulator import ACCESS_KEY, REGION, SECRET_KEY, Emulator
from local.novita.client import Simulator
from local.novita.process import running
from local.ports import Ports
from tests.costs import WITHIN
from tests.integration import tally
from tests.integration.callers import Caller, plan
from tests.integration.chaos_run import ChaosRun
from tests.integration.definition import table_definition
from tests.integration.fault_profiles import ALL, FaultProfile
from tests.integration.harness import Harness
from tests.integration.near_table import near_table
from tests.integration.production import ProductionWiring, attempts_at_once
from tests.integration.proxy import FaultProxy
from tests.integration.quick_emulator import QuickEmulator
from tests.integration.subscriber import Subscriber
from tests.integration.verdict import Verdict, judge

_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
_SETTINGS = {
    "WEBHOOK_WAITS": "5,20,60,60,120,120,300,300,600,600,600,600",
    "RETRY_BASE_SECONDS": "5",
    # Circuits open now and then and not for most of the time, since nearly a third of all actions fail.
    "BREAKER_FAILURE_THRESHOLD": "15",
    "BREAKER_RECOVERY_TIMEOUT": "20",
}


@contextmanager
def one_thread() -> Iterator[None]:
    """What is done side by side is done one after the other: threads draw by chance who meets which fault."""
    with ExitStack() as stack:
        for module in (create_instance, merge_lists):
            stack.enter_context(patch.object(module, "ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1)))
        yield


@contextmanager
def disturbed(
    emulator: Emulator, simulator: Simulator, table: dict[str, Any], proxy: FaultProxy
) -> Iterator[Harness]:
    """A harness whose functions reach the emulator through the proxy."""
    environment = {
        "AWS_ENDPOINT_URL": proxy.url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }

    def request(*given: Any, **options: Any) -> HttpResponse:
        """One that hangs has taken its time when the invocation is over."""
        if harness.outbound_hangs():
            raise OutboundFailed("timeout", "it took all the time there was")
        return asked(*given, **options)

    asked, hanging = OutboundHttp.request, patch.object(OutboundHttp, "request", request)
    simulator.reset()
    with patch.dict(os.environ, environment), attempts_at_once(), one_thread(), hanging:
        harness = Harness(emulator, simulator, table, _SETTINGS, ProductionWiring)
        harness.begin(_BEGINNING)
        yield harness
        assert harness.wire.settings_read.undeclared == set()
        wiring.use(None)
    proxy.forget()
    simulator.reset()


def callers_of(harness: Harness, random: Random, instances: int, over_seconds: float) -> list[Caller]:
    hook = harness.simulator.inbox_url("box")
    return [plan(number, harness.now(), over_seconds, random, hook) for number in range(instances)]


def run(
    harness: Harness, proxy: FaultProxy, random: Random, profile: FaultProfile, callers: list[Caller]
) -> tuple[Verdict, ChaosRun]:
    """Everything that the callers ask for, with these faults; and the verdict when all is at rest."""
    randomness.seed(random.random())
    subscriber = Subscriber(harness)
    _plan_answers(harness, callers, random, profile.receivers_fail)
    with _drawn_by(Random(random.random())):
        chaos_run = ChaosRun(harness, proxy, random, profile)
        chaos_run.run(callers, calm_after=profile.lasts)
    # What Novita does not tell, our clocks do.
    within = max(harness.costs_within, WITHIN + timedelta(seconds=profile.skew_seconds))
    # What ends by itself while another account's key is in, or while it is hidden, nobody here can see.
    blind = tuple(chaos_run.blind) if profile.reclaims else None
    verdict = judge(harness, callers, subscriber.received(), within, blind)
    verdict.count()
    verdict.wrong += _live_messages(harness, chaos_run)
    chaos_run.injected["webhook received again"] += _received_again(harness, callers)
    tally.add_faults(+chaos_run.injected)
    return verdict, chaos_run


@contextmanager
def _drawn_by(random: Random) -> Iterator[None]:
    """Ids and tokens, too: an instance's id says in which shard of the fleet a sweep meets it."""
    with (
        patch.object(secrets, "randbits", random.getrandbits),
        patch.object(secrets, "token_hex", lambda count: f"{random.getrandbits(8 * count):0{2 * count}x}"),
        patch.object(secrets, "choice", random.choice),
    ):
        yield


def _plan_answers(harness: Harness, callers: list[Caller], random: Random, fail: float) -> None:
    """What each receiver answers before it answers well for ever."""
    for caller in callers:
        if fail and (url := caller.body.get("webhookUrl")):
            bad = [random.random() < fail for _ in range(30)]
            answers = [{"status": random.choice((500, 503, 302, 429)) if one else 200} for one in bad]
            harness.simulator.answer(
                url.rpartition("/")[2], *({**answer, "headers": {"Retry-After": "30"}} for answer in answers)
            )


def _received_again(harness: Harness, callers: list[Caller]) -> int:
    urls = (caller.body["webhookUrl"] for caller in callers if "webhookUrl" in caller.body)
    boxes = [harness.simulator.inbox(url.rpartition("/")[2]) for url in urls]
    return sum(len(box) - len({message["headers"]["webhook-id"] for message in box}) for box in boxes)


def _live_messages(harness: Harness, chaos_run: ChaosRun) -> list[str]:
    """Messages that still do something when all is at rest: there is one chain of steps, and it has ended."""
    before = {record.id: record for record in harness.records()}
    harness.simulator.clear_calls()
    for queue, body in chaos_run.sent[-150:]:
        if queue not in ("webhook", "dead"):  # a dead letter is no step: a function gave its message up
            harness.handle(queue, harness.as_received(queue, body))
    after = {record.id: record for record in harness.records()}
    calls = [f"{call['method']} {call['path']} long after" for call in harness.simulator.calls()]
    return calls + [f"{id_} was changed by an old message" for id_ in before if after[id_] != before[id_]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--instances", type=int, default=1000)
    parser.add_argument("--over", type=float, default=None, help="seconds of virtual time for the creates")
    asked = parser.parse_args(arguments)
    seed = asked.seed if asked.seed is not None else randomness.SystemRandom().randrange(1_000_000)
    print(f"SEED={seed} INSTANCES={asked.instances}", flush=True)  # noqa: T201  # a command prints
    logger.setLevel("CRITICAL")
    began = time.monotonic()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        started = stack.enter_context(QuickEmulator(Path(folder), Ports.free().emulator))
        emulator = stack.enter_context(near_table(started))
        simulator = stack.enter_context(running())
        proxy = stack.enter_context(FaultProxy(emulator.url))
        harness = stack.enter_context(disturbed(emulator, simulator, table_definition(), proxy))
        over = asked.over or max(600.0, asked.instances * 1.2)
        stack.enter_context(redirect_stdout(stack.enter_context(Path(os.devnull).open("w"))))  # metrics
        random = Random(seed)
        verdict, _ = run(harness, proxy, random, ALL, callers_of(harness, random, asked.instances, over))
    for line in (*tally.lines(tally.counts), str(verdict), *verdict.wrong):
        print(line)  # noqa: T201  # a command prints
    outcome = f"{len(verdict.wrong)} things are wrong" if verdict.wrong else "all is well"
    print(f"{outcome} after {time.monotonic() - began:.0f} s (SEED={seed})")  # noqa: T201  # a command prints
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
