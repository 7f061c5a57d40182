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


@pytest.mark.parametrize("error", ["InternalServiceError", "ThrottlingException", "AccessDeniedException"])
def test_a_key_that_cannot_be_read_again_serves_on(world: World, error: str) -> None:
    world.create()
    world.settle()

    def refuse(made: Made) -> None:
        if made.name.startswith("GetSecretValue"):
            refused.append(made)
            said: Any = {"Error": {"Code": error}}
            raise ClientError(said, "GetSecretValue")

    refused: list[Made] = []
    world.advance(1000)
    world.wire.before = refuse
    instance_id = world.create(name="later")
    world.settle()

    assert refused
    assert world.record(instance_id).status is Status.RUNNING
