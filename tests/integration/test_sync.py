"""POST /api/sync: what the sweep does every minute, now, for at most 20 seconds, or only said."""

from datetime import timedelta
from typing import Any

from functions.shared.domain.ids import machine_name, new_instance_id
from functions.shared.domain.status import Status
from ops import keys
from tests.integration.wire import Made
from tests.integration.world import World

# What a call to Novita leaves behind, whatever comes of it.
_TRACES = ("limit", "circuit", "cache", "key")


def sync(world: World, **body: Any) -> Any:
    status, answer = world.call("POST", "/api/sync", body or None)
    assert status == 200, answer
    return answer


def put(world: World, instance_id: str, purchase: int = 1) -> str:
    name = machine_name("hand", world.wiring.deployments.id(), instance_id, purchase)
    return str(world.simulator.put_instance(name=name, status="running", ageSeconds=300)["id"])


def kept(world: World) -> list[Any]:
    return [item for item in world.items() if not item["pk"]["S"].startswith(_TRACES)]


def troubled(world: World) -> dict[str, str]:
    """Something of every kind that a comparison can find."""
    stopped, missing, doubled = (world.create(name=f"n{number}") for number in range(3))
    world.settle()
    world.advance(300)
    orphan_id = new_instance_id(world.now())
    found = {
        "stopped": stopped,
        "missing": missing,
        "doubled": doubled,
        "surplus": put(world, doubled, purchase=2),
        "orphan_id": orphan_id,
        "orphan": put(world, orphan_id),
    }
    world.simulator.patch_instance(str(world.record(stopped).machine_id), status="exited")
    world.simulator.patch_instance(str(world.record(missing).machine_id), status="removed")
    world.advance(5)
    return found


def shown(answer: Any, kind: str) -> list[tuple[str, str, str]]:
    return [(one["instanceId"], one["novitaInstanceId"], one["action"]) for one in answer[kind]]


def assert_found(world: World, answer: Any, found: dict[str, str]) -> None:
    machine = {name: str(world.record(found[name]).machine_id) for name in ("stopped", "missing")}
    assert shown(answer, "followed") == [(found["stopped"], machine["stopped"], "exited")]
    assert shown(answer, "doubted") == [(found["missing"], machine["missing"], "look")]
    assert shown(answer, "surplus") == [(found["doubled"], found["surplus"], "delete")]
    assert shown(answer, "orphans") == [(found["orphan_id"], found["orphan"], "announce")]
    assert (answer["complete"], answer["braked"], answer["known"]) == (True, False, 3)


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(world: World) -> None:
    found = troubled(world)
    before = kept(world)
    calls = len(world.simulator.calls(method="POST"))

    answers = [sync(world, dryRun=True) for _ in range(2)]

    for answer in answers:
        assert_found(world, answer, found)
        assert answer["dryRun"] is True
        assert not any(
            one["done"] for kind in ("followed", "doubted", "surplus", "orphans") for one in answer[kind]
        )
    assert sorted(map(str, kept(world))) == sorted(map(str, before))
    assert len(world.simulator.calls(method="POST")) == calls
    sync(world)
    _clear(world, found)


def test_a_real_one_does_it(world: World) -> None:
    found = troubled(world)

    answer = sync(world)

    assert_found(world, answer, found)
    assert answer["dryRun"] is False
    assert all(one["done"] for kind in ("followed", "doubted", "surplus", "orphans") for one in answer[kind])
    world.settle()
    assert world.record(found["stopped"]).status is Status.EXITED
    assert world.record(found["missing"]).status is Status.TERMINATED
    assert found["surplus"] not in {one["id"] for one in world.simulator.live()}
    _clear(world, found)


def test_it_hints_at_what_is_overdue(world: World) -> None:
    instance_id = world.create()
    for record in world.receive("create"):
        world.sqs.delete_message(QueueUrl=world.queues["create"], ReceiptHandle=record["receiptHandle"])
    world.announce()
    world.advance(100)

    said, done = sync(world, dryRun=True), sync(world)

    assert said["overdue"] == done["overdue"] == {"instances": 1, "deliveries": 0, "events": 0}
    world.settle()
    assert world.record(instance_id).status is Status.RUNNING


def test_a_braked_one_says_so_and_changes_nothing(world: World) -> None:
    orphans = [put(world, new_instance_id(world.now() + timedelta(seconds=n))) for n in range(4)]
    world.wiring.deployments.id()
    before = kept(world)

    answer = sync(world, dryRun=True)
    assert answer["braked"] is True
    answer = sync(world)

    assert (answer["braked"], len(answer["orphans"])) == (True, 4)
    assert not any(one["done"] for one in answer["orphans"])
    assert [item for item in kept(world) if not item["pk"]["S"].startswith("count#")] == before
    for orphan in orphans:
        world.simulator.patch_instance(orphan, status="removed")


def test_after_twenty_seconds_it_answers_with_what_is_done(world: World) -> None:
    for number in range(3):
        world.create(name=f"n{number}")
    world.settle()
    for machine in world.simulator.live():
        world.simulator.patch_instance(machine["id"], status="exited")
    world.advance(5)
    began = world.now()

    def slow(made: Made) -> None:
        if made.name.startswith("TransactWriteItems"):
            world.advance(9)

    world.wire.after = slow
    answer = sync(world)
    world.wire.after = None

    assert answer["complete"] is False
    assert [one["done"] for one in answer["followed"]] == [True, True]
    assert (world.now() - began).total_seconds() <= 20
    again = sync(world)
    assert (again["complete"], len(again["followed"])) == (True, 1)
    world.settle()


def test_novita_being_away_is_no_error_but_said(world: World) -> None:
    world.create()
    world.settle()
    world.simulator.fault("status", path="/gpu/instances", status=503)

    answer = sync(world)

    assert (answer["complete"], answer["known"]) == (False, 1)
    assert answer["error"]["code"] == "NOVITA_UNAVAILABLE"
    assert world.call("GET", "/api/jobs/stats")[1]["sweeps"]["incomplete"] == 1


def test_only_a_body_that_is_known_is_taken(world: World) -> None:
    for body, field, code in [
        ({"dryrun": True}, "dryrun", "UNKNOWN_FIELD"),
        ({"dryRun": "yes"}, "dryRun", "INVALID_DRY_RUN"),
        ({"dryRun": 1}, "dryRun", "INVALID_DRY_RUN"),
    ]:
        status, answer = world.call("POST", "/api/sync", body)

        assert status == 400
        (problem,) = answer["error"]["validationErrors"]
        assert (problem["field"], problem["code"]) == (field, code)
    assert world.call("POST", "/api/sync", {})[0] == 200


def test_nobody_without_admin_reconciles(world: World) -> None:
    key = keys.new_key()
    world.add_key(key, "read", "write")

    status, answer = world.call("POST", "/api/sync", headers={"authorization": f"Bearer {key}"})

    assert (status, answer["error"]["code"]) == (403, "FORBIDDEN")


def _clear(world: World, found: dict[str, str]) -> None:
    world.simulator.patch_instance(found["orphan"], status="removed")
    world.settle()
