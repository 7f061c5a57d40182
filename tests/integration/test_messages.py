"""Messages are hints: doubled, late, mixed up or lost, they change nothing but how soon it happens."""

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.shared.domain.instance import Instance
from functions.shared.domain.status import Status
from tests.integration.conftest import Build
from tests.integration.deaths import FORGETFUL, Interruptions, sides
from tests.integration.wire import Made, sent
from tests.integration.world import World

ACTIONS = ("create", "start", "stop", "restart", "delete")


def _post(world: World, instance_id: str, what: str) -> None:
    method, path = ("DELETE", "") if what == "delete" else ("POST", f"/{what}")
    status, answer = world.call(method, f"/api/instances/{instance_id}{path}")
    assert status == 202, answer


def _live_through(world: World, settle: Callable[[], None]) -> Instance:
    """Created, stopped, started, restarted and deleted, coming to rest in between."""
    instance_id = world.create()
    for what, status in (
        ("", Status.RUNNING),
        ("stop", Status.STOPPED),
        ("start", Status.READY),
        ("restart", Status.READY),
        ("delete", Status.TERMINATED),
    ):
        if what:
            _post(world, instance_id, what)
        settle()
        assert world.record(instance_id).status is status, what
    return world.record(instance_id)


def _taken(world: World, queue: str) -> list[dict[str, Any]]:
    """What was in the queue, which is lost unless somebody hands it over."""
    records = world.receive(queue)
    for record in records:
        world.sqs.delete_message(QueueUrl=world.queues[queue], ReceiptHandle=record["receiptHandle"])
    return [{**record, "receiptHandle": ""} for record in records]


def _message(world: World, queue: str, instance_id: str) -> dict[str, Any]:
    return next(record for record in _taken(world, queue) if instance_id in record["body"])


def _actions(world: World) -> Counter[str]:
    """How often Novita was asked for each."""
    calls = (call["path"].rpartition("/")[2] for call in world.simulator.calls(method="POST"))
    return Counter(name for name in calls if name in ACTIONS)


ONCE_EACH = Counter(dict.fromkeys(ACTIONS, 1))


def _met_at_every_call(
    world: World,
    queue: str,
    prepare: Callable[[int], str],
    meanwhile: Callable[[str], object] | None = None,
) -> list[str]:
    """For each call of the handler: an instance to which something happens at that call, elsewhere; if not
    said otherwise, another environment deals with the same message."""
    record = _message(world, queue, prepare(0))
    world.wire.calls.clear()
    world.restart()
    world.handle(queue, record)
    found = [point for point in sides(world.wire.calls) if not point.after]
    meetings = Interruptions(world)
    ids = []
    for number, point in enumerate(found, start=1):
        ids.append(prepare(number))
        record = _message(world, queue, ids[-1])
        again = partial(world.handle, queue, record)
        meetings.plan(ids[-1], point, partial(meanwhile, ids[-1]) if meanwhile else again)
        world.restart()
        world.handle(queue, record)
    meetings.end()
    return ids


def test_a_create_message_doubled_at_any_moment_buys_one_machine(build: Build) -> None:
    world = build(**FORGETFUL)
    world.wiring.deployments.id()
    ids = _met_at_every_call(world, "create", lambda number: world.create(name=f"i{number}"))

    world.settle()

    assert len(ids) >= 10
    assert len(world.simulator.calls("/gpu/instance/create")) == len(world.simulator.live()) == len(ids) + 1
    for instance_id in ids:
        assert world.record(instance_id).status is Status.RUNNING
        assert world.history(instance_id) == ["instance.creating", "instance.starting", "instance.running"]


@pytest.mark.parametrize(
    ("queue", "what", "ends"),
    [("monitor", "stop", "stopped"), ("startup", "start", "ready"), ("startup", "restart", "ready")],
)
def test_an_operations_message_doubled_at_any_moment_acts_once(
    world: World, queue: str, what: str, ends: str
) -> None:
    def prepare(number: int) -> str:
        status = "exited" if what == "start" else "running"
        machine = world.simulator.put_instance(name=f"i{number}", status=status)
        _, answer = world.call("POST", "/api/instances/import", {"novitaInstanceId": machine["id"]})
        _post(world, answer["instanceId"], what)
        return str(answer["instanceId"])

    ids = _met_at_every_call(world, queue, prepare)

    world.settle()

    accepted = [call for call in world.simulator.calls(f"/gpu/instance/{what}") if call["status"] == 200]
    assert len(ids) >= 4
    assert len(accepted) == len(ids) + 1, "Novita took each of them once"
    assert {world.record(instance_id).status.value for instance_id in ids} == {ends}
    for instance_id in ids:
        world.history(instance_id)


