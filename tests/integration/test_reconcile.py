"""The comparison of Novita's list with the records, on real handlers in virtual time."""

from functions.shared.domain.status import Status
from tests.integration.world import World


def test_a_machine_that_novita_stopped_shows_as_exited_after_a_sweep(world: World) -> None:
    instance_id = world.create()
    world.settle()
    machine_id = str(world.record(instance_id).machine_id)

    world.simulator.patch_instance(machine_id, status="exited")
    world.advance(60)
    world.sweep()

    assert world.record(instance_id).status is Status.EXITED
    world.settle()
