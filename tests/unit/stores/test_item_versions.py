"""Two versions of the service at once, as in every deploy: what each makes of what the other stored."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from functions.shared.domain.instance.record import Instance, Spec
from functions.shared.domain.instance.status import Status
from functions.shared.domain.messages import DeliveryMessage, StepMessage
from functions.shared.stores.instances import read_record, record_item
from functions.shared.stores.schema import packed, unpacked

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def stored() -> dict[str, Any]:
    record = Instance(
        id="inst_1",
        name="one",
        spec=Spec("RTX 4090 24GB", "107672"),
        status=Status.RUNNING,
        created_at=NOW,
        updated_at=NOW,
        deadline_at=None,
        next_check_at=None,
        actor="test",
        correlation_id="trace",
    )
    return record_item(record)


def test_an_older_version_reads_past_fields_that_a_newer_one_added() -> None:
    item = stored()
    record = unpacked(item["record"])
    spec = {**record["spec"], "colour": "red"}
    item["record"] = packed({**record, "quality": "high", "spec": spec})

    assert replace(read_record(item), unknown={}) == read_record(stored())


def test_a_newer_version_reads_records_from_before_its_fields() -> None:
    assert read_record(stored()).machine.id is None, "what is at its default is not even stored"


def test_messages_of_a_newer_version_are_read_by_what_is_known_of_them() -> None:
    step = {"instance_id": "inst_1", "token": "t", "correlation_id": "c", "hurry": True}
    delivery = {"delivery_id": "dlv_1", "attempt": 2, "correlation_id": "c", "hurry": True}

    assert StepMessage.from_json(json.dumps(step)) == StepMessage("inst_1", "t", "c")
    assert DeliveryMessage.from_json(json.dumps(delivery)) == DeliveryMessage("dlv_1", 2, "c")


def test_a_new_status_is_what_an_older_version_cannot_read() -> None:
    """So that it takes two deploys: one that can read it, then one that writes it."""
    with pytest.raises(ValidationError):
        read_record({**stored(), "record": {**unpacked(stored()["record"]), "status": "hibernating"}})
