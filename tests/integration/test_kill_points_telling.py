"""The announcer, the webhook sender and the sweep killed at every call they make."""

import json
from collections import Counter

from functions.shared.domain.delivery.webhooks import origin_of
from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.crash_points import AROUND, Crashes, Point, is_one, lives, points
from tests.integration.harness import Harness

TELLING = ("announce", "webhook")


def _import(harness: Harness, name: str, status: str = "running") -> str:
    """An instance with one event to tell."""
    machine = harness.simulator.put_instance(name=name, status=status)
    body = {
        "novitaInstanceId": machine["id"],
        "name": name,
        "webhookUrl": harness.simulator.inbox_url("hook"),
    }
    answered, answer = harness.call("POST", "/api/instances/import", body)
    assert answered == 201, answer
    return str(answer["instanceId"])


def _tell(harness: Harness) -> None:
    """Until everything is told: a sweep brings what a crash left behind."""
    for _ in range(20):
        while harness.deliver():
            pass
        if not any(harness._due(kind) for kind in ("event", "delivery")):
            return
        harness.advance(61)
        harness.sweep()
    raise AssertionError("not everything was told")


def _published(harness: Harness) -> Counter[str]:
    calls = (call for call in harness.wire.calls if call.name == "Publish")
    return Counter(json.loads(call.params["Message"])["instanceId"] for call in calls)


def test_an_event_is_told_to_everybody_whoever_dies_while_telling_it(harness: Harness) -> None:
    harness.cold = lambda _: True
    _import(harness, "before")
    _tell(harness)  # the receiver is known from here on
    harness.wire.calls.clear()
    _import(harness, "recorded")
    _tell(harness)
    found = points(call for call in harness.wire.calls if call.handler in TELLING)
    crashes = Crashes(harness)
    ids = []
    for number, some in enumerate(lives(found)):
        ids.append(_import(harness, f"i{number}"))
        crashes.plan(ids[-1], some)

    _tell(harness)

    crashes.end()
    received = Counter(
        json.loads(message["body"])["instanceId"] for message in harness.simulator.inbox("hook")
    )
    published = _published(harness)
    assert [id_ for id_ in ids if not received[id_]] == []
    assert [id_ for id_ in ids if not published[id_]] == []


def test_a_receiver_that_hangs_is_told_in_the_end_whoever_dies_waiting_for_it(build: Build) -> None:
    """The first attempt times out; the next needs a slot of those that are for slow ones."""
    harness = build(WEBHOOK_TIMEOUT="0.4", WEBHOOK_WAITS="1,1,1,1,1")
    harness.cold = lambda _: True
    hook = harness.simulator.inbox_url("hook")

    def tell(name: str, some: list[Point]) -> str:
        harness.simulator.answer("hook", {"delayMs": 1000}, {"status": 200})
        instance_id = _import(harness, name)
        crashes.plan(instance_id, some)
        _tell(harness)
        return instance_id

    crashes = Crashes(harness)
    tell("before", [])
    harness.wire.calls.clear()
    tell("recorded", [])
    every = points(call for call in harness.wire.calls if call.handler == "webhook")
    found = [point for point in every if not is_one(point.call, AROUND)]
    ids = [tell(f"i{number}", some) for number, some in enumerate(lives(found))]

    crashes.end()
    assert {"UpdateItem slow/slots", "UpdateItem site/site"} <= {point.call for point in found}
    received = Counter(
        json.loads(message["body"])["instanceId"] for message in harness.simulator.inbox("hook")
    )
    assert [id_ for id_ in ids if not received[id_]] == []
    harness.advance(120)  # every lease of whoever died is over
    now = harness.now()
    taken = [harness.wiring.receiver_slots.take(origin_of(hook), now, now) for _ in range(3)]
    assert None not in taken


def test_a_sweep_that_dies_at_any_call_is_made_good_by_the_next(build: Build) -> None:
    harness = build(BOOT_MAX_WAIT="86400")
    harness.announcing = False
    harness.cold = lambda _: True
    waiting, drifted = [_waiting(harness, "recorded")], [_drifted(harness, "recorded")]
    harness.advance(61)
    harness.sweep()
    found = points(call for call in harness.wire.calls if call.handler == "sweep")
    crashes = Crashes(harness)
    harness.cold = lambda _: True

    for number, some in enumerate(lives(found)):
        waiting.append(_waiting(harness, f"w{number}"))
        drifted.append(_drifted(harness, f"d{number}"))
        crashes.plan("", some)
        for _ in some:
            harness.advance(61)
            harness.sweep()
    crashes.end()
    harness.announcing = True
    for machine in harness.simulator.live():
        if machine["status"] == "pulling":
            harness.simulator.patch_instance(machine["id"], status="running")
    harness.advance(61)
    harness.sweep()
    harness.settle(only_sweeps=True)
    _tell(harness)

    assert {harness.record(id_).status for id_ in waiting} == {Status.RUNNING}
    assert {harness.record(id_).status for id_ in drifted} == {Status.EXITED}


def _waiting(harness: Harness, name: str) -> str:
    """An instance that is due, and whose message was lost."""
    instance_id = _import(harness, name, "pulling")
    for record in harness.receive("monitor"):
        harness.sqs.delete_message(QueueUrl=harness.queues["monitor"], ReceiptHandle=record["receiptHandle"])
    return instance_id


def _drifted(harness: Harness, name: str) -> str:
    """An instance whose machine has stopped without our doing."""
    instance_id = _import(harness, name)
    harness.simulator.patch_instance(harness.record(instance_id).machine.id or "", status="exited")
    return instance_id
