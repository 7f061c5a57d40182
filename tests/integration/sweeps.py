"""What tests of the sweep need: instances long running, machines made by hand, lists that are wrong."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from functions.shared.adapters.items import purchase_item
from functions.shared.adapters.table import Write, unmarshal
from functions.shared.domain.commands import begin_create
from functions.shared.domain.ids import machine_name, new_instance_id
from functions.shared.domain.instance import Instance, Spec
from functions.shared.domain.purchase import Outcome, Purchase
from functions.shared.domain.status import Status
from tests.integration.world import World

LONG = 300  # past the settling time: what is not listed now is missed


def running(world: World, count: int = 1) -> list[str]:
    """Instances that have run for long, put into the books as a create would have left them."""
    made = [_running(world, number) for number in range(count)]
    world.sweep()
    world.advance(LONG)
    return made


def _running(world: World, number: int) -> str:
    seen_at = world.now() - timedelta(seconds=LONG)
    instance_id = new_instance_id(seen_at)
    machine_id = put(world, instance_id)
    begun = begin_create(
        instance_id=instance_id,
        name=f"n{number}",
        spec=Spec("RTX 4090 24GB", "107677"),
        webhook_url=None,
        actor="test",
        correlation_id="test",
        now=seen_at,
        policy=world.wiring.policy,
    )
    bought = Purchase(
        instance_id,
        1,
        f"n{number}",
        Outcome.BOUGHT,
        seen_at,
        seen_at,
        machine_id=machine_id,
        ended_at=seen_at,
    )
    record = replace(
        begun.record,
        status=Status.RUNNING,
        machine_id=machine_id,
        purchases=1,
        seen_at=seen_at,
        ready_at=seen_at,
        deadline_at=None,
        next_check_at=None,
    )
    world.wiring.instances.add(replace(begun, record=record), [Write(purchase_item(bought))])
    world.wire.news = True
    return instance_id


def machine_of(world: World, instance_id: str) -> str:
    return str(world.record(instance_id).machine_id)


def put(world: World, instance_id: str, purchase: int = 1, deployment: str = "") -> str:
    """A machine made by hand, with the mark of that instance."""
    whose = deployment or world.wiring.deployments.id()
    name = machine_name("hand", whose, instance_id, purchase)
    made = world.simulator.put_instance(name=name, status="running", ageSeconds=LONG)
    return str(made["id"])


def live(world: World) -> set[str]:
    return {str(one["id"]) for one in world.simulator.live()}


def events(world: World, kind: str) -> list[dict[str, Any]]:
    """Events of the service, as they are stored."""
    found = [unmarshal(item) for item in world.items()]
    return [item for item in found if item.get("type") == kind and item["kind"] == "event"]


@contextmanager
def listing(
    world: World, machines: list[dict[str, Any]], page: str = "", total: int | None = None
) -> Iterator[None]:
    """Novita's list is this while it lasts; a get by id is what it was."""
    answer = {"instances": machines, "total": len(machines) if total is None else total}
    fault = world.simulator.fault(
        "garbage",
        path="/gpu/instances",
        match_query=page,
        body=json.dumps(answer),
        contentType="application/json",
    )
    assert fault
    yield
    world.simulator.clear_faults()


def states(world: World) -> list[Instance]:
    return sorted(world.records(), key=lambda record: record.id)
