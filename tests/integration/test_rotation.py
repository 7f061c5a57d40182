"""Secrets are rotated while functions run: nothing is deployed anew, and nothing fails for it."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.shared.domain.instance.status import Status
from tests.integration.harness import Harness
from tests.integration.wire import Made


def test_a_purchase_waits_for_the_new_key_and_finds_it(harness: Harness) -> None:
    instance_id = harness.create()
    harness.simulator.settings(rejectedKeys=["novita-key"])
    harness.deliver()
    assert harness.record(instance_id).status is Status.CREATING

    harness.put_secret("novita", "novita-key-2")
    harness.settle()

    assert harness.record(instance_id).status is Status.RUNNING
    assert len(harness.simulator.live()) == 1


def _refuse_secrets(harness: Harness, error: str) -> list[Made]:
    """From now on; those that were refused."""

    def refuse(made: Made) -> None:
        if made.name.startswith("GetSecretValue"):
            refused.append(made)
            said: Any = {"Error": {"Code": error}}
            raise ClientError(said, "GetSecretValue")

    refused: list[Made] = []
    harness.wire.before = refuse
    return refused


PRIVATE = "107673"  # a template whose image needs a login
ERRORS = ["InternalServiceError", "ThrottlingException", "AccessDeniedException"]


@pytest.mark.parametrize("error", ERRORS)
def test_a_key_that_cannot_be_read_again_serves_on(harness: Harness, error: str) -> None:
    harness.create()
    harness.settle()
    harness.advance(1000)
    refused = _refuse_secrets(harness, error)

    instance_id = harness.create(name="later")
    harness.settle()

    assert refused
    assert harness.record(instance_id).status is Status.RUNNING


@pytest.mark.parametrize("error", ERRORS)
def test_a_new_process_that_cannot_read_the_key_waits_for_it(harness: Harness, error: str) -> None:
    running = harness.create()
    harness.settle()
    harness.advance(40)
    harness.restart()
    refused = _refuse_secrets(harness, error)

    status, shown = harness.call("GET", f"/api/instances/{running}")
    made = harness.create(name="later")
    for _ in range(6):
        harness.run(60)

    assert refused
    assert (status, shown["status"], shown["stale"]) == (200, "running", True)
    assert harness.record(made).status is Status.CREATING
    assert harness.call("GET", "/api/jobs/dead")[1]["deadLetters"] == []
    harness.wire.before = None
    harness.settle()
    assert harness.record(made).status is Status.RUNNING
    assert len(harness.simulator.live()) == 2


def test_a_key_that_is_rotated_while_a_registry_auth_is_read_is_waited_for(harness: Harness) -> None:
    harness.simulator.settings(imageAuthIdAccepted=False)
    harness.simulator.fault("status", "/repository/auths", status=401, reason="UNAUTHORIZED", times=1)

    instance_id = harness.create(templateId=PRIVATE)
    harness.settle()

    assert harness.record(instance_id).status is Status.RUNNING
    assert len(harness.simulator.live()) == 1
