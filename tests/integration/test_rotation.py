"""Secrets are rotated while functions run: nothing is deployed anew, and nothing fails for it."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.shared.domain.instance.status import Status
from tests.integration.harness import Harness
from tests.integration.sweeps import running
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


ANOTHER = "key-of-another-account"


def _another_accounts_key_after(harness: Harness, call: str) -> None:
    """It is put in, and what this process knew of the secret grows old, while an invocation goes on."""

    def put_in(made: Made) -> None:
        if made.name == call:
            harness.wire.after = None
            harness.put_secret("novita", ANOTHER)
            harness.advance(400)

    harness.simulator.settings(accounts={ANOTHER: "another"})
    harness.wire.after = put_in


def test_a_key_that_changes_in_the_middle_of_a_purchase_is_not_bought_with(harness: Harness) -> None:
    running(harness)
    instance_id = harness.create()
    _another_accounts_key_after(harness, "novita GET /products")
    harness.advance(31)  # offers are asked for anew

    harness.deliver()
    harness.run(600)

    assert harness.wire.after is None
    ours = {machine["id"] for machine in harness.simulator.instances() if not machine["account"]}
    assert {machine["id"] for machine in harness.simulator.live()} == ours
    harness.put_secret("novita", "novita-key")
    harness.restart()
    harness.sweep()
    harness.settle()
    assert harness.record(instance_id).status is Status.RUNNING


def test_what_one_key_has_shown_proves_no_other(harness: Harness) -> None:
    """The key changes while the list is read that has our machine in it."""
    (instance_id,) = running(harness)
    harness.put_secret("novita", "novita-key")  # another version, which is not proven yet
    harness.restart()
    _another_accounts_key_after(harness, "novita GET /gpu/instances")

    harness.sweep()

    assert harness.wire.after is None
    assert harness.call("GET", "/api/status")[1]["keyProven"] is False
    harness.run(600)
    assert not harness.record(instance_id).missing
    harness.put_secret("novita", "novita-key")
    harness.restart()
    harness.sweep()
    harness.settle()


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
