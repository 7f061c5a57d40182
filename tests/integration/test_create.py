"""The create path with real handlers in virtual time."""

from functions.shared.domain.status import Status
from tests.integration.world import World


def test_a_create_is_bought_once_and_becomes_running(world: World) -> None:
    instance_id = world.create()

    world.settle()

    assert world.record(instance_id).status is Status.RUNNING
    assert len(world.simulator.live()) == 1
