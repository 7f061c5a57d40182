"""GET /health: cheap for anybody; with a key and `deep`, all that the service stands on."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tests.integration.harness import Harness
from tests.integration.wire import Made

DEEP = "/health?deep=true"
NO_KEY = {"authorization": None}


CREATE = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"}


def refused(code: str, status: int) -> ClientError:
    said: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(said, "a call")


def test_anybody_is_told_that_it_answers_at_no_cost(harness: Harness) -> None:
    status, answer = harness.call("GET", "/health", headers=NO_KEY)

    assert (status, answer) == (200, {"status": "ok", "service": "ostler"})
    assert harness.wire.calls == []


def test_what_it_stands_on_is_shown_to_holders_of_a_key(harness: Harness) -> None:
    assert harness.call("GET", DEEP, headers=NO_KEY)[0] == 401

    status, answer = harness.call("GET", DEEP)

    circuits = dict.fromkeys(("reads", "buys", "actions"), "CLOSED")
    checks = {"table": "ok", "queues": "ok", "circuits": circuits}
    assert (status, answer) == (200, {"status": "ok", "service": "ostler", "checks": checks})


def test_a_circuit_that_is_open_is_a_worse_day_and_no_outage(harness: Harness) -> None:
    harness.simulator.fault("status", "/gpu/instance", status=500)
    instance_id = harness.create()
    harness.run(300)

    status, answer = harness.call("GET", DEEP)

    assert (status, answer["status"]) == (200, "degraded")
    assert answer["checks"]["circuits"]["reads"] != "CLOSED"
    assert harness.record(instance_id).machine.id
    harness.simulator.clear_faults()
    harness.settle()


@pytest.mark.parametrize(
    ("call", "failed"), [("GetItem deployment", "table"), ("GetQueueAttributes", "queues")]
)
def test_what_does_not_answer_is_named(harness: Harness, call: str, failed: str) -> None:
    def refuse(made: Made) -> None:
        if made.name.startswith(call):
            raise refused("InternalFailure", 500)

    harness.wire.before = refuse

    status, answer = harness.call("GET", DEEP)

    assert (status, answer["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
    assert answer["error"]["details"] == {"failed": [failed]}
    assert answer["error"]["retryable"] is True


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (refused("ProvisionedThroughputExceededException", 400), "SERVICE_UNAVAILABLE"),
        (refused("ThrottlingException", 400), "SERVICE_UNAVAILABLE"),
        (refused("InternalServerError", 500), "SERVICE_UNAVAILABLE"),
        (EndpointConnectionError(endpoint_url="-"), "SERVICE_UNAVAILABLE"),
        (refused("ValidationException", 400), "INTERNAL_ERROR"),
        (KeyError("x"), "INTERNAL_ERROR"),
    ],
)
def test_aws_not_answering_is_worth_asking_again_and_our_own_faults_are_not(
    harness: Harness, error: Exception, code: str
) -> None:
    def fail(made: Made) -> None:
        if made.name.startswith("TransactWriteItems"):
            raise error

    harness.wire.before = fail

    status, answer = harness.call("POST", "/api/instances", CREATE)

    assert (status, answer["error"]["code"]) == (503 if code == "SERVICE_UNAVAILABLE" else 500, code)
    assert answer["error"]["retryable"] is (status == 503)
