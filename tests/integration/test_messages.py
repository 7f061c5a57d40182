"""Messages only say that a step is due: doubled, late, mixed up or lost, they change only how soon it is."""

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.crash_points import FORGETFUL, Interruptions, sides
from tests.integration.harness import Harness
from tests.integration.wire import Made, sent

ACTIONS = ("create", "start", "stop", "restart", "delete")


def _post(harness: Harness, instance_id: str, what: str, body: Any = None) -> None:
    method, path = ("DELETE", "") if what == "delete" else ("POST", f"/{what}")
    status, answer = harness.call(method, f"/api/instances/{instance_id}{path}", body)
    assert status == 202, answer


def _live_through(harness: Harness, settle: Callable[[], None]) -> Instance:
    """Created, stopped, started, restarted and deleted, coming to rest in between."""
    instance_id = harness.create()
    for what, status in (
        ("", Status.RUNNING),
        ("stop", Status.STOPPED),
        ("start", Status.READY),
        ("restart", Status.READY),
        ("delete", Status.TERMINATED),
    ):
        if what:
            _post(harness, instance_id, what)
        settle()
        assert harness.record(instance_id).status is status, what
    return harness.record(instance_id)


def _taken(harness: Harness, queue: str) -> list[dict[str, Any]]:
    """What was in the queue, which is lost unless somebody hands it over."""
    records = harness.receive(queue)
    for record in records:
        harness.sqs.delete_message(QueueUrl=harness.queues[queue], ReceiptHandle=record["receiptHandle"])
    return [{**record, "receiptHandle": ""} for record in records]


def _message(harness: Harness, queue: str, instance_id: str) -> dict[str, Any]:
    return next(record for record in _taken(harness, queue) if instance_id in record["body"])


def _actions(harness: Harness) -> Counter[str]:
    """How often Novita was asked for each."""
    calls = (call["path"].rpartition("/")[2] for call in harness.simulator.calls(method="POST"))
    return Counter(name for name in calls if name in ACTIONS)


ONCE_EACH = Counter(dict.fromkeys(ACTIONS, 1))


def _met_at_every_call(
    harness: Harness,
    queue: str,
    prepare: Callable[[int], str],
    meanwhile: Callable[[str], object] | None = None,
) -> list[str]:
    """For each call of the handler: an instance to which something happens at that call, elsewhere; if not
    said otherwise, another environment deals with the same message."""
    record = _message(harness, queue, prepare(0))
    harness.wire.calls.clear()
    harness.restart()
    harness.handle(queue, record)
    found = [point for point in sides(harness.wire.calls) if not point.after]
    meetings = Interruptions(harness)
    ids = []
    for number, point in enumerate(found, start=1):
        ids.append(prepare(number))
        record = _message(harness, queue, ids[-1])
        again = partial(harness.handle, queue, record)
        meetings.plan(ids[-1], point, partial(meanwhile, ids[-1]) if meanwhile else again)
        harness.restart()
        harness.handle(queue, record)
    meetings.end()
    return ids


def test_a_create_message_doubled_at_any_moment_buys_one_machine(build: Build) -> None:
    harness = build(**FORGETFUL)
    harness.wiring.deployment.id()
    ids = _met_at_every_call(harness, "create", lambda number: harness.create(name=f"i{number}"))

    harness.settle()

    assert len(ids) >= 10
    assert (
        len(harness.simulator.calls("/gpu/instance/create")) == len(harness.simulator.live()) == len(ids) + 1
    )
    for instance_id in ids:
        assert harness.record(instance_id).status is Status.RUNNING
        assert harness.history(instance_id) == ["instance.creating", "instance.starting", "instance.running"]


@pytest.mark.parametrize(("what", "ends"), [("stop", "stopped"), ("start", "ready"), ("restart", "ready")])
def test_an_operations_message_doubled_at_any_moment_acts_once(
    harness: Harness, what: str, ends: str
) -> None:
    def prepare(number: int) -> str:
        status = "exited" if what == "start" else "running"
        machine = harness.simulator.put_instance(name=f"i{number}", status=status)
        _, answer = harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine["id"]})
        _post(harness, answer["instanceId"], what)
        return str(answer["instanceId"])

    ids = _met_at_every_call(harness, "monitor", prepare)

    harness.settle()

    accepted = [call for call in harness.simulator.calls(f"/gpu/instance/{what}") if call["status"] == 200]
    assert len(ids) >= 4
    assert len(accepted) == len(ids) + 1, "Novita took each of them once"
    assert {harness.record(instance_id).status.value for instance_id in ids} == {ends}
    for instance_id in ids:
        harness.history(instance_id)


