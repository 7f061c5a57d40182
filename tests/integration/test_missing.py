"""Nothing ends that nobody asked to end: machines that cannot be found, keys of other accounts, refusals."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from functions.shared.domain.instance.status import Status
from ops import keys
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.sweeps import another_accounts_key, live, machine_of, running
from tests.integration.wire import Killed

NOT_FOUND: dict[str, Any] = {"status": 400, "reason": "RESOURCE_NOT_FOUND"}
HOUR = 3600.0


@contextmanager
def lost_routes(harness: Harness) -> Iterator[None]:
    """A gateway that has lost its routes answers everything with a bare 404."""
    body = '{"code": 404, "message": "route not found"}'
    harness.simulator.fault("garbage", status=404, body=body, contentType="application/json")
    yield
    harness.simulator.clear_faults()


@contextmanager
def unfindable(harness: Harness) -> Iterator[None]:
    """Novita denies every machine, with its own reason, and lists none."""
    harness.simulator.fault("status", path="/gpu/instance", method="GET", **NOT_FOUND)
    empty = '{"instances": [], "total": 0}'
    harness.simulator.fault("garbage", path="/gpu/instances", body=empty, contentType="application/json")
    yield
    harness.simulator.clear_faults()


def at_rest(harness: Harness, count: int) -> list[str]:
    """Of three one is running, one stopped, one exited."""
    instances = running(harness, count)
    for stopped in instances[1::3]:
        harness.call("POST", f"/api/instances/{stopped}/stop")
    for exited in instances[2::3]:
        harness.simulator.patch_instance(machine_of(harness, exited), status="exited")
    harness.settle()
    harness.advance(300)
    harness.sweep()
    harness.settle()
    harness.simulator.clear_calls()
    return instances


def everybody_looks(harness: Harness, instances: list[str], seconds: float) -> None:
    """Callers read, the sweep compares, and steps are taken, all the time."""
    for _ in range(10):
        for instance_id in instances:
            assert harness.call("GET", f"/api/instances/{instance_id}")[0] == 200
        harness.sweep()
        harness.run(seconds / 10)


@pytest.mark.parametrize(
    ("count", "seconds"),
    [
        (1, 600.0),
        (3, 600.0),
        (30, 600.0),
        pytest.param(1, 10 * HOUR, marks=pytest.mark.soak),
        pytest.param(3, 10 * HOUR, marks=pytest.mark.soak),
        pytest.param(30, 10 * HOUR, marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("trouble", [lost_routes, another_accounts_key, unfindable])
def test_whatever_novita_says_for_a_while_ends_nothing(
    harness: Harness, trouble: Callable[[Harness], Any], seconds: float, count: int
) -> None:
    instances = at_rest(harness, count)
    before = {one: harness.record(one).status for one in instances}
    assert len(set(before.values())) == min(count, 3)
    with trouble(harness):
        everybody_looks(harness, instances, seconds)

    harness.sweep()
    harness.run(2 * HOUR)
    harness.settle()

    assert {one: harness.record(one).status for one in instances} == before
    assert len(live(harness)) == count
    assert harness.simulator.calls(method="POST") == []
    told = 1 if trouble is unfindable else 0
    for one in instances:
        history = harness.history(one)
        assert (history.count("instance.missing"), history.count("instance.found")) == (told, told)


@pytest.mark.parametrize("trouble", [lost_routes, another_accounts_key, unfindable])
def test_an_imported_machine_has_no_mark_and_is_kept_all_the_same(
    harness: Harness, trouble: Callable[[Harness], Any]
) -> None:
    machine = harness.simulator.put_instance(status="running", ageSeconds=300)
    body = {"novitaInstanceId": machine["id"]}
    instance_id = harness.call("POST", "/api/instances/import", body)[1]["instanceId"]
    harness.advance(300)
    with trouble(harness):
        everybody_looks(harness, [instance_id], HOUR)

    for _ in range(5):  # until the circuit is closed again, too
        harness.sweep()
        harness.advance(HOUR / 2)
    harness.settle()

    record = harness.record(instance_id)
    assert (record.status, record.missing) == (Status.RUNNING, False)
    assert live(harness) == {machine["id"]}
    assert harness.simulator.calls(method="POST") == []
    again, answer = harness.call("POST", "/api/instances/import", body)
    assert (again, answer["error"]["details"]) == (409, {"instanceId": instance_id})


def test_nothing_is_bought_with_a_key_that_is_not_proven_and_everything_goes_on_with_one_that_is(
    harness: Harness,
) -> None:
    instances = running(harness, 2)
    with another_accounts_key(harness):
        waiting = harness.create(name="new")
        harness.run(300)
        harness.sweep()
        _, shown = harness.call("GET", f"/api/instances/{waiting}")
        assert shown["waitingFor"]["code"] == "NOVITA_AUTHENTICATION_FAILED"
        assert harness.simulator.calls("/gpu/instance/create") == []
        _, stale = harness.call("GET", f"/api/instances/{instances[0]}")
        assert stale["stale"] is True

    harness.sweep()
    harness.run(120)
    harness.settle()

    assert harness.record(waiting).status is Status.RUNNING
    assert len(live(harness)) == 3


@pytest.mark.parametrize("count", [1, 3, pytest.param(30, marks=pytest.mark.soak)])
@pytest.mark.parametrize("seconds", [600.0, pytest.param(10 * HOUR, marks=pytest.mark.soak)])
def test_an_accounts_key_that_was_trusted_by_mistake_and_bought_a_machine_ends_nothing(
    harness: Harness, count: int, seconds: float
) -> None:
    """Nothing is bought with an unproven key, so that an admin's mistaken word comes first."""
    other = "key-of-another-account"
    harness.simulator.settings(accounts={other: "another"})
    instances = at_rest(harness, count)
    before = {one: harness.record(one).status for one in instances}
    harness.put_secret("novita", other)
    harness.restart()
    assert harness.call("POST", "/api/sync", {"trustKey": True})[0] == 200
    there = harness.create(name="there")
    harness.run(120)
    everybody_looks(harness, instances, seconds)
    assert harness.record(there).status is Status.RUNNING
    harness.put_secret("novita", "novita-key")
    harness.restart()

    everybody_looks(harness, instances, seconds)
    harness.run(2 * HOUR)

    assert {one: harness.record(one).status for one in instances} == before
    assert len(live(harness)) == count + 1
    assert {call["path"].rpartition("/")[2] for call in harness.simulator.calls(method="POST")} == {"create"}
    for one in instances:
        history = harness.history(one)
        assert (history.count("instance.missing"), history.count("instance.found")) == (1, 1)
    assert harness.record(there).missing  # from here it cannot be seen
    harness.simulator.patch_instance(machine_of(harness, there), account="")
    harness.run(HOUR)
    assert not harness.record(there).missing


