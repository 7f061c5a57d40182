"""Each alarm on what the functions measure is made to fire, and ends when its cause does."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import pytest

from functions.shared.domain.ids import new_instance_id
from tests.integration import letters
from tests.integration.alarms import Alarm, Metrics, synthesised
from tests.integration.conftest import Build, Measured
from tests.integration.sweeps import listing, put, running
from tests.integration.wire import Made
from tests.integration.world import World

CREATE = "/gpu/instance/create"
MINUTE = 60.0


@pytest.fixture(scope="session")
def alarms() -> dict[str, Alarm]:
    return synthesised(ours=True)


@dataclass
class OnCall:
    """A world with somebody on call, from now on."""

    world: World
    alarms: dict[str, Alarm]
    metrics: Metrics
    since: datetime

    def raised(self) -> set[str]:
        return {name for name in self.alarms if self.history(name)[-1:] == [True]}

    def history(self, name: str) -> list[bool]:
        return self.alarms[name].history(self.metrics.points, self.since, self.world.now())

    def minutes(self, count: int, then: Callable[[], object] = lambda: None) -> None:
        """A sweep each minute, as the schedule has it."""
        for _ in range(count):
            self.world.sweep()
            then()
            self.world.advance(MINUTE)


Watch = Callable[[World], OnCall]


@pytest.fixture
def watch(alarms: dict[str, Alarm], measured: Measured) -> Watch:
    return lambda world: OnCall(world, alarms, measured(world), world.now())


def test_every_alarm_on_our_own_metrics_is_made_to_fire_here(alarms: dict[str, Alarm]) -> None:
    assert alarms.keys() == {
        "DeadLetters",
        "CircuitOpen",
        "Orphans",
        "Brake",
        "ReconcilerSilent",
        "StepsLate",
        "EventsLate",
        "AccountRefused",
        "ServerErrors",
    }


def test_nothing_is_raised_while_all_goes_well(world: World, watch: Watch) -> None:
    on_call = watch(world)

    world.create()
    on_call.minutes(16, world.deliver)
    world.settle()

    assert [name for name in on_call.alarms if any(on_call.history(name))] == []


def test_a_dead_letter_raises_an_alarm(build: Build, watch: Watch) -> None:
    world = build(MAX_RETRY_ATTEMPTS="0", RETRY_BASE_SECONDS="0")
    on_call = watch(world)

    letters.failed_create(world)
    on_call.minutes(5)

    assert any(on_call.history("DeadLetters"))
    on_call.minutes(6)
    assert "DeadLetters" not in on_call.raised(), "told once; the record stays"
    assert on_call.metrics.of("DeadLettersKept")[-1] == 1


def test_a_circuit_that_stays_open_raises_an_alarm(build: Build, watch: Watch) -> None:
    world = build(BREAKER_FAILURE_THRESHOLD="3", BREAKER_CACHE_SECONDS="0")
    on_call = watch(world)
    world.simulator.fault("status", status=503)

    on_call.minutes(5)
    assert "CircuitOpen" not in on_call.raised(), "not yet too long"
    on_call.minutes(12)

    assert "CircuitOpen" in on_call.raised()
    world.simulator.clear_faults()
    on_call.minutes(15)
    assert "CircuitOpen" not in on_call.raised()


def test_an_open_circuit_that_nobody_asks_raises_none(build: Build, watch: Watch) -> None:
    world = build(BREAKER_FAILURE_THRESHOLD="1", BREAKER_CACHE_SECONDS="0")
    on_call = watch(world)
    world.simulator.fault("status", CREATE, status=503)
    instance_id = world.create()
    letters.deliver_all(world)
    world.call("DELETE", f"/api/instances/{instance_id}")
    world.settle()

    on_call.minutes(20)

    _, answer = world.call("GET", "/api/circuits")
    assert {one["name"]: one["state"] for one in answer["circuits"]}["buys"] == "OPEN"
    assert not any(on_call.history("CircuitOpen"))


def test_an_orphan_raises_an_alarm_until_it_is_gone(world: World, watch: Watch) -> None:
    on_call = watch(world)
    orphan = put(world, new_instance_id(world.now()))

    on_call.minutes(6)

    assert "Orphans" in on_call.raised()
    world.simulator.fault("status", status=503)
    on_call.minutes(11)
    assert "Orphans" in on_call.raised(), "that Novita does not tell is no proof that it is gone"
    world.simulator.clear_faults()
    world.simulator.patch_instance(orphan, status="removed")
    on_call.minutes(11)
    assert "Orphans" not in on_call.raised()


def test_a_brake_that_is_pulled_raises_an_alarm(world: World, watch: Watch) -> None:
    running(world, 4)
    on_call = watch(world)

    with listing(world, []):
        on_call.minutes(5)

    assert "Brake" in on_call.raised()
    on_call.minutes(5)
    assert "Brake" not in on_call.raised()


def test_a_reconciler_that_does_nothing_raises_an_alarm(world: World, watch: Watch) -> None:
    on_call = watch(world)
    on_call.minutes(6)
    assert "ReconcilerSilent" not in on_call.raised()

    world.advance(5 * MINUTE)

    assert "ReconcilerSilent" in on_call.raised()
    on_call.minutes(1)
    assert "ReconcilerSilent" not in on_call.raised()


def test_a_sweep_that_fails_is_a_silent_one(world: World, watch: Watch) -> None:
    on_call = watch(world)

    def fail(_: Made) -> None:
        raise RuntimeError

    world.wire.before = fail
    for _ in range(6):
        with pytest.raises(RuntimeError):
            world.sweep()
        world.advance(MINUTE)
    world.wire.before = None

    assert "ReconcilerSilent" in on_call.raised()


def test_steps_that_nobody_takes_raise_an_alarm(world: World, watch: Watch) -> None:
    on_call = watch(world)
    world.create()

    on_call.minutes(15)
    assert "StepsLate" not in on_call.raised()
    on_call.minutes(15)

    assert "StepsLate" in on_call.raised()
    on_call.minutes(11, world.deliver)
    assert "StepsLate" not in on_call.raised()
    world.settle()


def test_events_that_cannot_be_told_raise_an_alarm(world: World, watch: Watch) -> None:
    on_call = watch(world)
    world.sns.delete_topic(TopicArn=world.topic)
    world.create()
    world.announce()

    on_call.minutes(10, world.announce)
    assert "EventsLate" not in on_call.raised(), "not yet too long"
    on_call.minutes(10, world.announce)

    assert "EventsLate" in on_call.raised()
    world.sns.create_topic(Name=world.topic.rpartition(":")[2])
    on_call.minutes(10, world.announce)
    assert "EventsLate" not in on_call.raised()
    world.settle()


def test_a_key_that_novita_refuses_raises_an_alarm(world: World, watch: Watch) -> None:
    on_call = watch(world)
    world.simulator.fault("status", status=401, reason="INVALID_API_KEY")

    on_call.minutes(5)

    assert "AccountRefused" in on_call.raised()
    assert on_call.metrics.of("AccountRefusals", because="key")


def test_an_account_without_money_raises_an_alarm(world: World, watch: Watch) -> None:
    on_call = watch(world)
    world.simulator.settings(balanceEnough=False)
    world.create()

    letters.deliver_all(world)
    on_call.minutes(5)

    assert on_call.metrics.of("AccountRefusals", because="money") == [1]
    assert any(on_call.history("AccountRefused"))
    world.settle()


def test_an_answer_of_500_raises_an_alarm_and_one_of_503_does_not(world: World, watch: Watch) -> None:
    on_call = watch(world)
    world.simulator.fault("status", status=503)
    quote = {"productName": "RTX 4090 24GB", "templateId": "107672", "name": "x"}
    assert world.call("POST", "/api/quotes", quote)[0] in (502, 503, 504)
    world.simulator.clear_faults()
    on_call.minutes(5)
    assert "ServerErrors" not in on_call.raised()

    def fail(_: Made) -> None:
        raise RuntimeError

    world.wire.before = fail
    status, _ = world.call("GET", "/api/instances")
    world.wire.before = None
    on_call.minutes(5)

    assert status == 500
    assert any(on_call.history("ServerErrors"))
