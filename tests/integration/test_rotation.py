"""Secrets are rotated while functions run: nothing is deployed anew, and nothing fails for it."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.shared.domain.status import Status
from tests.integration.wire import Made
from tests.integration.world import World


def test_a_purchase_waits_for_the_new_key_and_finds_it(world: World) -> None:
    instance_id = world.create()
    world.simulator.settings(rejectedKeys=["novita-key"])
    world.deliver()
    assert world.record(instance_id).status is Status.CREATING

    world.put_secret("novita", "novita-key-2")
    world.settle()

    assert world.record(instance_id).status is Status.RUNNING
    assert len(world.simulator.live()) == 1


def _refuse_secrets(world: World, error: str) -> list[Made]:
    """From now on; those that were refused."""

    def refuse(made: Made) -> None:
        if made.name.startswith("GetSecretValue"):
            refused.append(made)
            said: Any = {"Error": {"Code": error}}
            raise ClientError(said, "GetSecretValue")

    refused: list[Made] = []
    world.wire.before = refuse
    return refused


PRIVATE = "107673"  # a template whose image needs a login
ERRORS = ["InternalServiceError", "ThrottlingException", "AccessDeniedException"]


@pytest.mark.parametrize("error", ERRORS)
def test_a_key_that_cannot_be_read_again_serves_on(world: World, error: str) -> None:
    world.create()
    world.settle()
    world.advance(1000)
    refused = _refuse_secrets(world, error)

    instance_id = world.create(name="later")
    world.settle()

    assert refused
    assert world.record(instance_id).status is Status.RUNNING


@pytest.mark.parametrize("error", ERRORS)
def test_a_new_process_that_cannot_read_the_key_waits_for_it(world: World, error: str) -> None:
    running = world.create()
    world.settle()
    world.advance(40)
    world.restart()
    refused = _refuse_secrets(world, error)

    status, shown = world.call("GET", f"/api/instances/{running}")
    made = world.create(name="later")
    for _ in range(6):
        world.run(60)

    assert refused
    assert (status, shown["status"], shown["stale"]) == (200, "running", True)
    assert world.record(made).status is Status.CREATING
    assert world.call("GET", "/api/jobs/dead")[1]["deadLetters"] == []
    world.wire.before = None
    world.settle()
    assert world.record(made).status is Status.RUNNING
    assert len(world.simulator.live()) == 2


def test_a_key_that_is_rotated_while_a_registry_auth_is_read_is_waited_for(world: World) -> None:
    world.simulator.settings(imageAuthIdAccepted=False)
    world.simulator.fault("status", "/repository/auths", status=401, reason="UNAUTHORIZED", times=1)

    instance_id = world.create(templateId=PRIVATE)
    world.settle()

    assert world.record(instance_id).status is Status.RUNNING
    assert len(world.simulator.live()) == 1
