"""The announcer, the webhook sender and the sweep killed at every call they make."""

import json
from collections import Counter

from functions.shared.domain.status import Status
from tests.integration.conftest import Build
from tests.integration.deaths import Deaths, lives, points
from tests.integration.world import World

TELLING = ("announce", "webhook")


def _import(world: World, name: str, status: str = "running") -> str:
    """An instance with one event to tell."""
    machine = world.simulator.put_instance(name=name, status=status)
    body = {"novitaInstanceId": machine["id"], "name": name, "webhookUrl": world.simulator.inbox_url("hook")}
    answered, answer = world.call("POST", "/api/instances/import", body)
    assert answered == 201, answer
    return str(answer["instanceId"])


def _tell(world: World) -> None:
    """Until everything is told: a sweep brings what a death left behind."""
    for _ in range(20):
        while world.deliver():
            pass
        if not any(world._due(kind) for kind in ("event", "delivery")):
            return
        world.advance(61)
        world.sweep()
    raise AssertionError("not everything was told")


def _published(world: World) -> Counter[str]:
    calls = (call for call in world.wire.calls if call.name == "Publish")
    return Counter(json.loads(call.params["Message"])["instanceId"] for call in calls)


def test_an_event_is_told_to_everybody_whoever_dies_while_telling_it(world: World) -> None:
    world.cold = lambda _: True
    _import(world, "recorded")
    _tell(world)
    found = points(call for call in world.wire.calls if call.handler in TELLING)
    deaths = Deaths(world)
    ids = []
    for number, some in enumerate(lives(found)):
        ids.append(_import(world, f"i{number}"))
        deaths.plan(ids[-1], some)

    _tell(world)

    deaths.end()
    received = Counter(json.loads(message["body"])["instanceId"] for message in world.simulator.inbox("hook"))
    published = _published(world)
    assert [id_ for id_ in ids if not received[id_]] == []
    assert [id_ for id_ in ids if not published[id_]] == []


def test_a_sweep_that_dies_at_any_call_is_made_good_by_the_next(build: Build) -> None:
    world = build(BOOT_MAX_WAIT="86400")
    world.announcing = False
    world.cold = lambda _: True
    waiting, drifted = [_waiting(world, "recorded")], [_drifted(world, "recorded")]
    world.advance(61)
    world.sweep()
    found = points(call for call in world.wire.calls if call.handler == "sweep")
    deaths = Deaths(world)
    world.cold = lambda _: True

    for number, some in enumerate(lives(found)):
        waiting.append(_waiting(world, f"w{number}"))
        drifted.append(_drifted(world, f"d{number}"))
        deaths.plan("", some)
        for _ in some:
            world.advance(61)
            world.sweep()
    deaths.end()
    world.announcing = True
    for machine in world.simulator.live():
        if machine["status"] == "pulling":
            world.simulator.patch_instance(machine["id"], status="running")
    world.advance(61)
    world.sweep()
    world.settle(only_sweeps=True)
    _tell(world)

    assert {world.record(id_).status for id_ in waiting} == {Status.RUNNING}
    assert {world.record(id_).status for id_ in drifted} == {Status.EXITED}


def _waiting(world: World, name: str) -> str:
    """An instance that is due, and whose message was lost."""
    instance_id = _import(world, name, "pulling")
    for record in world.receive("monitor"):
        world.sqs.delete_message(QueueUrl=world.queues["monitor"], ReceiptHandle=record["receiptHandle"])
    return instance_id


def _drifted(world: World, name: str) -> str:
    """An instance whose machine has stopped without our doing."""
    instance_id = _import(world, name)
    world.simulator.patch_instance(world.record(instance_id).machine_id or "", status="exited")
    return instance_id