def test_a_sweep_at_any_moment_of_a_purchase_disturbs_nothing(build: Build) -> None:
    world = build(**FORGETFUL)
    world.wiring.deployments.id()
    world.simulator.settings(listLagSeconds=0)
    ids = _met_at_every_call(
        world, "create", lambda number: world.create(name=f"i{number}"), lambda _: world.sweep()
    )

    world.settle()

    assert len(world.simulator.calls("/gpu/instance/create")) == len(world.simulator.live()) == len(ids) + 1
    for instance_id in ids:
        assert world.record(instance_id).status is Status.RUNNING
        assert world.history(instance_id) == ["instance.creating", "instance.starting", "instance.running"]


def _pulling(world: World, number: int) -> str:
    machine = world.simulator.put_instance(name=f"i{number}", status="pulling")
    _, answer = world.call("POST", "/api/instances/import", {"novitaInstanceId": machine["id"]})
    return str(answer["instanceId"])


def _come_up(world: World) -> None:
    for machine in world.simulator.live():
        world.simulator.patch_instance(machine["id"], status="running")
    world.settle()


def test_whoever_is_overtaken_in_a_look_leaves_the_next_message_to_the_winner(world: World) -> None:
    """Two that send each other on would be two chains for good."""
    ids = _met_at_every_call(world, "monitor", partial(_pulling, world))

    told = [sent(call) for call in world.wire.calls if call.name == "SendMessage monitor"]
    tokens = Counter(one["token"] for one in told if one["instance_id"] in ids)
    current = {world.record(instance_id).token for instance_id in ids}
    _come_up(world)

    assert len(ids) >= 4
    assert set(tokens.values()) == {1}
    assert current <= tokens.keys()


def test_what_is_noted_while_a_step_is_under_way_is_not_lost(world: World) -> None:
    def note(instance_id: str) -> None:
        path = f"/api/instances/{instance_id}/last-used"
        status, _ = world.call("PUT", path, {"lastUsedAt": "2026-01-02T03:04:05Z"})
        assert status == 200

    ids = _met_at_every_call(world, "monitor", partial(_pulling, world), note)

    _come_up(world)

    assert len(ids) >= 4
    assert {world.record(instance_id).status for instance_id in ids} == {Status.RUNNING}
    assert {str(at) for at in world.wiring.uses.of(ids).values()} == {"2026-01-02 03:04:05+00:00"}
    assert len(world.wiring.uses.of(ids)) == len(ids)


def test_a_restart_is_sent_once_though_its_use_is_noted_at_every_call(world: World) -> None:
    def prepare(number: int) -> str:
        machine = world.simulator.put_instance(name=f"i{number}", status="running")
        _, answer = world.call("POST", "/api/instances/import", {"novitaInstanceId": machine["id"]})
        _post(world, answer["instanceId"], "restart")
        return str(answer["instanceId"])

    def note(instance_id: str) -> None:
        before = world.record(instance_id)
        assert world.call("PUT", f"/api/instances/{instance_id}/last-used")[0] == 200
        assert world.record(instance_id) == before

    ids = _met_at_every_call(world, "startup", prepare, note)
    sent_before = len(world.simulator.calls("/gpu/instance/restart"))
    world.settle()

    assert len(ids) >= 4
    assert sent_before == len(world.simulator.calls("/gpu/instance/restart")) == len(ids) + 1
    assert {world.record(instance_id).status for instance_id in ids} == {Status.READY}


def test_every_message_twice_in_a_row_does_everything_once(world: World) -> None:
    handle = world.handle

    def twice(queue: str, record: dict[str, Any]) -> bool:
        handle(queue, {**record, "receiptHandle": ""})
        return handle(queue, record)

    world.handle = twice  # type: ignore[method-assign]

    record = _live_through(world, world.settle)

    assert _actions(world) == ONCE_EACH
    assert len(world.history(record.id)) == record.sequence


