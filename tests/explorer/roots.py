"""Where histories begin: an instance that was just asked for, one that runs, was stopped, or was imported."""

from dataclasses import replace
from datetime import timedelta

from functions.shared.domain.instance.commands import begin_import
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.limits import Limits
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.reclaim import OnReclaim, ReclaimAction
from functions.shared.domain.instance.record import Instance, Spec
from functions.shared.domain.instance.status import Status
from tests.explorer.fair import asked, next_move, rested
from tests.explorer.moves import wait
from tests.explorer.run import LIMITS
from tests.explorer.world import POLICY, Budget, Message, ModelMachine, Terms, World
from tests.unit.builders import HTTP, NOW, created, new_spec

Roots = list[tuple[str, World]]
AS_PROMISED = Terms()
SPECS = {
    "plain": new_spec(),
    "kept on failure": new_spec(keep_on_failure=True),
    "with a health check": new_spec(health_check=HealthCheck()),
    "restarted": new_spec(on_reclaim=OnReclaim(ReclaimAction.RESTART, timedelta(minutes=10))),
    "replaced": new_spec(
        on_reclaim=OnReclaim(ReclaimAction.REPLACE, timedelta(minutes=10), 3, timedelta(minutes=1))
    ),
}


def roots(spec: Spec, budget: Budget, terms: Terms = AS_PROMISED) -> Roots:
    fresh = World(NOW, stored(replace(created().record, spec=spec)), messages=(Message(NOW),))
    running = _later(rested(fresh))
    stopped = replace(_later(rested(asked(running, "stop"))), asked=frozenset())
    named = {"it is asked for": fresh, "it runs": running, "it was stopped": stopped}
    named["it was imported"] = _later(_imported())
    return [(what, replace(world, budget=budget, terms=terms)) for what, world in named.items()]


def limited_roots(budget: Budget, limits: Limits = LIMITS) -> Roots:
    """A clock ends it; there may be time to say otherwise."""
    fresh = World(NOW, stored(replace(created().record, limits=limits)), messages=(Message(NOW),))
    running = fresh
    while running.record.status is not Status.RUNNING:
        running = next_move(running)
    about_to, stopping = running, running
    while stopping.record.status is not Status.STOPPING:
        about_to, stopping = stopping, next_move(stopping)
    named = {
        "it runs, limited": running,
        "a limit is about to stop it": about_to,
        "a limit stops it": stopping,
    }
    return [(what, replace(world, budget=budget, limited=True)) for what, world in named.items()]


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