def test_a_delete_asked_for_under_an_unproven_key_is_not_called_done(harness: Harness) -> None:
    (instance_id,) = running(harness)
    with another_accounts_key(harness):
        harness.call("DELETE", f"/api/instances/{instance_id}")
        harness.run(HOUR)
        assert harness.record(instance_id).status is Status.DELETING

    harness.sweep()
    harness.settle()

    assert harness.record(instance_id).status is Status.TERMINATED
    assert live(harness) == set()


def test_an_admins_word_proves_a_key_and_nobody_elses(harness: Harness) -> None:
    (instance_id,) = running(harness)
    harness.put_secret("novita", "a-new-key")
    harness.restart()
    harness.add_key(writer := keys.new_key(), "write")
    with unfindable(harness):
        body, theirs = {"trustKey": True}, {"authorization": f"Bearer {writer}"}
        harness.sweep()
        assert not harness.wiring.key_trust.proven()
        assert harness.call("POST", "/api/sync", body, theirs)[0] == 403
        assert not harness.wiring.key_trust.proven()

        assert harness.call("POST", "/api/sync", body)[0] == 200

        assert harness.wiring.key_trust.proven()
        harness.run(600)
        assert harness.record(instance_id).missing
    harness.sweep()
    harness.settle()


def test_a_new_key_is_proven_by_the_machine_it_shows_and_at_once_where_there_is_none(build: Build) -> None:
    for count in (0, 1):
        harness = build()
        running(harness, count)
        harness.put_secret("novita", "a-new-key")
        harness.restart()

        harness.sweep()

        assert harness.wiring.key_trust.proven()


def test_the_first_create_with_a_key_proves_it_where_there_are_no_machines(harness: Harness) -> None:
    harness.put_secret("novita", "a-new-key")
    harness.restart()

    instance_id = harness.create()
    harness.settle()

    assert harness.record(instance_id).status is Status.RUNNING


def test_a_machine_that_is_away_for_a_day_has_vanished(harness: Harness) -> None:
    (instance_id,) = running(harness)
    since = harness.now()
    with unfindable(harness):
        harness.sweep()
        harness.run(23 * HOUR)
        assert harness.record(instance_id).status is Status.RUNNING
        harness.settle()
        took = (harness.now() - since).total_seconds()

    record = harness.record(instance_id)
    events = harness.wiring.instances.events(instance_id)
    assert (record.status, record.at_rest) == (Status.TERMINATED, True)
    assert [(one.type, one.reason) for one in events][-1] == ("instance.terminated", "vanished")
    assert 24 * HOUR <= took <= 26 * HOUR
    assert harness.simulator.calls(method="POST") == []
    harness.simulator.patch_instance(str(record.machine.id), status="removed")