def test_messages_that_come_late_and_mixed_up_change_nothing(world: World) -> None:
    record = _live_through(world, world.settle)
    running = world.create(name="second")
    world.settle()
    messages = [
        (call.name.removeprefix("SendMessage "), call.params["MessageBody"])
        for call in world.wire.calls
        if call.name.startswith("SendMessage")
    ]
    random.Random(7).shuffle(messages)
    before = (world.record(record.id), world.record(running))
    world.simulator.clear_calls()

    for number, (queue, body) in enumerate(messages):
        wrong = ("create", "monitor", "startup")[number % 3]
        world.handle(queue, world.as_received(queue, body))
        world.handle(wrong, world.as_received(wrong, body))

    assert len(messages) > 8
    assert (world.record(record.id), world.record(running)) == before
    assert world.simulator.calls() == []


def test_a_message_on_the_wrong_queue_finds_its_way(world: World) -> None:
    instance_id = world.create()
    (record,) = _taken(world, "create")

    world.handle("monitor", record)
    world.settle()

    assert world.record(instance_id).status is Status.RUNNING
    assert _actions(world) == Counter(create=1)


def test_without_any_message_the_sweeps_alone_do_everything_once(world: World) -> None:
    refused: list[Made] = []

    def refuse(made: Made) -> None:
        if made.name.startswith("SendMessage") and made.handler != "sweep":
            refused.append(made)
            raise ClientError({"Error": {"Code": "ServiceUnavailable", "Message": ""}}, "SendMessage")

    world.wire.before = refuse

    record = _live_through(world, lambda: world.settle(only_sweeps=True))

    assert len(refused) >= 10
    assert _actions(world) == ONCE_EACH
    assert len(world.history(record.id)) == record.sequence


def test_a_create_is_accepted_although_the_queue_refuses_its_message(world: World) -> None:
    def refuse(made: Made) -> None:
        if made.name.startswith("SendMessage"):
            raise ClientError({"Error": {"Code": "ServiceUnavailable", "Message": ""}}, "SendMessage")

    world.wire.before = refuse
    instance_id = world.create()
    world.wire.before = None

    world.deliver()
    before = world.record(instance_id).status
    world.settle()

    assert before is Status.CREATING
    assert world.record(instance_id).status is Status.RUNNING


def test_there_is_one_poll_chain_however_often_messages_are_doubled(world: World) -> None:
    world.simulator.settings(bootSeconds=600)
    instance_id = world.create()
    began = world.now().timestamp()
    world.deliver()

    for _ in range(5):
        world.run(30)
        for call in [call for call in world.wire.calls if call.name.startswith("SendMessage monitor")]:
            world.handle("monitor", world.as_received("monitor", call.params["MessageBody"]))
        world.sweep()
    polled = Counter(int((call["time"] - began) // 60) for call in world.simulator.calls("/gpu/instance"))
    tokens = Counter(
        sent(call)["token"]
        for call in world.wire.calls
        if call.name.startswith("SendMessage monitor") and call.handler != "sweep"
    )
    token = world.record(instance_id).token
    world.settle()

    assert max(polled.values()) <= 4, f"looks in each minute: {polled}"
    assert set(tokens.values()) == {1}, "no step was told of twice"
    assert token in tokens, "the chain goes on from the record's token and no other"


def test_two_sweeps_at_the_same_moment_take_each_item_once(world: World) -> None:
    ids = [world.create(name=f"i{number}") for number in range(4)]
    _taken(world, "create")
    world.advance(61)
    world.wire.calls.clear()
    claims: list[Made] = []

    def another_sweep(made: Made) -> None:
        if made.name == "UpdateItem inst/record":
            claims.append(made)
            if len(claims) == 2:
                world.elsewhere(world.sweep)

    world.wire.before = another_sweep
    world.sweep()
    world.wire.before = None
    hints = Counter(
        sent(call)["instance_id"] for call in world.wire.calls if call.name == "SendMessage create"
    )
    world.settle()

    assert hints == Counter(dict.fromkeys(ids, 1))
    assert len(world.simulator.live()) == len(ids)
