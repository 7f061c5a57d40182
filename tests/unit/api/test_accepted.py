"""What the API takes: everything just inside its bounds, however it is sent, and each thing once."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from functions.shared.domain.instance.status import Status
from functions.shared.platform import wiring
from functions.shared.stores.instances import record_item
from functions.shared.stores.table import Write
from tests.unit.api.api import Api, create_body

LARGEST = create_body(
    name="é" * 100,
    productName="x" * 200,
    templateId=10**15,
    gpuNum=8,
    rootfsSize=1000,
    regions=["CN-HK-01"] * 20,
    webhookUrl=f"https://example.com/{'x' * 2028}",
    maxPricePerGpuHour=10_000,
    maxWaitTime=86_400_000,
    healthCheck={
        "timeoutMs": 60_000,
        "retryAttempts": 10,
        "retryDelayMs": 30_000,
        "maxWaitTimeMs": 1_800_000,
        "targetPort": 65_535,
        "path": "/" + "x" * 1023,
    },
    tags={f"{number:02}" + "k" * 126: "日" * 256 for number in range(20)},
    envs=[{"key": f"{number:02}" + "K" * 509, "value": "v" * 2400} for number in range(100)],
    networkVolumes=[
        {"id": f"{number:02}" + "i" * 126, "mountPath": f"/{number:02}" + "p" * 252} for number in range(30)
    ],
    limits={
        "stopAfter": 999_999_999,
        "deleteAfter": "9999d",
        "idleStopAfter": 999_999_999,
        "deleteAfterStopped": "999999999s",
        "stopAt": "9998-12-31T23:59:59Z",
        "deleteAt": "9998-12-31T23:59:59+23:59",
        "idleGpuBelow": 100,
    },
    onReclaim={"action": "replace", "window": "1d", "maxRecoveries": 100, "replaceAfter": "1439m"},
)
SMALLEST = create_body(
    name="x",
    productName="x",
    templateId=1,
    gpuNum=1,
    rootfsSize=10,
    regions=["C"],
    maxPricePerGpuHour=5e-324,
    maxWaitTime=1000,
    healthCheck={
        "timeoutMs": 1000,
        "retryAttempts": 0,
        "retryDelayMs": 100,
        "maxWaitTimeMs": 30_000,
        "targetPort": 1,
    },
    tags={},
    limits={
        "stopAfter": 1,
        "deleteAfter": "1s",
        "idleStopAfter": "5m",
        "deleteAfterStopped": 1,
        "idleGpuBelow": 0.01,
    },
    onReclaim={"action": "restart", "window": 1, "maxRecoveries": 1},
)


@pytest.mark.parametrize("body", [LARGEST, SMALLEST, create_body()])
def test_just_inside_every_bound_is_accepted_and_can_be_read_again(api: Api, body: dict[str, Any]) -> None:
    answer = api.post(body)

    assert answer.status == 201, answer.text
    assert answer.body["status"] == "creating"
    shown = api.call("GET", answer.headers["Location"]).body
    assert shown["name"] == body["name"]
    assert shown["templateId"] == str(body["templateId"])
    assert shown.get("tags", {}) == body.get("tags", {})


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=utf-8",
        "application/x-www-form-urlencoded",
        "text/plain",
        "multipart/form-data",
        "",
    ],
)
@pytest.mark.parametrize("encode", [str, str.encode])
def test_a_body_is_read_as_json_whatever_it_is_called(api: Api, content_type: str, encode: Any) -> None:
    body = encode(json.dumps(create_body(name="ünï"), ensure_ascii=False))

    answer = api.post(raw=body, headers={"Content-Type": content_type})

    assert answer.status == 201, answer.text
    assert api.call("GET", answer.headers["Location"]).body["name"] == "ünï"


@pytest.mark.parametrize(
    "name", ["Straße 7", "日本語", "a/b?c=d&e#f", "100%", "<script>", "' OR 1=1 --", "🚀", "x" * 100]
)
def test_a_name_is_any_text_that_can_be_seen_and_is_found_by_it(api: Api, name: str) -> None:
    made = api.post(create_body(name=name)).body["instanceId"]

    found = api.call("POST", "/api/instances/stop", {"instanceName": name})

    assert found.code == "INSTANCE_NOT_STOPPABLE"
    assert made in found.error["message"]


def test_without_an_answer_from_novita_a_create_is_accepted_and_says_so(api: Api) -> None:
    answer = api.post(create_body(region="US-CA-06"))

    assert answer.status == 201
    assert "could not be asked" in answer.body["message"]
    assert answer.body["region"] == "US-CA-06"


# Once


def test_the_same_key_and_body_get_the_first_answer_again(api: Api) -> None:
    before = len(api.stored())
    body = create_body(name="twice", gpuNum=2)
    reordered = dict(reversed(body.items()))

    answers = [api.post(one, headers={"Idempotency-Key": "key 1"}) for one in (body, body, reordered)]

    assert {answer.status for answer in answers} == {201}
    assert len({answer.text for answer in answers}) == 1
    assert len({answer.headers["Location"] for answer in answers}) == 1
    assert len(api.stored()) == before + 4  # a record, its event, its owner's list, and the answer


def test_the_same_key_at_the_same_moment_makes_one_instance(api: Api) -> None:
    before = len(api.stored())

    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(api.post, create_body(), headers={"Idempotency-Key": "race"}) for _ in range(8)]

    assert {call.result().status for call in calls} == {201}
    assert len({call.result().text for call in calls}) == 1
    assert len(api.stored()) == before + 4


def test_the_same_key_with_another_body_is_refused(api: Api) -> None:
    api.post(create_body(), headers={"Idempotency-Key": "key 2"})

    answer = api.post(create_body(gpuNum=2), headers={"Idempotency-Key": "key 2"})

    assert (answer.status, answer.code) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_a_key_counts_for_one_caller_and_one_route(api: Api) -> None:
    key = {"Idempotency-Key": "key 3"}
    mine = api.post(create_body(name="mine"), headers=key)
    instance_id = mine.body["instanceId"]

    theirs = api.post(create_body(name="theirs"), headers=key, scope="write")
    deleted = api.post({"instanceName": "mine"}, "/api/instances/delete", headers=key)
    by_id = api.post(None, f"/api/instances/{instance_id}/stop", headers=key)

    assert (mine.status, theirs.status, deleted.status) == (201, 201, 202)
    assert theirs.body["instanceId"] != instance_id
    assert by_id.code == "INSTANCE_NOT_STOPPABLE"


def test_a_refusal_is_not_kept(api: Api) -> None:
    key = {"Idempotency-Key": "key 4"}

    refused = api.post(create_body(gpuNum=0), headers=key)
    accepted = api.post(create_body(gpuNum=1), headers=key)

    assert (refused.status, accepted.status) == (400, 201)


def test_an_answer_by_name_is_given_again_when_the_name_leads_nowhere(api: Api) -> None:
    instance_id = api.post(create_body(name="short-lived")).body["instanceId"]
    key = {"Idempotency-Key": "key 5"}
    first = api.post({"instanceName": "short-lived"}, "/api/instances/delete", headers=key)
    terminate(instance_id)

    again = api.post({"instanceName": "short-lived"}, "/api/instances/delete", headers=key)

    assert (first.status, again.status) == (202, 202)
    assert again.body == first.body
    without = api.post({"instanceName": "short-lived"}, "/api/instances/delete")
    assert (without.status, without.code) == (404, "INSTANCE_NOT_FOUND")


def test_the_one_that_lives_is_found_behind_a_hundred_that_do_not(api: Api) -> None:
    living = api.post(create_body(name="worker")).body["instanceId"]
    for number in range(101):
        terminate(living, of=f"{living}{number:03}")

    answer = api.post({"instanceName": "worker"}, "/api/instances/delete")

    assert answer.status == 202, answer.text
    assert answer.body["instanceId"] == living


def terminate(instance_id: str, of: str | None = None) -> None:
    """Nobody works off the queues here. `of` is the id of a copy to make instead."""
    wired = wiring.wiring("api")
    record = wired.instances.get(instance_id)
    assert record is not None
    ended = replace(record, id=of or record.id, status=Status.TERMINATED, next_check_at=None)
    wired.table.put(Write(record_item(ended)))


def test_the_time_that_the_table_and_the_queue_took_is_told(api: Api) -> None:
    timing = api.post(create_body()).headers["Server-Timing"]

    parts = dict(part.split(";dur=") for part in timing.split(", "))
    assert parts.keys() >= {"catalog", "table", "queue", "total"}
    assert float(parts["table"]) > 0