def test_a_machine_that_came_up_unseen_outlives_its_deadline_and_a_false_not_found(harness: Harness) -> None:
    instance_id = harness.create()
    while harness.deliver():
        pass
    harness.simulator.fault("status", "/gpu/instance", method="GET", status=503)
    harness.simulator.fault("status", "/gpu/instances", status=503)
    harness.run(1300)
    harness.simulator.clear_faults()
    harness.simulator.fault("status", path="/gpu/instance", method="GET", times=1, **NOT_FOUND)

    harness.settle()

    assert harness.record(instance_id).status is Status.RUNNING
    assert harness.simulator.calls("/gpu/instance/delete") == []


@pytest.mark.parametrize("taken", [True, False])
def test_a_start_whose_answers_were_lost_is_looked_at_before_its_deadline_ends_it(
    harness: Harness, taken: bool
) -> None:
    instance_id = harness.create()
    harness.settle()
    harness.call("POST", f"/api/instances/{instance_id}/stop")
    harness.settle()
    harness.simulator.fault("disconnect", "/gpu/instance/start", commit=taken)
    harness.simulator.fault("status", "/gpu/instance", method="GET", status=503)
    harness.simulator.fault("status", "/gpu/instances", status=503)
    harness.call("POST", f"/api/instances/{instance_id}/start")
    harness.run(1300)
    assert harness.record(instance_id).status is Status.STARTING
    harness.simulator.clear_calls()
    harness.simulator.clear_faults()

    harness.settle()

    assert harness.record(instance_id).status is (Status.READY if taken else Status.FAILED)
    assert harness.simulator.calls("/gpu/instance/start") == []
    assert bool(harness.simulator.calls("/gpu/instance/stop")) is not taken


def missing(harness: Harness) -> str:
    """One that runs, and whose machine cannot be found."""
    (instance_id,) = running(harness)
    harness.simulator.fault("status", path="/gpu/instance", method="GET", **NOT_FOUND)
    for action in ("start", "stop", "restart", "delete"):
        harness.simulator.fault("status", path=f"/gpu/instance/{action}", **NOT_FOUND)
    empty = '{"instances": [], "total": 0}'
    harness.simulator.fault("garbage", path="/gpu/instances", body=empty, contentType="application/json")
    harness.advance(300)
    harness.sweep()
    harness.run(300)
    record = harness.record(instance_id)
    assert (record.status, record.missing) == (Status.RUNNING, True)
    return instance_id


def test_a_stop_is_accepted_and_carried_out_when_the_machine_shows_up(harness: Harness) -> None:
    instance_id = missing(harness)

    accepted, _ = harness.call("POST", f"/api/instances/{instance_id}/stop")
    harness.run(2 * HOUR)
    assert harness.record(instance_id).status is Status.STOPPING
    harness.simulator.clear_faults()
    harness.sweep()
    harness.settle()

    assert accepted == 202
    assert harness.record(instance_id).status is Status.STOPPED


@pytest.mark.parametrize("shows_up", [True, False])
def test_a_delete_is_accepted_and_carried_out_when_it_shows_up_or_is_gone(
    harness: Harness, shows_up: bool
) -> None:
    harness.costs_within = timedelta(minutes=10)  # it lived on while Novita denied it, which nobody can know
    instance_id = missing(harness)
    machine_id = machine_of(harness, instance_id)

    accepted, _ = harness.call("DELETE", f"/api/instances/{instance_id}")
    if shows_up:
        harness.simulator.clear_faults()
    else:
        harness.simulator.patch_instance(machine_id, status="removed")
    harness.settle()

    assert accepted == 202
    assert harness.record(instance_id).status is Status.TERMINATED
    assert live(harness) == set()


def test_what_is_missing_can_be_released_and_is_never_touched_again(build: Build) -> None:
    harness = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    instance_id = missing(harness)
    machine_id = machine_of(harness, instance_id)
    harness.simulator.clear_calls()

    status, _ = harness.call("DELETE", f"/api/instances/{instance_id}?release=true")
    harness.simulator.clear_faults()
    for _ in range(3):
        harness.advance(4000)
        harness.sweep()
        harness.settle()

    assert (status, harness.record(instance_id).status) == (202, Status.TERMINATED)
    assert live(harness) == {machine_id}
    assert harness.simulator.calls(method="POST") == []
    assert "orphan.detected" not in harness.history(instance_id)
    taken, _ = harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine_id})
    assert taken == 201


