"""The requests that write without buying, and the function that keeps dead letters, killed at every call."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from functions.shared.domain.messages import StepMessage
from functions.shared.domain.status import Status
from tests.integration import letters
from tests.integration.conftest import Build
from tests.integration.deaths import FORGETFUL, Deaths, Point, lives, points
from tests.integration.wire import Killed
from tests.integration.world import World

USED_AT = "2026-01-02T03:04:05Z"


@pytest.fixture
def world(build: Build) -> World:
    made = build(**FORGETFUL, RETRY_BASE_SECONDS="0")
    made.wiring.deployments.id()  # made once, which test_kill_points.py has deaths for
    return made


@dataclass(frozen=True)
class Request:
    """What is asked, of what was prepared for it, and how it is when it has been done once."""

    prepare: Callable[[World, str], str]
    ask: Callable[[World, str, str], tuple[int, Any]]  # world, what was prepared, key
    done: Callable[[World, str], bool]


def _imported(world: World, name: str, status: str = "running", **more: Any) -> str:
    machine = world.simulator.put_instance(name=name, status=status, ageSeconds=300)
    body = {"novitaInstanceId": machine["id"], "name": name, **more}
    answered, answer = world.call("POST", "/api/instances/import", body)
    assert answered == 201, answer
    return str(answer["instanceId"])


def _machine(world: World, name: str) -> str:
    return str(world.simulator.put_instance(name=name, status="running")["id"])


def _import(world: World, machine_id: str, key: str) -> tuple[int, Any]:
    body = {"novitaInstanceId": machine_id}
    return world.call("POST", "/api/instances/import", body, {"idempotency-key": key})


def _managed_once(world: World, machine_id: str) -> bool:
    return [record.machine_id for record in world.records()].count(machine_id) == 1


def _note_use(world: World, instance_id: str, _: str) -> tuple[int, Any]:
    return world.call("PUT", f"/api/instances/{instance_id}/last-used", {"lastUsedAt": USED_AT})


def _noted(world: World, instance_id: str) -> bool:
    return str(world.wiring.uses.of([instance_id]).get(instance_id)) == "2026-01-02 03:04:05+00:00"


def _drifted(world: World, name: str) -> str:
    """One that has stopped without our doing."""
    instance_id = _imported(world, name)
    world.simulator.patch_instance(world.record(instance_id).machine_id or "", status="exited")
    world.advance(300)
    return instance_id


def _sync(world: World, *_: str) -> tuple[int, Any]:
    return world.call("POST", "/api/sync", {})


def _followed(world: World, instance_id: str) -> bool:
    return world.history(instance_id) == ["instance.running", "instance.exited"]


def _dead(world: World, name: str) -> str:
    """The letter of a create that failed for the last time."""
    instance_id = world.create(name=name)
    for record in world.receive("create"):
        world.sqs.delete_message(QueueUrl=world.queues["create"], ReceiptHandle=record["receiptHandle"])
    message = StepMessage(instance_id, world.record(instance_id).token, "c")
    letters.bury(world, world.as_received("create-dead", message.as_json()))
    assert world.record(instance_id).status is Status.FAILED
    return str(next(one["id"] for one in letters.dead(world) if one["instanceId"] == instance_id))


def _redrive(world: World, letter_id: str, key: str) -> tuple[int, Any]:
    return letters.redrive(world, letter_id, **{"idempotency-key": key})


def _bought_once(world: World, letter_id: str) -> bool:
    letter = next(one for one in letters.dead_items(world) if one["pk"] == letter_id)
    history = world.history(letter["instanceId"])
    again = ["instance.creating", "instance.starting", "instance.running"]
    return history == ["instance.creating", "instance.failed", *again]


def _ended(world: World, name: str) -> str:
    """A delivery whose receiver wanted no more of it."""
    world.simulator.answer(name, {"status": 410})
    instance_id = _imported(world, name, webhookUrl=world.simulator.inbox_url(name))
    letters.deliver_all(world)
    _, answer = world.call("GET", f"/api/webhooks/deliveries?instanceId={instance_id}")
    (delivery,) = answer["deliveries"]
    assert delivery["state"] == "ended"
    return str(delivery["id"])


def _replay(world: World, delivery_id: str, key: str) -> tuple[int, Any]:
    path = f"/api/webhooks/deliveries/{delivery_id}/replay"
    return world.call("POST", path, None, {"idempotency-key": key})


def _delivered(world: World, delivery_id: str) -> bool:
    delivery = world.wiring.deliveries.get(delivery_id)
    return delivery is not None and delivery.state == "delivered" and delivery.next_at is None


def _nothing(_: World, name: str) -> str:
    return name


def _clear(world: World, *_: str) -> tuple[int, Any]:
    world.call("GET", "/api/products")
    return world.call("POST", "/api/cache/clear")


def _clean(world: World, *_: str) -> tuple[int, Any]:
    return world.call("POST", "/api/cache/cleanup")


def _still_answers(world: World, _: str) -> bool:
    return world.call("GET", "/api/products")[0] == 200


REQUESTS = {
    "import": Request(_machine, _import, _managed_once),
    "last-used": Request(_imported, _note_use, _noted),
    "sync": Request(_drifted, _sync, _followed),
    "redrive": Request(_dead, _redrive, _bought_once),
    "replay": Request(_ended, _replay, _delivered),
    "cache clear": Request(_nothing, _clear, _still_answers),
    "cache cleanup": Request(_nothing, _clean, _still_answers),
}


def _recorded(world: World, request: Request) -> list[Point]:
    subject = request.prepare(world, "recorded")
    world.wire.calls.clear()
    world.cold = lambda _: True
    assert request.ask(world, subject, "recorded")[0] in (200, 201, 202)
    found = points(call for call in world.wire.calls if call.handler == "api")
    world.cold = lambda _: False
    letters.deliver_all(world)
    return found


def _until_answered(world: World, request: Request, subject: str, key: str) -> None:
    """As a caller does who repeats what got no answer."""
    for _ in range(60):
        try:
            with world.wire.handling("api", subject):
                status, answer = request.ask(world, subject, key)
        except Killed:
            world.restart()
            continue
        assert status in (200, 201, 202), answer
        return
    raise AssertionError(f"{subject} was killed again and again")


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_that_dies_at_any_call_and_is_repeated_is_done_once(world: World, name: str) -> None:
    request = REQUESTS[name]
    found = _recorded(world, request)
    subjects = []
    deaths = Deaths(world)

    for number, planned in enumerate(lives(found)):
        subjects.append(request.prepare(world, f"s{number}"))
        deaths.plan(subjects[-1], planned)
        _until_answered(world, request, subjects[-1], f"k{number}")
    deaths.end()
    _to_rest(world)

    assert [subject for subject in subjects if not request.done(world, subject)] == []


def _to_rest(world: World) -> None:
    """A sweep brings what a death left behind, webhooks too."""
    world.settle()
    for _ in range(3):
        world.advance(61)
        world.sweep()
        letters.deliver_all(world)
    world.settle()


def test_a_dead_letter_whose_burial_dies_at_any_call_is_kept_once_and_fails_its_instance(
    world: World,
) -> None:
    world.announcing = False
    first = _dying(world, "recorded")
    world.wire.calls.clear()
    world.cold = lambda _: True
    world.bury()
    found = points(call for call in world.wire.calls if call.handler == "bury")
    ids = [first]
    deaths = Deaths(world)

    for number, planned in enumerate(lives(found)):
        ids.append(_dying(world, f"i{number}"))
        deaths.plan(ids[-1], planned)
    for _ in range(10):
        world.bury()
    deaths.end()
    world.settle()

    assert {world.record(id_).status for id_ in ids} == {Status.FAILED}
    assert sorted(one["instanceId"] for one in letters.dead(world, "?limit=100")) == sorted(ids)
    for id_ in ids:
        assert world.history(id_) == ["instance.creating", "instance.failed"]


def _dying(world: World, name: str) -> str:
    """An instance whose message has failed for the last time and waits to be buried."""
    instance_id = world.create(name=name)
    for record in world.receive("create"):
        world.sqs.delete_message(QueueUrl=world.queues["create"], ReceiptHandle=record["receiptHandle"])
    message = StepMessage(instance_id, world.record(instance_id).token, "c")
    world.sqs.send_message(QueueUrl=world.dead_queues["create"], MessageBody=message.as_json())
    return instance_id
