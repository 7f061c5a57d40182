"""What subscribers and receivers are told: the payload, small enough, and attributes to filter by."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.shared.domain.delivery.webhooks import announce_event, announce_other
from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.record import Action, Event
from functions.shared.domain.instance.status import Status

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def event(**changes: Any) -> Event:
    plain: dict[str, Any] = {
        "instance_id": "inst_01JGFJJZ00ABCDEFGHJKMNPQRS",
        "sequence": 3,
        "type": "instance.ready",
        "at": NOW,
        "status": Status.READY,
        "actor": "key_1",
        "correlation_id": "corr",
    }
    return Event(**plain | changes)


def test_the_payload_says_what_is_known_and_leaves_out_what_is_not() -> None:
    told = announce_event(event(machine_id="m-1", elapsed_ms=5, region="CN-HK-01"))

    assert json.loads(told.body) == {
        "id": "evt_01JGFJJZ00ABCDEFGHJKMNPQRS_3",
        "type": "instance.ready",
        "sequence": 3,
        "timestamp": "2030-01-01T12:00:00.000Z",
        "instanceId": "inst_01JGFJJZ00ABCDEFGHJKMNPQRS",
        "novitaInstanceId": "m-1",
        "status": "ready",
        "elapsedTime": 5,
        "data": {"correlationId": "corr"},
    }


def test_a_failed_start_carries_its_error_its_report_and_its_operation() -> None:
    told = announce_event(
        event(
            type="startup.failed",
            reason="HEALTH_CHECK_FAILED",
            error=Fault("HEALTH_CHECK_FAILED", "no endpoint answered"),
            health={"overall": "unhealthy"},
            operation_id="op_1",
            operation_kind=Action.START,
            startup_phases=(("initiated", NOW), ("monitoring", NOW), ("failed", NOW)),
        )
    )

    payload = json.loads(told.body)
    assert payload["error"] == {"code": "HEALTH_CHECK_FAILED", "message": "no endpoint answered"}
    assert payload["healthCheck"] == {"overall": "unhealthy"}
    at = "2030-01-01T12:00:00.000Z"
    assert payload["startupOperation"] == {
        "operationId": "op_1",
        "kind": "start",
        "status": "failed",
        "startedAt": at,
        "phases": [{"status": status, "at": at} for status in ("initiated", "monitoring", "failed")],
    }


def test_an_event_that_an_older_version_stored_names_its_startup_operation_all_the_same() -> None:
    told = announce_event(event(operation_id="op_1", operation_kind=Action.RESTART))

    assert json.loads(told.body)["startupOperation"] == {"operationId": "op_1", "kind": "restart"}


@pytest.mark.parametrize(
    ("own", "of_operation", "told"),
    [
        ("https://a.example", None, ("https://a.example",)),
        (None, "https://b.example", ("https://b.example",)),
        ("https://a.example", "https://b.example", ("https://a.example", "https://b.example")),
        ("https://a.example", "https://a.example", ("https://a.example",)),
        (None, None, ()),
    ],
)
def test_the_operations_receiver_is_told_besides_the_instances_own(
    own: str | None, of_operation: str | None, told: tuple[str, ...]
) -> None:
    assert announce_event(event(webhook_url=own, operation_webhook_url=of_operation)).webhook_urls == told


def test_attributes_are_what_filter_policies_may_name_and_none_is_empty() -> None:
    with_region = announce_event(event(region="CN-HK-01")).attributes
    without = announce_event(event()).attributes

    assert with_region == {
        "eventType": "instance.ready",
        "status": "ready",
        "instanceId": "inst_01JGFJJZ00ABCDEFGHJKMNPQRS",
        "region": "CN-HK-01",
    }
    assert "region" not in without


@pytest.mark.parametrize(
    "changes",
    [
        {"health": {"overall": "partial", "endpoints": [{"error": "x" * 100}] * 1000}},
        {"error": Fault("NOVITA_REJECTED", "é" * 50_000)},
        {"reason": "\U0001f600" * 50_000},
        {
            "reason": "r" * 30_000,
            "error": Fault("NOVITA_REJECTED", "m" * 30_000),
            "health": {"endpoints": ["x" * 30_000]},
        },
        {"correlation_id": "c" * 30_000},
    ],
)
def test_no_payload_reaches_20_kb_and_it_still_says_which_event_it_is(changes: dict[str, Any]) -> None:
    told = announce_event(event(**changes))

    assert len(told.body.encode()) < 20_000
    payload = json.loads(told.body)
    assert (payload["id"], payload["sequence"], payload["status"]) == (told.id, 3, "ready")


def test_a_circuit_is_announced_with_whatever_its_item_says_of_it() -> None:
    told = announce_other(
        {
            "pk": "circuit#reads",
            "sk": "event#0000000004",
            "kind": "event",
            "id": "evt_1",
            "type": "circuit.opened",
            "timestamp": "2030-01-01T12:00:00.000Z",
            "epoch": 4,
            "circuit": "reads",
            "state": "OPEN",
            "openUntil": "2030-01-01T12:01:00.000Z",
            "due": "event",
            "dueAt": 1,
            "expiresAt": 2,
        }
    )

    assert json.loads(told.body) == {
        "id": "evt_1",
        "type": "circuit.opened",
        "timestamp": "2030-01-01T12:00:00.000Z",
        "data": {
            "epoch": 4,
            "circuit": "reads",
            "state": "OPEN",
            "openUntil": "2030-01-01T12:01:00.000Z",
        },
    }
    assert told.attributes == {"eventType": "circuit.opened"}
    assert told.webhook_url is None


def test_an_orphan_is_announced_with_its_data_and_the_attributes_it_has() -> None:
    data = {"novitaInstanceId": "m-1", "status": "running", "instanceId": "inst_1", "region": ""}
    item = {"id": "evt_2", "type": "orphan.detected", "timestamp": "t", "sequence": 1, "data": data}

    told = announce_other({"pk": "orphan#m-1", "sk": "event#1", "correlationId": "corr", **item})

    assert json.loads(told.body) == item
    assert told.attributes == {"eventType": "orphan.detected", "instanceId": "inst_1"}
    assert told.correlation_id == "corr"


def test_long_data_of_another_event_is_cut() -> None:
    told = announce_other(
        {"id": "e", "type": "orphan.detected", "timestamp": "t", "data": {"x": "y" * 30_000}}
    )

    assert json.loads(told.body)["data"] == {"cut": True}
