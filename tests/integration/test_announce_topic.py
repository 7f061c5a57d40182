"""What subscribers of the topic get: each event at least once, and by a filter policy only what is theirs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from functions.shared.adapters.table import Write
from tests.integration.subscriber import Subscriber
from tests.integration.wire import Made
from tests.integration.world import World

SERVICE_EVENTS: list[dict[str, Any]] = [
    {
        "pk": "circuit#reads",
        "sk": "event#0000000001",
        "id": "evt_circuit",
        "type": "circuit.opened",
        "timestamp": "2030-01-01T12:00:00.000Z",
        "circuit": "reads",
        "state": "OPEN",
    },
    {
        "pk": "orphan#m-1",
        "sk": "event#0000000001",
        "id": "evt_orphan",
        "type": "orphan.detected",
        "timestamp": "2030-01-01T12:00:00.000Z",
        "data": {"novitaInstanceId": "m-1", "instanceId": "inst_gone"},
    },
]


@contextmanager
def failing(world: World, name: str) -> Iterator[list[Made]]:
    """Calls of the announcer of this name are not answered."""
    failed: list[Made] = []

    def fail(made: Made) -> None:
        if made.handler == "announce" and made.name.startswith(name):
            failed.append(made)
            raise EndpointConnectionError(endpoint_url="http://127.0.0.1:9")

    world.wire.before = fail
    yield failed
    world.wire.before = None


def store(world: World, *events: dict[str, Any]) -> None:
    due = {"kind": "event", "due": "event", "dueAt": int(world.now().timestamp() * 1000)}
    for event in events:
        world.wiring.table.put(Write({**event, **due}))


def test_subscribers_get_only_what_their_filter_policy_names(world: World) -> None:
    running = Subscriber(world, {"eventType": ["instance.running"]})
    service = Subscriber(world, {"eventType": [{"prefix": "circuit."}, "orphan.detected"]})
    region = Subscriber(world, {"region": ["CN-HK-01"], "status": ["starting"]})
    everything = Subscriber(world, None)
    store(world, *SERVICE_EVENTS)

    instance_id = world.create()
    world.settle()
    other_id = world.create()
    world.settle()

    assert [(one["type"], one["instanceId"]) for one in running.received()] == [
        ("instance.running", instance_id),
        ("instance.running", other_id),
    ]
    assert sorted(one["id"] for one in service.received()) == ["evt_circuit", "evt_orphan"]
    assert {one["type"] for one in region.received()} == {"instance.starting"}
    assert len(everything.received()) == 3 + 3 + 2


def test_a_message_carries_the_attributes_that_policies_may_name(world: World) -> None:
    everything = Subscriber(world, None)

    instance_id = world.create()
    world.settle()

    by_type = {one["type"]: one for one in everything.received()}
    assert by_type["instance.running"]["attributes"] == {
        "eventType": "instance.running",
        "status": "running",
        "instanceId": instance_id,
        "region": "CN-HK-01",
    }
    assert by_type["instance.running"]["id"] == f"evt_{instance_id.removeprefix('inst_')}_3"


def test_events_of_the_service_itself_are_announced_too(world: World) -> None:
    everything = Subscriber(world, None)
    store(world, *SERVICE_EVENTS)

    world.announce()

    by_type = {one["type"]: one for one in everything.received()}
    assert by_type["circuit.opened"]["data"] == {"circuit": "reads", "state": "OPEN"}
    assert by_type["circuit.opened"]["attributes"] == {"eventType": "circuit.opened"}
    assert by_type["orphan.detected"]["data"]["novitaInstanceId"] == "m-1"
    assert world.announce() == 0


@pytest.mark.parametrize("call", ["Publish", "PutItem dlv/delivery", "UpdateItem inst/event"])
def test_an_event_that_could_not_be_told_stays_due_and_comes_again(world: World, call: str) -> None:
    everything = Subscriber(world, None)
    box = world.simulator.inbox_url("again")
    with failing(world, call) as failed:
        instance_id = world.create(webhookUrl=box)
        assert world.announce() == 1
    assert failed

    world.settle()
    world.run(120)

    sent = [one["id"] for one in everything.received()]
    ids = [f"evt_{instance_id.removeprefix('inst_')}_{number}" for number in (1, 2, 3)]
    assert sorted(set(sent)) == ids  # at least once, with the same id
    assert sorted(one["headers"]["webhook-id"] for one in world.simulator.inbox("again")) == ids


def test_when_the_webhook_queue_refuses_the_sweep_sends_the_first_attempt(world: World) -> None:
    with failing(world, "SendMessage webhook") as failed:
        world.create(webhookUrl=world.simulator.inbox_url("later"))
        world.announce()
    assert failed
    assert world.simulator.inbox("later") == []

    world.advance(61)
    world.sweep()
    world.settle()

    assert len(world.simulator.inbox("later")) == 3


def test_an_event_that_makes_no_sense_holds_up_nobody(world: World) -> None:
    everything = Subscriber(world, None)
    store(world, {"pk": "a", "sk": "event#1"}, {"pk": "b", "sk": "event#1", "event": {"type": 7}})
    store(world, *SERVICE_EVENTS)

    world.announce()

    assert len(everything.received()) == 2
    assert world.announce() == 2  # still due, for whoever reads the log