@pytest.mark.parametrize(
    ("status", "swept"),
    [(200, False), (502, False), (200, True)],
    ids=["the same message", "the same message, and more rounds follow", "a sweep"],
)
def test_a_round_of_health_checks_is_made_once_whatever_comes_in_the_middle_of_it(
    harness: Harness, swept: bool, status: int
) -> None:
    harness.simulator.app(status=status)

    def prepare(number: int) -> str:
        machine = harness.simulator.put_instance(name=f"i{number}", status="running", ports="80/http")
        _, answer = harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine["id"]})
        instance_id = str(answer["instanceId"])
        _post(harness, instance_id, "restart", {"healthCheckConfig": {"maxWaitTimeMs": 1_800_000}})
        harness.advance(0.001)
        harness.deliver_now(instance_id)
        harness.simulator.patch_instance(machine["id"], status="running")
        harness.advance(15)
        harness.deliver_now(instance_id)
        assert harness.record(instance_id).status is Status.HEALTH_CHECKING
        return instance_id

    def sweep(_: str) -> None:
        harness.sweep()
        while harness.deliver():
            pass

    ids = _met_at_every_call(harness, "startup", prepare, sweep if swept else None)

    assert len(ids) >= 3
    assert harness.simulator.app_stats()["total"] == len(ids) + 1, "each was asked once"
    harness.simulator.app(status=200)
    harness.settle()
    assert {harness.record(instance_id).status for instance_id in ids} == {Status.READY}


def test_a_sweep_at_any_moment_of_a_purchase_disturbs_nothing(build: Build) -> None:
    harness = build(**FORGETFUL)
    harness.wiring.deployment.id()
    harness.simulator.settings(listLagSeconds=0)
    ids = _met_at_every_call(
        harness, "create", lambda number: harness.create(name=f"i{number}"), lambda _: harness.sweep()
    )

    harness.settle()

    assert (
        len(harness.simulator.calls("/gpu/instance/create")) == len(harness.simulator.live()) == len(ids) + 1
    )
    for instance_id in ids:
        assert harness.record(instance_id).status is Status.RUNNING
        assert harness.history(instance_id) == ["instance.creating", "instance.starting", "instance.running"]


def _pulling(harness: Harness, number: int) -> str:
    machine = harness.simulator.put_instance(name=f"i{number}", status="pulling")
    _, answer = harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine["id"]})
    return str(answer["instanceId"])


def _come_up(harness: Harness) -> None:
    for machine in harness.simulator.live():
        harness.simulator.patch_instance(machine["id"], status="running")
    harness.settle()


def test_whoever_is_overtaken_in_a_look_leaves_the_next_message_to_the_winner(harness: Harness) -> None:
    """Two that send each other on would be two chains for good."""
    ids = _met_at_every_call(harness, "monitor", partial(_pulling, harness))

    told = [sent(call) for call in harness.wire.calls if call.name == "SendMessage monitor"]
    tokens = Counter(one["token"] for one in told if one["instance_id"] in ids)
    current = {harness.record(instance_id).token for instance_id in ids}
    _come_up(harness)

    assert len(ids) >= 4
    assert set(tokens.values()) == {1}
    assert current <= tokens.keys()


def test_what_is_noted_while_a_step_is_under_way_is_not_lost(harness: Harness) -> None:
    def note(instance_id: str) -> None:
        path = f"/api/instances/{instance_id}/last-used"
        status, _ = harness.call("PUT", path, {"lastUsedAt": "2026-01-02T03:04:05Z"})
        assert status == 200

    ids = _met_at_every_call(harness, "monitor", partial(_pulling, harness), note)

    _come_up(harness)

    assert len(ids) >= 4
    assert {harness.record(instance_id).status for instance_id in ids} == {Status.RUNNING}
    assert {str(at) for at in harness.wiring.last_used.of(ids).values()} == {"2026-01-02 03:04:05+00:00"}
    assert len(harness.wiring.last_used.of(ids)) == len(ids)


def test_a_restart_is_sent_once_though_its_use_is_noted_at_every_call(harness: Harness) -> None:
    def prepare(number: int) -> str:
        machine = harness.simulator.put_instance(name=f"i{number}", status="running")
        _, answer = harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine["id"]})
        _post(harness, answer["instanceId"], "restart")
        return str(answer["instanceId"])

    def note(instance_id: str) -> None:
        before = harness.record(instance_id)
        assert harness.call("PUT", f"/api/instances/{instance_id}/last-used")[0] == 200
        assert harness.record(instance_id) == before

    ids = _met_at_every_call(harness, "monitor", prepare, note)
    sent_before = len(harness.simulator.calls("/gpu/instance/restart"))
    harness.settle()

    assert len(ids) >= 4
    assert sent_before == len(harness.simulator.calls("/gpu/instance/restart")) == len(ids) + 1
    assert {harness.record(instance_id).status for instance_id in ids} == {Status.READY}