def test_a_refused_delete_is_repeated_seldom_told_once_and_its_yes_noticed_within_an_hour(
    harness: Harness,
) -> None:
    instances = running(harness, 3)
    refusal = "PREPAID_INSTANCE_NOT_SUPPORT_RELEASE"
    harness.simulator.fault("status", "/gpu/instance/delete", status=400, reason=refusal)
    harness.simulator.clear_calls()
    for one in instances:
        harness.call("DELETE", f"/api/instances/{one}")

    harness.run(24 * HOUR)

    asked = harness.simulator.calls("/gpu/instance/delete") + harness.simulator.calls("/gpu/instance")
    assert len(asked) <= 120
    for one in instances:
        assert harness.history(one).count("cleanup.stuck") == 1
        assert harness.record(one).status is Status.DELETING
    assert harness.sweep()["stuck"] == 3
    harness.simulator.clear_faults()
    harness.simulator.clear_calls()
    harness.run(HOUR)
    taken = harness.simulator.calls("/gpu/instance/delete")
    harness.settle()
    assert [call["status"] for call in taken] == [200] * 3
    assert {harness.record(one).status for one in instances} == {Status.TERMINATED}
    assert live(harness) == set()


def test_what_is_refused_is_told_of_after_ten_minutes_and_an_admin_may_release_it(harness: Harness) -> None:
    (instance_id,) = running(harness)
    refusal = "PREPAID_INSTANCE_NOT_SUPPORT_RELEASE"
    harness.simulator.fault("status", "/gpu/instance/delete", status=400, reason=refusal)
    harness.call("DELETE", f"/api/instances/{instance_id}")

    harness.run(9.5 * 60)
    early = harness.history(instance_id).count("cleanup.stuck")
    harness.run(60)

    assert (early, harness.history(instance_id).count("cleanup.stuck")) == (0, 1)
    assert harness.sweep()["stuck"] == 1
    released, _ = harness.call("DELETE", f"/api/instances/{instance_id}?release=true")
    assert released == 202
    harness.settle()
    harness.simulator.clear_faults()
    harness.simulator.patch_instance(machine_of(harness, instance_id), status="removed")


def test_only_an_admin_releases_what_novita_will_not_give_back_and_only_what_is_stuck(
    harness: Harness,
) -> None:
    (instance_id,) = running(harness)
    path = f"/api/instances/{instance_id}?release=true"
    harness.add_key(writer := keys.new_key(), "write")
    theirs = {"authorization": f"Bearer {writer}"}
    early, why = harness.call("DELETE", path)
    assert (early, why["error"]["code"]) == (409, "INSTANCE_NOT_RELEASABLE")
    refusal = "PREPAID_INSTANCE_NOT_SUPPORT_RELEASE"
    harness.simulator.fault("status", "/gpu/instance/delete", status=400, reason=refusal)
    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.run(HOUR)

    refused, _ = harness.call("DELETE", path, None, theirs)
    released, _ = harness.call("DELETE", path)
    harness.settle()

    assert (refused, released) == (403, 202)
    assert harness.record(instance_id).status is Status.TERMINATED
    assert len(live(harness)) == 1
    harness.simulator.clear_faults()
    harness.simulator.patch_instance(machine_of(harness, instance_id), status="removed")


@pytest.mark.parametrize("counts", [False, True], ids=["still listed", "not listed"])
def test_a_bare_404_counts_for_an_asked_delete_only_once_lists_lack_the_machine(
    harness: Harness, counts: bool
) -> None:
    harness.costs_within = timedelta(hours=2)  # what Novita bills while it removes for an hour, nobody knows
    (instance_id,) = running(harness)
    machine_id = machine_of(harness, instance_id)
    harness.call("DELETE", f"/api/instances/{instance_id}")
    while harness.deliver():
        pass
    harness.simulator.fault(
        "garbage", path="/gpu/instance", method="GET", status=404, body="not found", match_query=machine_id
    )
    if not counts:
        harness.simulator.patch_instance(machine_id, status="removing")
    harness.run(HOUR)

    assert harness.record(instance_id).status is (Status.TERMINATED if counts else Status.DELETING)
    harness.simulator.clear_faults()
    harness.simulator.patch_instance(machine_id, status="removed")
    harness.settle()


def test_a_machine_that_was_renamed_at_novita_cannot_be_imported_a_second_time(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()
    machine_id = machine_of(harness, instance_id)
    harness.simulator.patch_instance(machine_id, name="renamed by hand")

    status, answer = harness.call("POST", "/api/instances/import", {"novitaInstanceId": machine_id})

    assert (status, answer["error"]["code"]) == (409, "INSTANCE_ALREADY_MANAGED")
    assert answer["error"]["details"] == {"instanceId": instance_id}


def test_saves_that_fail_make_two_restarts_of_one_at_most(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()
    harness.call("POST", f"/api/instances/{instance_id}/restart")

    def die(made: Any) -> None:
        if made.name == "novita POST /gpu/instance/restart":
            raise Killed

    harness.wire.after = die
    harness.run(HOUR)
    harness.wire.after = None
    harness.settle()

    assert len(harness.simulator.calls("/gpu/instance/restart")) == 2
    assert harness.record(instance_id).status in (Status.RUNNING, Status.READY)
