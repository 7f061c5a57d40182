"""Idempotency-Key: the same request again gets the first answer again, and makes nothing twice."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ops import keys
from tests.integration.conftest import Build
from tests.integration.deaths import FORGETFUL, sides
from tests.integration.market import PRODUCT, put_on_sale
from tests.integration.wire import Killed, Made
from tests.integration.world import World

BODY = {"name": "test", "productName": PRODUCT, "templateId": "107672"}


def _create(world: World, key: str, **change: Any) -> tuple[int, Any]:
    return world.call("POST", "/api/instances", BODY | change, {"idempotency-key": key})


def test_the_same_key_and_body_get_the_first_answer_again(world: World) -> None:
    first = _create(world, "k")
    world.settle()
    world.restart()

    again = _create(world, "k", templateId="107672")
    reordered = world.call("POST", "/api/instances", dict(reversed(BODY.items())), {"idempotency-key": "k"})
    world.settle()

    assert first[0] == 201
    assert first == again == reordered
    assert len(world.records()) == len(world.simulator.instances()) == 1


def test_the_same_key_with_another_body_is_refused(world: World) -> None:
    _create(world, "k")

    status, body = _create(world, "k", gpuNum=2)
    world.settle()

    assert (status, body["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert len(world.records()) == 1


def test_without_a_key_or_with_another_each_request_counts(world: World) -> None:
    _create(world, "k")
    _create(world, "l")
    world.create()
    world.create()

    world.settle()

    assert len(world.simulator.live()) == 4


def test_four_at_any_same_moment_make_one_instance(build: Build) -> None:
    world = build(**FORGETFUL)
    _create(world, "recorded")
    found = {point.call for point in sides(world.wire.calls)}

    for name in sorted(found):
        answers: list[tuple[int, Any]] = []

        def another(made: Made, call: str = name, into: list[tuple[int, Any]] = answers) -> None:
            """At that call of each of them the next one comes in and is answered first."""
            if made.name == call and len(into) < 3:
                into.append((0, None))
                place = len(into) - 1

                def ask() -> None:
                    world.wire.before = partial(another)
                    into[place] = _create(world, call)

                world.elsewhere(ask)

        world.restart()
        world.wire.before = another
        answers.append(_create(world, name))
        world.wire.before = None
        while len(answers) < 4:  # those that found an answer never came to that call
            answers.append(_create(world, name))
        assert all(answer == answers[-1] for answer in answers), f"{name}: {answers}"
        assert answers[-1][0] == 201, name
    world.settle()

    assert len(found) >= 5
    assert len(world.records()) == len(world.simulator.instances()) == len(found) + 1


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_in_the_middle_of_the_first_leaves_one_instance_after_the_second(
    world: World, after: bool
) -> None:
    def die(made: Made) -> None:
        if made.name.startswith("TransactWriteItems"):
            raise Killed

    if after:
        world.wire.after = die
    else:
        world.wire.before = die
    with pytest.raises(Killed):
        _create(world, "k")
    world.wire.before = world.wire.after = None
    world.restart()

    stored = len(world.records())
    status, answer = _create(world, "k")
    world.settle()

    assert stored == int(after)
    assert status == 201
    assert [record.id for record in world.records()] == [answer["instanceId"]]
    assert len(world.simulator.instances()) == 1


def _conflict() -> ClientError:
    reasons = [{"Code": "None"}, {"Code": "None"}, {"Code": "TransactionConflict"}]
    said: Any = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
    return ClientError(said, "TransactWriteItems")


def test_a_create_that_is_stored_after_all_is_not_stored_again(world: World) -> None:
    """The SDK tried twice; its second try met the first, which is not yet to be seen. No key tells of it."""
    first: list[Made] = []

    def late(made: Made) -> None:
        if not made.name.startswith("TransactWriteItems"):
            return
        if not first:
            first.append(made)
            raise _conflict()
        with world.wire.silent():
            world.wiring.table.client.transact_write_items(**first[0].params)

    world.wire.before = late
    status, answer = world.call("POST", "/api/instances", BODY)
    world.wire.before = None
    world.settle()

    assert status == 201
    assert [record.id for record in world.records()] == [answer["instanceId"]]
    assert len(world.simulator.calls("/gpu/instance/create")) == 1


def test_a_transaction_that_meets_another_is_tried_again(world: World) -> None:
    """DynamoDB refuses the second of two at once, and does not say that the first has won."""
    met: list[str] = []

    def conflict(made: Made) -> None:
        if made.name.startswith("TransactWriteItems") and made.name not in met:
            met.append(made.name)
            raise _conflict()

    machine = world.simulator.put_instance(status="running")
    world.wire.before = conflict

    created, _ = _create(world, "k")
    imported, _ = world.call("POST", "/api/instances/import", {"novitaInstanceId": machine["id"]})
    world.wire.before = None
    world.settle()

    assert len(met) == 2
    assert (created, imported) == (201, 201)
    assert len(world.records()) == 2


def test_a_key_belongs_to_its_caller_and_its_route(world: World) -> None:
    _, mine = _create(world, "k")
    other = keys.new_key()
    world.add_key(other, "write")

    theirs_status, theirs = world.call(
        "POST", "/api/instances", BODY, {"idempotency-key": "k", "authorization": f"Bearer {other}"}
    )
    world.settle()
    stopped, answer = world.call(
        "POST", f"/api/instances/{mine['instanceId']}/stop", None, {"idempotency-key": "k"}
    )
    world.settle()
    restarted, _ = world.call(
        "POST", f"/api/instances/{mine['instanceId']}/start", None, {"idempotency-key": "k"}
    )
    world.settle()

    assert theirs_status == 201
    assert theirs["instanceId"] != mine["instanceId"]
    assert (stopped, restarted) == (202, 202)
    assert answer["status"] == "stopping"


def test_errors_are_not_kept(world: World) -> None:
    put_on_sale(world.simulator, available=False)
    refused, _ = _create(world, "k")
    put_on_sale(world.simulator, available=True)

    taken, _ = _create(world, "k")
    world.settle()

    assert (refused, taken) == (422, 201)


def test_a_refused_operation_is_not_kept_and_a_taken_one_is(world: World) -> None:
    _, made = _create(world, "k")
    path = f"/api/instances/{made['instanceId']}/stop"
    too_early, _ = world.call("POST", path, None, {"idempotency-key": "s"})
    world.settle()

    taken = world.call("POST", path, None, {"idempotency-key": "s"})
    world.settle()
    again = world.call("POST", path, None, {"idempotency-key": "s"})
    without_key, _ = world.call("POST", path)

    assert too_early == 409
    assert taken[0] == 202
    assert taken == again
    assert without_key == 409
    assert len(world.simulator.calls("/gpu/instance/stop")) == 1


def test_an_operation_by_name_keeps_its_answer_when_the_name_is_gone(world: World) -> None:
    _create(world, "k", name="gone")
    world.settle()
    body, headers = {"instanceName": "gone"}, {"idempotency-key": "d"}

    first = world.call("POST", "/api/instances/delete", body, headers)
    world.settle()
    again = world.call("POST", "/api/instances/delete", body, headers)

    assert first[0] == 202
    assert first == again


def test_an_import_is_answered_again_rather_than_refused(world: World) -> None:
    machine = world.simulator.put_instance(status="running")
    ask = partial(
        world.call,
        "POST",
        "/api/instances/import",
        {"novitaInstanceId": machine["id"]},
        {"idempotency-key": "i"},
    )

    first, again = ask(), ask()

    assert first[0] == 201
    assert first == again
    assert len(world.records()) == 1


def test_a_key_may_be_used_anew_after_a_day(world: World) -> None:
    _create(world, "k")
    world.settle()
    world.advance(timedelta(hours=23).total_seconds())
    before, _ = _create(world, "k", name="other")
    world.advance(timedelta(hours=2).total_seconds())

    after, _ = _create(world, "k", name="other")
    world.settle()

    assert (before, after) == (422, 201)
    assert len(world.records()) == 2


# What does no harm when it is done twice


@pytest.mark.parametrize("path", ["/api/sync", "/api/cache/clear", "/api/cache/cleanup"])
def test_what_may_be_done_twice_is_answered_once_all_the_same(world: World, path: str) -> None:
    key = {"idempotency-key": "k"}
    first = world.call("POST", path, {}, key)
    world.create()  # there is more to tell now
    world.settle()
    world.wiring.cache.clear()
    world.call("GET", "/api/products")
    world.advance(3600)

    again = world.call("POST", path, {}, key)
    _, other = world.call("POST", path, {"dryRun": True}, key)
    _, without = world.call("POST", path, {})

    assert first[0] == 200
    assert again == first
    assert other["error"]["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert without != first[1]


def test_a_dry_run_changes_nothing_and_its_answer_is_not_kept(world: World) -> None:
    key = {"idempotency-key": "k"}
    world.call("POST", "/api/sync", {"dryRun": True}, key)

    status, answer = world.call("POST", "/api/sync", {"dryRun": False}, key)

    assert (status, answer["dryRun"]) == (200, False)
