"""The requests that write without buying, and the function that keeps dead letters, killed at every call."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from functions.shared.domain.instance.status import Status
from functions.shared.domain.messages import StepMessage
from tests.integration import dead_letters
from tests.integration.conftest import Build
from tests.integration.crash_points import FORGETFUL, Crashes, Point, lives, points
from tests.integration.harness import Harness
from tests.integration.wire import Killed

USED_AT = "2026-01-02T03:04:05Z"


@pytest.fixture
def harness(build: Build) -> Harness:
    made = build(**FORGETFUL, RETRY_BASE_SECONDS="0")
    made.wiring.deployment.id()  # made once, which test_kill_points.py has crashes for
    return made


@dataclass(frozen=True)
class Request:
    """What is asked, of what was prepared for it, and how it is when it has been done once."""

    prepare: Callable[[Harness, str], str]
    ask: Callable[[Harness, str, str], tuple[int, Any]]  # harness, what was prepared, key
    done: Callable[[Harness, str], bool]


def _imported(harness: Harness, name: str, status: str = "running", **more: Any) -> str:
    machine = harness.simulator.put_instance(name=name, status=status, ageSeconds=300)
    body = {"novitaInstanceId": machine["id"], "name": name, **more}
    answered, answer = harness.call("POST", "/api/instances/import", body)
    assert answered == 201, answer
    return str(answer["instanceId"])


def _machine(harness: Harness, name: str) -> str:
    return str(harness.simulator.put_instance(name=name, status="running")["id"])


def _import(harness: Harness, machine_id: str, key: str) -> tuple[int, Any]:
    body = {"novitaInstanceId": machine_id}
    return harness.call("POST", "/api/instances/import", body, {"idempotency-key": key})


def _managed_once(harness: Harness, machine_id: str) -> bool:
    return [record.machine.id for record in harness.records()].count(machine_id) == 1


def _note_use(harness: Harness, instance_id: str, _: str) -> tuple[int, Any]:
    return harness.call("PUT", f"/api/instances/{instance_id}/last-used", {"lastUsedAt": USED_AT})


def _noted(harness: Harness, instance_id: str) -> bool:
    return str(harness.wiring.last_used.of([instance_id]).get(instance_id)) == "2026-01-02 03:04:05+00:00"


LIMITS = {"stopAfter": "5h", "deleteAfter": "9h"}


def _extend(harness: Harness, instance_id: str, key: str) -> tuple[int, Any]:
    path, body = f"/api/instances/{instance_id}", {"limits": LIMITS, "tags": {"team": "research"}}
    return harness.call("PATCH", path, body, {"idempotency-key": key})


def _extended_once(harness: Harness, instance_id: str) -> bool:
    """It is told once, and acts: by then the first limit has stopped it."""
    record, history = harness.record(instance_id), harness.history(instance_id)
    kept = record.limits.as_json() == LIMITS and record.spec.tags == (("team", "research"),)
    once = all(history.count(one) == 1 for one in ("instance.updated", "instance.stopping"))
    return kept and once and (record.status, record.ended_by) == (Status.TERMINATED, "lifetime")


def _drifted(harness: Harness, name: str) -> str:
    """One that has stopped without our doing."""
    instance_id = _imported(harness, name)
    harness.simulator.patch_instance(harness.record(instance_id).machine.id or "", status="exited")
    harness.advance(300)
    return instance_id


def _sync(harness: Harness, *_: str) -> tuple[int, Any]:
    return harness.call("POST", "/api/sync", {})


def _followed(harness: Harness, instance_id: str) -> bool:
    return harness.history(instance_id) == ["instance.running", "instance.exited"]


def _dead(harness: Harness, name: str) -> str:
    """The dead letter of a create that failed for the last time."""
    instance_id = harness.create(name=name)
    for record in harness.receive("create"):
        harness.sqs.delete_message(QueueUrl=harness.queues["create"], ReceiptHandle=record["receiptHandle"])
    message = StepMessage(instance_id, harness.record(instance_id).token, "c")
    dead_letters.handle_dead_letters(harness, harness.as_received("create-dead", message.as_json()))
    assert harness.record(instance_id).status is Status.FAILED
    return str(next(one["id"] for one in dead_letters.dead(harness) if one["instanceId"] == instance_id))


def _redrive(harness: Harness, letter_id: str, key: str) -> tuple[int, Any]:
    return dead_letters.redrive(harness, letter_id, **{"idempotency-key": key})


def _bought_once(harness: Harness, letter_id: str) -> bool:
    dead_letter = next(one for one in dead_letters.dead_items(harness) if one["pk"] == letter_id)
    history = harness.history(dead_letter["instanceId"])
    again = ["instance.creating", "instance.starting", "instance.running"]
    return history == ["instance.creating", "instance.failed", *again]


def _ended(harness: Harness, name: str) -> str:
    """A delivery whose receiver wanted no more of it."""
    harness.simulator.answer(name, {"status": 410})
    instance_id = _imported(harness, name, webhookUrl=harness.simulator.inbox_url(name))
    dead_letters.deliver_all(harness)
    _, answer = harness.call("GET", f"/api/webhooks/deliveries?instanceId={instance_id}")
    (delivery,) = answer["deliveries"]
    assert delivery["state"] == "ended"
    return str(delivery["id"])


def _replay(harness: Harness, delivery_id: str, key: str) -> tuple[int, Any]:
    path = f"/api/webhooks/deliveries/{delivery_id}/replay"
    return harness.call("POST", path, None, {"idempotency-key": key})


def _delivered(harness: Harness, delivery_id: str) -> bool:
    delivery = harness.wiring.deliveries.get(delivery_id)
    return delivery is not None and delivery.state == "delivered" and delivery.next_at is None


def _nothing(_: Harness, name: str) -> str:
    return name


def _clear(harness: Harness, *_: str) -> tuple[int, Any]:
    harness.call("GET", "/api/products")
    return harness.call("POST", "/api/cache/clear")


def _clean(harness: Harness, *_: str) -> tuple[int, Any]:
    return harness.call("POST", "/api/cache/cleanup")


def _still_answers(harness: Harness, _: str) -> bool:
    return harness.call("GET", "/api/products")[0] == 200


REQUESTS = {
    "import": Request(_machine, _import, _managed_once),
    "last-used": Request(_imported, _note_use, _noted),
    "change": Request(_imported, _extend, _extended_once),
    "sync": Request(_drifted, _sync, _followed),
    "redrive": Request(_dead, _redrive, _bought_once),
    "replay": Request(_ended, _replay, _delivered),
    "cache clear": Request(_nothing, _clear, _still_answers),
    "cache cleanup": Request(_nothing, _clean, _still_answers),
}


def _recorded(harness: Harness, request: Request) -> list[Point]:
    subject = request.prepare(harness, "recorded")
    harness.wire.calls.clear()
    harness.cold = lambda _: True
    assert request.ask(harness, subject, "recorded")[0] in (200, 201, 202)
    found = points(call for call in harness.wire.calls if call.handler == "api")
    harness.cold = lambda _: False
    dead_letters.deliver_all(harness)
    return found


def _until_answered(harness: Harness, request: Request, subject: str, key: str) -> None:
    """As a caller does who repeats what got no answer."""
    for _ in range(60):
        try:
            with harness.wire.handling("api", subject):
                status, answer = request.ask(harness, subject, key)
        except Killed:
            harness.restart()
            continue
        assert status in (200, 201, 202), answer
        return
    raise AssertionError(f"{subject} was killed again and again")


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_that_dies_at_any_call_and_is_repeated_is_done_once(harness: Harness, name: str) -> None:
    request = REQUESTS[name]
    found = _recorded(harness, request)
    subjects = []
    crashes = Crashes(harness)

    for number, planned in enumerate(lives(found)):
        subjects.append(request.prepare(harness, f"s{number}"))
        crashes.plan(subjects[-1], planned)
        _until_answered(harness, request, subjects[-1], f"k{number}")
    crashes.end()
    _to_rest(harness)

    assert [subject for subject in subjects if not request.done(harness, subject)] == []


def _to_rest(harness: Harness) -> None:
    """A sweep brings what a crash left behind, webhooks too."""
    harness.settle()
    for _ in range(3):
        harness.advance(61)
        harness.sweep()
        dead_letters.deliver_all(harness)
    harness.settle()


def test_a_dead_letter_whose_burial_dies_at_any_call_is_kept_once_and_fails_its_instance(
    harness: Harness,
) -> None:
    harness.announcing = False
    first = _dying(harness, "recorded")
    harness.wire.calls.clear()
    harness.cold = lambda _: True
    harness.handle_dead_letters()
    found = points(call for call in harness.wire.calls if call.handler == "dead_letters")
    ids = [first]
    crashes = Crashes(harness)

    for number, planned in enumerate(lives(found)):
        ids.append(_dying(harness, f"i{number}"))
        crashes.plan(ids[-1], planned)
    for _ in range(10):
        harness.handle_dead_letters()
    crashes.end()
    harness.settle()

    assert {harness.record(id_).status for id_ in ids} == {Status.FAILED}
    assert sorted(one["instanceId"] for one in dead_letters.dead(harness, "?limit=100")) == sorted(ids)
    for id_ in ids:
        assert harness.history(id_) == ["instance.creating", "instance.failed"]


def _dying(harness: Harness, name: str) -> str:
    """An instance whose message has failed for the last time and waits to be stored."""
    instance_id = harness.create(name=name)
    for record in harness.receive("create"):
        harness.sqs.delete_message(QueueUrl=harness.queues["create"], ReceiptHandle=record["receiptHandle"])
    message = StepMessage(instance_id, harness.record(instance_id).token, "c")
    harness.give_up("create", message.as_json())
    return instance_id
