"""Machines with our mark and no record, and machines of others."""

from datetime import timedelta

from functions.shared.domain.ids import new_instance_id
from ops import keys
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.sweeps import LONG, events, live, machine_of, put, running
from tests.integration.wire import Made

HOUR = 3600.0


def _sweep_for(harness: Harness, minutes: int) -> None:
    for _ in range(minutes):
        harness.advance(60)
        harness.sweep()


def _listed(harness: Harness) -> list[str]:
    return [machine.id for machine in harness.wiring.novita.list(within=5)]


def test_an_orphan_is_announced_once_and_kept(harness: Harness) -> None:
    orphan = put(harness, new_instance_id(harness.now()))

    for _ in range(3):
        harness.advance(4000)
        assert harness.sweep()["orphans"] == 1

    (told,) = events(harness, "orphan.detected")
    assert told["data"]["novitaInstanceId"] == orphan
    assert live(harness) == {orphan}
    harness.simulator.patch_instance(orphan, status="removed")


def test_an_orphan_is_deleted_only_under_that_policy_and_at_that_age(build: Build) -> None:
    harness = build(ORPHAN_POLICY="delete", ORPHAN_AGE="600")
    orphan = put(harness, new_instance_id(harness.now()))
    harness.advance(5)

    harness.sweep()
    harness.advance(599)
    assert harness.sweep()["orphans_deleted"] == 0
    assert live(harness) == {orphan}
    harness.advance(2)

    assert harness.sweep()["orphans_deleted"] == 1
    harness.advance(60)
    assert live(harness) == set()
    assert len(events(harness, "orphan.detected")) == 1


def test_orphans_that_novita_will_not_delete_hold_up_no_others(build: Build) -> None:
    harness = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0", SWEEP_MAX_REPAIRS="2")
    put_down = [put(harness, new_instance_id(harness.now())) for _ in range(3)]
    harness.advance(5)
    harness.sweep()
    refused = set(_listed(harness)[:1])
    for id_ in refused:
        harness.simulator.fault(
            "status", "/gpu/instance/delete", match_body=id_, status=400, reason="REQUEST"
        )

    deleted = []
    for _ in range(6):
        harness.advance(60)
        deleted.append(harness.sweep()["orphans_deleted"])

    assert max(deleted) <= 2
    harness.advance(60)
    assert live(harness) == refused <= set(put_down)
    for id_ in refused:
        harness.simulator.patch_instance(id_, status="removed")


def test_too_many_orphans_at_once_are_told_and_not_deleted_until_an_admin_says_so(build: Build) -> None:
    harness = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    (kept,) = running(harness)
    orphans = {put(harness, new_instance_id(harness.now() + timedelta(seconds=n))) for n in range(5)}
    harness.advance(5)

    told = harness.sweep()
    held = [harness.sweep() for _ in range(3)]
    assert (told["orphans"], len(events(harness, "orphan.detected"))) == (5, 5)
    assert {(one["orphans_deleted"], one["deletions_held"]) for one in held} == {(0, 5)}
    assert orphans < live(harness)
    harness.add_key(writer := keys.new_key(), "write")
    refused, _ = harness.call(
        "POST", "/api/sync", {"deleteOrphans": True}, {"authorization": f"Bearer {writer}"}
    )
    status, answer = harness.call("POST", "/api/sync", {"deleteOrphans": True})
    harness.advance(60)

    assert (refused, status, answer["deletionsHeld"]) == (403, 200, 0)
    assert live(harness) == {machine_of(harness, kept)}


def test_a_machine_with_a_mark_that_no_purchase_explains_is_told_of_and_deleted_by_no_policy(
    build: Build,
) -> None:
    """Somebody gave another machine the name of ours at Novita's console."""
    harness = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    (instance_id,) = running(harness)
    copies = {put(harness, instance_id), put(harness, instance_id, purchase=7)}
    harness.advance(5)

    for _ in range(4):
        harness.sweep()
        harness.settle()
        harness.advance(3600)

    assert copies < live(harness)
    assert len(events(harness, "orphan.detected")) == 2
    assert harness.simulator.calls("/gpu/instance/delete") == []
    for copy in copies:
        harness.simulator.patch_instance(copy, status="removed")


def test_orphans_too_young_to_be_deleted_count_for_nothing(build: Build) -> None:
    harness = build(ORPHAN_POLICY="delete", ORPHAN_AGE="600")
    for _ in range(3):
        put(harness, new_instance_id(harness.now()))
    harness.advance(5)
    harness.sweep()
    harness.advance(590)
    young = [put(harness, new_instance_id(harness.now())) for _ in range(3)]
    harness.advance(11)

    deleted = harness.sweep()["orphans_deleted"]

    harness.advance(60)
    assert (deleted, live(harness)) == (3, set(young))
    for id_ in young:
        harness.simulator.patch_instance(id_, status="removed")


