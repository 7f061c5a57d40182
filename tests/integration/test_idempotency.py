"""Idempotency-Key: the same request again gets the first answer again, and makes nothing twice."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ops import keys
from tests.integration.conftest import Build
from tests.integration.crash_points import FORGETFUL, sides
from tests.integration.harness import Harness
from tests.integration.market import PRODUCT, put_on_sale
from tests.integration.wire import Killed, Made

BODY = {"name": "test", "productName": PRODUCT, "templateId": "107672"}


def _create(harness: Harness, key: str, **change: Any) -> tuple[int, Any]:
    return harness.call("POST", "/api/instances", BODY | change, {"idempotency-key": key})


def test_the_same_key_and_body_get_the_first_answer_again(harness: Harness) -> None:
    first = _create(harness, "k")
    harness.settle()
    harness.restart()

    again = _create(harness, "k", templateId="107672")
    reordered = harness.call("POST", "/api/instances", dict(reversed(BODY.items())), {"idempotency-key": "k"})
    harness.settle()

    assert first[0] == 201
    assert first == again == reordered
    assert len(harness.records()) == len(harness.simulator.instances()) == 1


def test_the_same_key_with_another_body_is_refused(harness: Harness) -> None:
    _create(harness, "k")

    status, body = _create(harness, "k", gpuNum=2)
    harness.settle()

    assert (status, body["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert len(harness.records()) == 1


def test_without_a_key_or_with_another_each_request_counts(harness: Harness) -> None:
    _create(harness, "k")
    _create(harness, "l")
    harness.create()
    harness.create()

    harness.settle()

    assert len(harness.simulator.live()) == 4


def test_four_at_any_same_moment_make_one_instance(build: Build) -> None:
    harness = build(**FORGETFUL)
    _create(harness, "recorded")
    found = {point.call for point in sides(harness.wire.calls)}

    for name in sorted(found):
        answers: list[tuple[int, Any]] = []

        def another(made: Made, call: str = name, into: list[tuple[int, Any]] = answers) -> None:
            """At that call of each of them the next one comes in and is answered first."""
            if made.name == call and len(into) < 3:
                into.append((0, None))
                place = len(into) - 1

                def ask() -> None:
                    harness.wire.before = partial(another)
                    into[place] = _create(harness, call)

                harness.elsewhere(ask)

        harness.restart()
        harness.wire.before = another
        answers.append(_create(harness, name))
        harness.wire.before = None
        while len(answers) < 4:  # those that found an answer never came to that call
            answers.append(_create(harness, name))
        assert all(answer == answers[-1] for answer in answers), f"{name}: {answers}"
        assert answers[-1][0] == 201, name
    harness.settle()

    assert len(found) >= 5
    assert len(harness.records()) == len(harness.simulator.instances()) == len(found) + 1


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_in_the_middle_of_the_first_leaves_one_instance_after_the_second(
    harness: Harness, after: bool
) -> None:
    def die(made: Made) -> None:
        if made.name.startswith("TransactWriteItems"):
            raise Killed

    if after:
        harness.wire.after = die
    else:
        harness.wire.before = die
    with pytest.raises(Killed):
        _create(harness, "k")
    harness.wire.before = harness.wire.after = None
    harness.restart()

    stored = len(harness.records())
    status, answer = _create(harness, "k")
    harness.settle()

    assert stored == int(after)
    assert status == 201
    assert [record.id for record in harness.records()] == [answer["instanceId"]]
    assert len(harness.simulator.instances()) == 1


def _conflict() -> ClientError:
    reasons = [{"Code": "None"}, {"Code": "None"}, {"Code": "TransactionConflict"}]
    said: Any = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
    return ClientError(said, "TransactWriteItems")


def test_a_create_that_is_stored_after_all_is_not_stored_again(harness: Harness) -> None:
    """The SDK tried twice; its second try met the first, which is not yet to be seen. No key tells of it."""
    first: list[Made] = []

    def late(made: Made) -> None:
        if not made.name.startswith("TransactWriteItems"):
            return
        if not first:
            first.append(made)
            raise _conflict()
        with harness.wire.silent():
            harness.wiring.table.client.transact_write_items(**first[0].params)

    harness.wire.before = late
    status, answer = harness.call("POST", "/api/instances", BODY)
    harness.wire.before = None
    harness.settle()

    assert status == 201
    assert [record.id for record in harness.records()] == [answer["instanceId"]]
    assert len(harness.simulator.calls("/gpu/instance/create")) == 1


def test_a_transaction_that_meets_another_is_tried_again(harness: Harness) -> None:
    """DynamoDB refuses the second of two at once, and does not say that the first has won."""
    met: list[str] = []

    def conflict(made: Made) -> None:
        if made.name.startswith("TransactWriteItems") and made.name not in met:
            met.append(made.name)
            raise _conflict()

    machine = harness.simulator.put_instance(status="running")
    harness.wire.before = conflict

    created, _ = _create(harness, "k")
    imported, _ = harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine["id"]})
    harness.wire.before = None
    harness.settle()

    assert len(met) == 2
    assert (created, imported) == (201, 201)
    assert len(harness.records()) == 2


def test_a_key_belongs_to_its_caller_and_its_route(harness: Harness) -> None:
    _, mine = _create(harness, "k")
    other = keys.new_key()
    harness.add_key(other, "write")

    theirs_status, theirs = harness.call(
        "POST", "/api/instances", BODY, {"idempotency-key": "k", "authorization": f"Bearer {other}"}
    )
    harness.settle()
    stopped, answer = harness.call(
        "POST", f"/api/instances/{mine['instanceId']}/stop", None, {"idempotency-key": "k"}
    )
    harness.settle()
    restarted, _ = harness.call(
        "POST", f"/api/instances/{mine['instanceId']}/start", None, {"idempotency-key": "k"}
    )
    harness.settle()

    assert theirs_status == 201
    assert theirs["instanceId"] != mine["instanceId"]
    assert (stopped, restarted) == (202, 202)
    assert answer["status"] == "stopping"


def test_errors_are_not_kept(harness: Harness) -> None:
    put_on_sale(harness.simulator, available=False)
    refused, _ = _create(harness, "k")
    put_on_sale(harness.simulator, available=True)

    taken, _ = _create(harness, "k")
    harness.settle()

    assert (refused, taken) == (422, 201)


def test_a_refused_operation_is_not_kept_and_a_taken_one_is(harness: Harness) -> None:
    _, made = _create(harness, "k")
    path = f"/api/instances/{made['instanceId']}/stop"
    too_early, _ = harness.call("POST", path, None, {"idempotency-key": "s"})
    harness.settle()

    taken = harness.call("POST", path, None, {"idempotency-key": "s"})
    harness.settle()
    again = harness.call("POST", path, None, {"idempotency-key": "s"})
    without_key, _ = harness.call("POST", path)

    assert too_early == 409
    assert taken[0] == 202
    assert taken == again
    assert without_key == 409
    assert len(harness.simulator.calls("/gpu/instance/stop")) == 1


def test_an_operation_by_name_keeps_its_answer_when_the_name_is_gone(harness: Harness) -> None:
    _create(harness, "k", name="gone")
    harness.settle()
    body, headers = {"instanceName": "gone"}, {"idempotency-key": "d"}

    first = harness.call("POST", "/api/instances/delete", body, headers)
    harness.settle()
    again = harness.call("POST", "/api/instances/delete", body, headers)

    assert first[0] == 202
    assert first == again


def test_an_import_is_answered_again_rather_than_refused(harness: Harness) -> None:
    machine = harness.simulator.put_instance(status="running")
    ask = partial(
        harness.call,
        "POST",
        "/api/instances/import",
        {"novitaInstanceId": machine["id"]},
        {"idempotency-key": "i"},
    )

    first, again = ask(), ask()

    assert first[0] == 201
    assert first == again
    assert len(harness.records()) == 1


def test_a_key_may_be_used_anew_after_a_day(harness: Harness) -> None:
    _create(harness, "k")
    harness.settle()
    harness.advance(timedelta(hours=23).total_seconds())
    before, _ = _create(harness, "k", name="other")
    harness.advance(timedelta(hours=2).total_seconds())

    after, _ = _create(harness, "k", name="other")
    harness.settle()

    assert (before, after) == (422, 201)
    assert len(harness.records()) == 2


# What does no harm when it is done twice


@pytest.mark.parametrize("path", ["/api/sync", "/api/cache/clear", "/api/cache/cleanup"])
def test_what_may_be_done_twice_is_answered_once_all_the_same(harness: Harness, path: str) -> None:
    key = {"idempotency-key": "k"}
    first = harness.call("POST", path, {}, key)
    harness.create()  # there is more to tell now
    harness.settle()
    harness.wiring.cache.clear()
    harness.call("GET", "/api/products")
    harness.advance(3600)

    again = harness.call("POST", path, {}, key)
    _, other = harness.call("POST", path, {"dryRun": True}, key)
    _, without = harness.call("POST", path, {})

    assert first[0] == 200
    assert again == first
    assert other["error"]["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert without != first[1]


def test_a_dry_run_changes_nothing_and_its_answer_is_not_kept(harness: Harness) -> None:
    key = {"idempotency-key": "k"}
    harness.call("POST", "/api/sync", {"dryRun": True}, key)

    status, answer = harness.call("POST", "/api/sync", {"dryRun": False}, key)

    assert (status, answer["dryRun"]) == (200, False)
