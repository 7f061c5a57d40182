"""Where histories begin: an instance that was just asked for, one that runs, was stopped, or was imported."""

from dataclasses import replace

from functions.shared.domain.instance.commands import begin_import
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.record import Instance, Spec
from tests.explorer.fair import asked, rested
from tests.explorer.moves import wait
from tests.explorer.world import POLICY, Budget, Message, ModelMachine, Terms, World
from tests.unit.builders import HTTP, NOW, created, new_spec

Roots = list[tuple[str, World]]
AS_PROMISED = Terms()
SPECS = {
    "plain": new_spec(),
    "kept on failure": new_spec(keep_on_failure=True),
    "with a health check": new_spec(health_check=HealthCheck()),
}


def roots(spec: Spec, budget: Budget, terms: Terms = AS_PROMISED) -> Roots:
    fresh = World(NOW, stored(replace(created().record, spec=spec)), messages=(Message(NOW),))
    running = _later(rested(fresh))
    stopped = replace(_later(rested(asked(running, "stop"))), asked=frozenset())
    named = {"it is asked for": fresh, "it runs": running, "it was stopped": stopped}
    named["it was imported"] = _later(_imported())
    return [(what, replace(world, budget=budget, terms=terms)) for what, world in named.items()]


def _imported() -> World:
    """A machine that somebody else bought: it does not have our mark."""
    machine = ModelMachine("m-1", "theirs", "running")
    decision = begin_import(
        instance_id=created().record.id,
        name="test",
        machine=Machine(machine.id, machine.name, machine.word, (HTTP,)),
        webhook_url=None,
        actor="key_1",
        correlation_id="corr",
        now=NOW,
        policy=POLICY,
    )
    return rested(World(NOW, stored(decision.record), machines=(machine,)))


def stored(record: Instance) -> Instance:
    return replace(record, version=1, token="token-1")


def _later(world: World) -> World:
    """So that nothing has changed lately."""
    return wait(world, world.now + POLICY.settle)