def test_every_message_twice_in_a_row_does_everything_once(harness: Harness) -> None:
    handle = harness.handle

    def twice(queue: str, record: dict[str, Any]) -> bool:
        handle(queue, {**record, "receiptHandle": ""})
        return handle(queue, record)

    harness.handle = twice  # type: ignore[method-assign]  # every message comes twice

    record = _live_through(harness, harness.settle)

    assert _actions(harness) == ONCE_EACH
    assert len(harness.history(record.id)) == record.sequence


def test_messages_that_come_late_and_mixed_up_change_nothing(harness: Harness) -> None:
    record = _live_through(harness, harness.settle)
    running = harness.create(name="second")
    harness.settle()
    messages = [
        (call.name.removeprefix("SendMessage "), call.params["MessageBody"])
        for call in harness.wire.calls
        if call.name.startswith("SendMessage")
    ]
    random.Random(7).shuffle(messages)
    before = (harness.record(record.id), harness.record(running))
    harness.simulator.clear_calls()

    for number, (queue, body) in enumerate(messages):
        wrong = ("create", "monitor", "startup")[number % 3]
        harness.handle(queue, harness.as_received(queue, body))
        harness.handle(wrong, harness.as_received(wrong, body))

    assert len(messages) > 8
    assert (harness.record(record.id), harness.record(running)) == before
    assert harness.simulator.calls() == []


def test_a_message_on_the_wrong_queue_finds_its_way(harness: Harness) -> None:
    instance_id = harness.create()
    (record,) = _taken(harness, "create")

    harness.handle("monitor", record)
    harness.settle()

    assert harness.record(instance_id).status is Status.RUNNING
    assert _actions(harness) == Counter(create=1)


def test_without_any_message_the_sweeps_alone_do_everything_once(harness: Harness) -> None:
    refused: list[Made] = []

    def refuse(made: Made) -> None:
        if made.name.startswith("SendMessage") and made.handler != "sweep":
            refused.append(made)
            raise ClientError({"Error": {"Code": "ServiceUnavailable", "Message": ""}}, "SendMessage")

    harness.wire.before = refuse

    record = _live_through(harness, lambda: harness.settle(only_sweeps=True))

    assert len(refused) >= 10
    assert _actions(harness) == ONCE_EACH
    assert len(harness.history(record.id)) == record.sequence


def test_a_create_is_accepted_although_the_queue_refuses_its_message(harness: Harness) -> None:
    def refuse(made: Made) -> None:
        if made.name.startswith("SendMessage"):
            raise ClientError({"Error": {"Code": "ServiceUnavailable", "Message": ""}}, "SendMessage")

    harness.wire.before = refuse
    instance_id = harness.create()
    harness.wire.before = None

    harness.deliver()
    before = harness.record(instance_id).status
    harness.settle()

    assert before is Status.CREATING
    assert harness.record(instance_id).status is Status.RUNNING


def test_there_is_one_poll_chain_however_often_messages_are_doubled(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=600)
    instance_id = harness.create()
    began = harness.now().timestamp()
    harness.deliver()

    for _ in range(5):
        harness.run(30)
        for call in [call for call in harness.wire.calls if call.name.startswith("SendMessage monitor")]:
            harness.handle("monitor", harness.as_received("monitor", call.params["MessageBody"]))
        harness.sweep()
    polled = Counter(int((call["time"] - began) // 60) for call in harness.simulator.calls("/gpu/instance"))
    tokens = Counter(
        sent(call)["token"]
        for call in harness.wire.calls
        if call.name.startswith("SendMessage monitor") and call.handler != "sweep"
    )
    token = harness.record(instance_id).token
    harness.settle()

    assert max(polled.values()) <= 4, f"looks in each minute: {polled}"
    assert set(tokens.values()) == {1}, "no step was told of twice"
    assert token in tokens, "the chain goes on from the record's token and no other"


def test_two_sweeps_at_the_same_moment_take_each_item_once(harness: Harness) -> None:
    ids = [harness.create(name=f"i{number}") for number in range(4)]
    _taken(harness, "create")
    harness.advance(61)
    harness.wire.calls.clear()
    claims: list[Made] = []

    def another_sweep(made: Made) -> None:
        if made.name == "UpdateItem inst/record":
            claims.append(made)
            if len(claims) == 2:
                harness.elsewhere(harness.sweep)

    harness.wire.before = another_sweep
    harness.sweep()
    harness.wire.before = None
    enqueued = Counter(
        sent(call)["instance_id"] for call in harness.wire.calls if call.name == "SendMessage create"
    )
    harness.settle()

    assert enqueued == Counter(dict.fromkeys(ids, 1))
    assert len(harness.simulator.live()) == len(ids)