def test_what_is_no_orphan_at_the_last_moment_is_not_deleted(build: Build) -> None:
    """Renamed at Novita's console since the list was read: it carries our mark no more."""
    harness = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    orphan = put(harness, new_instance_id(harness.now()))
    harness.advance(5)
    harness.sweep()

    def rename(made: Made) -> None:
        if made.name == "novita GET /gpu/instance":
            harness.simulator.patch_instance(orphan, name="mine now")

    harness.wire.before = rename
    counts = harness.sweep()
    harness.wire.before = None

    assert (counts["orphans"], counts["orphans_deleted"]) == (1, 0)
    assert live(harness) == {orphan}


def test_an_orphan_that_is_imported_while_the_sweep_runs_is_not_deleted(build: Build) -> None:
    harness = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    orphan = put(harness, new_instance_id(harness.now()))
    harness.advance(5)
    harness.sweep()

    def import_it(made: Made) -> None:
        if made.name == "novita GET /gpu/instance":  # the sweep's last look before it deletes
            harness.wire.after = None
            body = {"novitaInstanceId": orphan}
            assert harness.elsewhere(lambda: harness.call("POST", "/api/instances/import", body))[0] == 201

    harness.wire.after = import_it
    counts = harness.sweep()

    assert (counts["orphans"], counts["orphans_deleted"]) == (1, 0)
    assert live(harness) == {orphan}


def test_an_orphan_that_is_imported_between_two_attempts_to_delete_it_is_not_deleted(build: Build) -> None:
    harness = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    orphan = put(harness, new_instance_id(harness.now()))
    harness.advance(5)
    harness.sweep()
    harness.simulator.fault("status", "/gpu/instance/delete", status=503, times=1)

    def import_it(made: Made) -> None:
        if made.name == "novita POST /gpu/instance/delete":
            harness.wire.after = None
            body = {"novitaInstanceId": orphan}
            assert harness.elsewhere(lambda: harness.call("POST", "/api/instances/import", body))[0] == 201

    harness.wire.after = import_it
    counts = harness.sweep()

    assert (counts["orphans"], counts["orphans_deleted"]) == (1, 0)
    assert len(harness.simulator.calls("/gpu/instance/delete")) == 1
    assert live(harness) == {orphan}


def test_orphans_whose_delete_is_refused_are_asked_for_seldom_and_told_once(build: Build) -> None:
    harness = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    orphans = {put(harness, new_instance_id(harness.now())) for _ in range(3)}
    harness.advance(5)
    harness.sweep()
    refusal = "PREPAID_INSTANCE_NOT_SUPPORT_RELEASE"
    harness.simulator.fault("status", "/gpu/instance/delete", status=400, reason=refusal)
    harness.simulator.clear_calls()

    _sweep_for(harness, minutes=125)

    asked = [harness.simulator.calls(f"/gpu/instance{path}") for path in ("", "/delete")]
    assert all(3 * 7 <= len(calls) <= 3 * 9 for calls in asked)  # after 30 s, 1 min ... an hour
    told = events(harness, "cleanup.stuck")
    assert sorted(one["data"]["novitaInstanceId"] for one in told) == sorted(orphans)
    assert {one["data"]["reason"] for one in told} == {"NOVITA_REJECTED"}
    assert live(harness) == orphans
    harness.simulator.clear_faults()
    harness.advance(HOUR)
    assert harness.sweep()["orphans_deleted"] == 3
    harness.advance(60)
    assert live(harness) == set()


def test_machines_of_others_are_never_touched(build: Build) -> None:
    harness = build(ORPHAN_POLICY="delete", ORPHAN_AGE="0")
    (instance_id,) = running(harness)
    others = {
        put(harness, instance_id, purchase=2, deployment="zzzz9999"),
        put(harness, new_instance_id(harness.now()), deployment="zzzz9999"),
        str(harness.simulator.put_instance(name="by hand", status="running", ageSeconds=LONG)["id"]),
    }
    harness.simulator.clear_calls()

    for _ in range(5):
        harness.advance(3600)
        harness.sweep()
    harness.settle()

    assert live(harness) == {*others, machine_of(harness, instance_id)}
    touched = [call["body"] for call in harness.simulator.calls(method="POST")]
    assert not [body for body in touched if any(other in str(body) for other in others)]
    assert events(harness, "orphan.detected") == []
