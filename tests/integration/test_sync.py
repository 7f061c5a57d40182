"""POST /api/sync: what the sweep does every minute, now, for at most 20 seconds, or only said."""

from typing import Any

from functions.shared.domain.ids import machine_name, new_instance_id
from functions.shared.domain.instance.status import Status
from ops import keys
from tests.integration.harness import Harness
from tests.integration.sweeps import put_bought
from tests.integration.wire import Made

# What a call to Novita leaves behind, whatever comes of it.
_TRACES = ("limit", "circuit", "cache", "key")


def sync(harness: Harness, **body: Any) -> Any:
    status, answer = harness.call("POST", "/api/sync", body or None)
    assert status == 200, answer
    return answer


def put(harness: Harness, instance_id: str, purchase: int = 1) -> str:
    name = machine_name("hand", harness.wiring.deployment.id(), instance_id, purchase)
    return str(harness.simulator.put_instance(name=name, status="running", ageSeconds=300)["id"])


def kept(harness: Harness) -> list[Any]:
    return [item for item in harness.items() if not item["pk"]["S"].startswith(_TRACES)]


def troubled(harness: Harness) -> dict[str, str]:
    """Something of every kind that a comparison can find."""
    stopped, missing, doubled = (harness.create(name=f"n{number}") for number in range(3))
    harness.settle()
    harness.advance(300)
    orphan_id = new_instance_id(harness.now())
    found = {
        "stopped": stopped,
        "missing": missing,
        "doubled": doubled,
        "surplus": put_bought(harness, doubled, purchase=2),
        "orphan_id": orphan_id,
        "orphan": put(harness, orphan_id),
    }
    harness.simulator.patch_instance(str(harness.record(stopped).machine.id), status="exited")
    harness.simulator.patch_instance(str(harness.record(missing).machine.id), status="removed")
    harness.advance(5)
    return found


def shown(answer: Any, kind: str) -> list[tuple[str, str, str]]:
    return [(one["instanceId"], one["novitaInstanceId"], one["action"]) for one in answer[kind]]


def assert_found(harness: Harness, answer: Any, found: dict[str, str]) -> None:
    machine = {name: str(harness.record(found[name]).machine.id) for name in ("stopped", "missing")}
    assert shown(answer, "followed") == [(found["stopped"], machine["stopped"], "exited")]
    assert shown(answer, "doubted") == [(found["missing"], machine["missing"], "look")]
    assert shown(answer, "surplus") == [(found["doubled"], found["surplus"], "delete")]
    assert shown(answer, "orphans") == [(found["orphan_id"], found["orphan"], "announce")]
    assert (answer["complete"], answer["known"], answer["deletionsHeld"]) == (True, 3, 0)


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(harness: Harness) -> None:
    found = troubled(harness)
    before = kept(harness)
    calls = len(harness.simulator.calls(method="POST"))

    answers = [sync(harness, dryRun=True) for _ in range(2)]

    for answer in answers:
        assert_found(harness, answer, found)
        assert answer["dryRun"] is True
        assert not any(
            one["done"] for kind in ("followed", "doubted", "surplus", "orphans") for one in answer[kind]
        )
    assert sorted(map(str, kept(harness))) == sorted(map(str, before))
    assert len(harness.simulator.calls(method="POST")) == calls
    sync(harness)
    _clear(harness, found)


def test_a_real_one_does_it(harness: Harness) -> None:
    found = troubled(harness)

    answer = sync(harness)

    assert_found(harness, answer, found)
    assert answer["dryRun"] is False
    assert all(one["done"] for kind in ("followed", "doubted", "surplus", "orphans") for one in answer[kind])
    harness.settle()
    assert harness.record(found["stopped"]).status is Status.EXITED
    assert harness.record(found["missing"]).status is Status.TERMINATED
    assert found["surplus"] not in {one["id"] for one in harness.simulator.live()}
    _clear(harness, found)


def test_it_enqueues_what_is_overdue(harness: Harness) -> None:
    instance_id = harness.create()
    for record in harness.receive("create"):
        harness.sqs.delete_message(QueueUrl=harness.queues["create"], ReceiptHandle=record["receiptHandle"])
    harness.announce()
    harness.advance(100)

    said, done = sync(harness, dryRun=True), sync(harness)

    assert said["overdue"] == done["overdue"] == {"instances": 1, "deliveries": 0, "events": 0}
    harness.settle()
    assert harness.record(instance_id).status is Status.RUNNING


def test_after_twenty_seconds_it_answers_with_what_is_done(harness: Harness) -> None:
    for number in range(3):
        harness.create(name=f"n{number}")
    harness.settle()
    for machine in harness.simulator.live():
        harness.simulator.patch_instance(machine["id"], status="exited")
    harness.advance(5)
    began = harness.now()

    def slow(made: Made) -> None:
        if made.name.startswith("TransactWriteItems"):
            harness.advance(9)

    harness.wire.after = slow
    answer = sync(harness)
    harness.wire.after = None

    assert answer["complete"] is False
    assert [one["done"] for one in answer["followed"]] == [True, True]
    assert (harness.now() - began).total_seconds() <= 20
    again = sync(harness)
    assert (again["complete"], len(again["followed"])) == (True, 1)
    harness.settle()


def test_novita_being_away_is_no_error_but_said(harness: Harness) -> None:
    harness.create()
    harness.settle()
    harness.simulator.fault("status", path="/gpu/instances", status=503)

    answer = sync(harness)

    assert (answer["complete"], answer["known"]) == (False, 1)
    assert answer["error"]["code"] == "NOVITA_UNAVAILABLE"
    assert harness.call("GET", "/api/jobs/stats")[1]["sweeps"]["incomplete"] == 1


def test_only_a_body_that_is_known_is_taken(harness: Harness) -> None:
    for body, field, code in [
        ({"dryrun": True}, "dryrun", "UNKNOWN_FIELD"),
        ({"dryRun": "yes"}, "dryRun", "INVALID_DRY_RUN"),
        ({"dryRun": 1}, "dryRun", "INVALID_DRY_RUN"),
    ]:
        status, answer = harness.call("POST", "/api/sync", body)

        assert status == 400
        (problem,) = answer["error"]["validationErrors"]
        assert (problem["field"], problem["code"]) == (field, code)
    assert harness.call("POST", "/api/sync", {})[0] == 200


def test_nobody_without_admin_reconciles(harness: Harness) -> None:
    key = keys.new_key()
    harness.add_key(key, "read", "write")

    status, answer = harness.call("POST", "/api/sync", headers={"authorization": f"Bearer {key}"})

    assert (status, answer["error"]["code"]) == (403, "FORBIDDEN")


def _clear(harness: Harness, found: dict[str, str]) -> None:
    harness.simulator.patch_instance(found["orphan"], status="removed")
    harness.settle()
