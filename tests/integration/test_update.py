"""PATCH: what it changes, what it refuses, what is told of it."""

from typing import Any

from functions.shared.domain.instance.status import Status
from tests.integration.harness import Harness


def _patch(harness: Harness, instance_id: str, body: Any, key: str | None = None) -> tuple[int, Any]:
    return harness.call("PATCH", f"/api/instances/{instance_id}", body, {"idempotency-key": key})


def _running(harness: Harness, **body: Any) -> str:
    instance_id = harness.create(**body)
    harness.settle()
    return instance_id


def _updates(harness: Harness, instance_id: str) -> list[Any]:
    _, shown = harness.call("GET", f"/api/instances/{instance_id}/events")
    return [event for event in shown["events"] if event["type"] == "instance.updated"]


def test_a_merge_patch_changes_what_it_names_and_null_takes_away(harness: Harness) -> None:
    inbox = harness.simulator.inbox_url("box")
    instance_id = _running(harness, tags={"team": "a", "stage": "x"}, webhookUrl=inbox)
    before = harness.call("GET", f"/api/instances/{instance_id}")[1]

    body = {"name": "renamed", "tags": {"team": "b", "stage": None, "new": "1"}, "protected": True}
    status, changed = _patch(harness, instance_id, body)
    _, bare = _patch(harness, instance_id, {"tags": None, "webhookUrl": None, "protected": False})

    assert status == 200
    assert (changed["name"], changed["tags"], changed["protected"]) == (
        "renamed",
        {"team": "b", "new": "1"},
        True,
    )
    assert changed["webhookUrl"] == inbox
    assert not bare.keys() & {"tags", "webhookUrl", "protected"}
    assert bare["updatedAt"] > before["updatedAt"]
    first, second = _updates(harness, instance_id)
    assert first["data"] == {
        "changed": ["name", "protected", "tags.team", "tags.stage", "tags.new"],
        "changes": {
            "name": {"from": "test", "to": "renamed"},
            "protected": {"from": False, "to": True},
        },
    }
    assert second["data"]["changed"] == ["protected", "tags.team", "tags.new", "webhookUrl"]
    assert first["actor"].startswith("key_")


def test_a_new_name_is_the_one_it_is_found_by_and_its_machine_stays_ours(harness: Harness) -> None:
    instance_id = _running(harness, name="old")
    machine = harness.simulator.live()[0]["name"]

    _patch(harness, instance_id, {"name": "new"})

    assert harness.call("POST", "/api/instances/stop", {"instanceName": "old"})[0] == 404
    assert harness.call("GET", "/api/instances?name=old")[1]["instances"] == []
    assert harness.call("GET", "/api/instances?name=new")[1]["instances"][0]["instanceId"] == instance_id
    assert harness.call("POST", "/api/instances/stop", {"instanceName": "new"})[0] == 202
    harness.settle()
    assert harness.simulator.live()[0]["name"] == machine
    assert harness.sweep()["orphans"] == 0


def test_what_changes_nothing_is_no_event(harness: Harness) -> None:
    instance_id = _running(harness, limits={"stopAfter": "90m"})
    version = harness.record(instance_id).version

    answers = [
        _patch(harness, instance_id, {}),
        _patch(harness, instance_id, {"name": "test", "limits": {"stopAfter": 5400}, "protected": False}),
    ]

    assert [status for status, _ in answers] == [200, 200]
    assert harness.record(instance_id).version == version
    assert _updates(harness, instance_id) == []


def test_the_same_key_gets_the_first_answer_and_another_body_is_refused(harness: Harness) -> None:
    instance_id = _running(harness)

    _, first = _patch(harness, instance_id, {"name": "a"}, "key")
    _patch(harness, instance_id, {"name": "b"})
    _, again = _patch(harness, instance_id, {"name": "a"}, "key")
    status, other = _patch(harness, instance_id, {"name": "c"}, "key")

    assert again == first
    assert harness.record(instance_id).name == "b"
    assert (status, other["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_what_is_being_deleted_or_gone_cannot_be_changed(harness: Harness) -> None:
    instance_id = _running(harness)
    harness.call("DELETE", f"/api/instances/{instance_id}")
    deleting = _patch(harness, instance_id, {"name": "a"})
    harness.settle()

    gone = _patch(harness, instance_id, {"limits": {"stopAfter": "1h"}})

    assert harness.record(instance_id).status is Status.TERMINATED
    assert [(status, one["error"]["code"]) for status, one in (deleting, gone)] == [
        (409, "INSTANCE_ENDED")
    ] * 2
    assert _patch(harness, "inst_0", {"name": "a"})[0] == 404


def test_bad_fields_are_named_and_nothing_is_changed(harness: Harness) -> None:
    instance_id = _running(harness)
    bad: list[Any] = [
        {"name": None},
        {"name": ""},
        {"status": "stopped"},
        {"protected": "yes"},
        {"limits": {"stopAt": "2020-01-01T00:00:00Z"}},
        {"limits": {"idleGpuBelow": 5}},
        {"limits": "none"},
        {"tags": {f"t{number}": "x" for number in range(21)}},
        {"webhookUrl": "http://10.0.0.1/"},
    ]

    answers = [_patch(harness, instance_id, body) for body in bad]

    assert {status for status, _ in answers} == {400}
    assert {one["error"]["code"] for _, one in answers} == {"VALIDATION_ERROR"}
    assert _updates(harness, instance_id) == []


def test_a_protected_one_is_not_released_either(harness: Harness) -> None:
    made = harness.simulator.put_instance(status="running")
    _, imported = harness.call("POST", "/api/instances/import", {"novitaInstanceId": made["id"]})
    instance_id = imported["instanceId"]
    _patch(harness, instance_id, {"protected": True})

    status, refused = harness.call("DELETE", f"/api/instances/{instance_id}?release=true")

    assert (status, refused["error"]["code"]) == (409, "INSTANCE_PROTECTED")
