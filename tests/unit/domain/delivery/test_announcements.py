"""Whatever an event holds, what is told of it is small, complete and free of empty fields."""

import json
from typing import Any

import pytest

from functions.shared.domain.delivery.webhooks import announce_event
from functions.shared.domain.errors import Fault
from functions.shared.domain.instance.health import HealthReport
from functions.shared.domain.instance.record import Action, Event
from functions.shared.domain.instance.status import Status
from tests.unit.builders import NOW

OPTIONAL = {
    "machine_id": "m-1",
    "region": "CN-HK-01",
    "elapsed_ms": 0,
    "reason": "why",
    "error": Fault("STARTUP_FAILED", "no"),
    "health": {"overall": "healthy", "endpoints": []},
    "operation_id": "op_1",
    "operation_kind": Action.RESTART,
    "startup_phases": (("initiated", NOW), ("failed", NOW)),
    "webhook_url": "https://hook.example",
}
PROMISED = {
    "id",
    "type",
    "sequence",
    "timestamp",
    "instanceId",
    "novitaInstanceId",
    "status",
    "elapsedTime",
    "reason",
    "error",
    "healthCheck",
    "startupOperation",
    "data",
}


def event(**changes: Any) -> Event:
    return Event("inst_1", 4, "startup.failed", NOW, Status.FAILED, "key_1", "corr", **changes)


def test_the_payload_has_every_promised_field_and_no_other() -> None:
    assert json.loads(announce_event(event(**OPTIONAL)).body).keys() == PROMISED


@pytest.mark.parametrize("left_out", OPTIONAL)
def test_what_is_not_known_is_left_out_and_never_null(left_out: str) -> None:
    known = {name: value for name, value in OPTIONAL.items() if name != left_out}

    told = announce_event(event(**known))

    assert "null" not in told.body
    assert all(told.attributes.values())


@pytest.mark.parametrize("kind", Action)
def test_only_a_start_or_restart_is_a_startup_operation(kind: Action) -> None:
    payload = json.loads(announce_event(event(operation_id="op_1", operation_kind=kind)).body)

    assert ("startupOperation" in payload) == (kind in (Action.START, Action.RESTART))


@pytest.mark.parametrize("character", ["x", "\n", "é", "🐴"])
@pytest.mark.parametrize("overall", [{"overall": "unhealthy"}, {}])
def test_however_long_a_report_or_a_message_is_the_payload_stays_small(
    character: str, overall: dict[str, str]
) -> None:
    health = {**overall, "endpoints": [{"error": {"message": character * 300}}] * 2000}
    error = Fault("HEALTH_CHECK_FAILED", character * 50_000)

    told = announce_event(event(health=health, error=error, reason=character * 50_000))

    payload = json.loads(told.body)
    assert len(told.body.encode()) < 20_000
    assert "null" not in told.body
    assert payload["error"]["code"] == "HEALTH_CHECK_FAILED"
    assert payload["healthCheck"].get("overall") == overall.get("overall")
    assert payload["healthCheck"]["cut"]


def test_a_report_that_fits_is_told_whole() -> None:
    health = HealthReport(()).as_json()

    assert json.loads(announce_event(event(health=health)).body)["healthCheck"] == health


def test_the_same_event_is_told_in_the_same_bytes() -> None:
    assert announce_event(event(**OPTIONAL)) == announce_event(event(**OPTIONAL))
