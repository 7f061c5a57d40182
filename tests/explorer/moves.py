"""Everything that may happen next in a world, each with the world after it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from functions.shared.domain.errors import CallerError
from tests.explorer.promises import Broken, check_state
from tests.explorer.replay import Suspended
from tests.explorer.run import COMMANDS, LIMIT_COMMANDS, Run
from tests.explorer.small_novita import FAULTS, OF_ITSELF
from tests.explorer.world import (
    LIFETIME,
    OURS,
    POLICY,
    TICK,
    KeyState,
    Message,
    ModelMachine,
    Weather,
    Worker,
    World,
)

GRACE = timedelta(seconds=15)  # how late a step is before the sweep sends it again
Choice = tuple[str, Callable[[], World | None]]  # in words; None where it is no choice after all


@dataclass(frozen=True)
class Move:
    """What happens, and the world after it or the promise that it breaks."""

    what: str
    world: World | None
    broken: str = ""


def moves(world: World) -> Iterator[Move]:
    """A function that begins or goes on does so to its end, or to where it dies or is interrupted."""
    for what, make in choices(world):
        yield from _made((what,), make)


def _made(told: tuple[str, ...], make: Callable[[], World | None]) -> Iterator[Move]:
    try:
        after = make()
        if after is None:
            return
        check_state(after)
    except Broken as broken:
        yield Move(_sentence(told), None, str(broken))
        return
    if after.running is None:
        yield Move(_sentence(told), after)
        return
    for what, following in _function_goes_on(after, after.running):
        yield from _made((*told, what), following)


def _sentence(told: tuple[str, ...]) -> str:
    return f"{told[0]}: {', '.join(told[1:])}" if len(told) > 1 else told[0]


def choices(world: World) -> Iterator[Choice]:
    yield from _functions_begin(world)
    yield from _novita_does(world)
    yield from _users_ask(world)
    yield from _time_passes(world)
    yield from _messages_suffer(world)


# Functions


def _function_goes_on(world: World, worker: Worker) -> Iterator[Choice]:
    call = worker.call
    assert call is not None
    about = f"{call.kind} {call.machine_id}".strip()
    yield about, partial(go_on, world, worker, "ok")
    if world.budget.faults:
        paid = world.spend(faults=1)
        for fault in FAULTS.get(call.kind, ()):
            yield f"{about} ({fault})", partial(go_on, paid, worker, fault)
        yield f"DIES before {about}", partial(_die, paid, worker)
        if world.parked is None:
            yield f"INTERRUPTED before {about}", partial(_park, paid, worker)


def _park(world: World, worker: Worker) -> World:
    return replace(world, running=None, parked=worker)


def go_on(world: World, worker: Worker, outcome: str | None) -> World:
    run = Run(replace(world, running=None), worker, outcome)
    try:
        run()
    except Suspended as suspended:
        going = replace(worker, learned=tuple(run.learned), call=suspended.call)
        return replace(run.world, running=going)
    return run.world


def begin(world: World, kind: str, token: str = "", *, shares_list: bool = False) -> World:
    world = world.ticked()
    return go_on(world, Worker(kind, world.now, token, shares_list), None)


def _die(world: World, worker: Worker) -> World:
    """Its message comes back, which does something if its token is still the current one."""
    world = replace(world, running=None, parked=None if world.parked is worker else world.parked)
    if worker.kind == "step" and worker.token == world.record.token:
        return replace(world, messages=(*world.messages, Message(world.now))[-2:])
    return world


def _functions_begin(world: World) -> Iterator[Choice]:
    if world.parked:
        resumed = replace(world, running=world.parked, parked=None)
        yield f"the interrupted {world.parked.kind} goes on", lambda: resumed
    due = [message for message in world.messages if message.visible_at <= world.now]
    if due:
        left = list(world.messages)
        left.remove(due[0])
        taken = replace(world, messages=tuple(left))
        yield "a message is delivered", partial(begin, taken, "step", world.record.token)
        if world.budget.faults and world.record.machine.id:
            yield (
                "a message is delivered, while many wait",
                partial(begin, taken.spend(faults=1), "step", world.record.token, shares_list=True),
            )
    if world.parked is None or world.parked.kind == "step":
        yield "a sweep begins", partial(begin, world, "sweep")
        yield "somebody reads it", partial(begin, world, "read")
    if overdue(world):
        yield "the sweep sends a message", partial(resend, world)


def overdue(world: World) -> bool:
    due = world.record.next_check_at
    return due is not None and due + GRACE <= world.now and not world.messages


def resend(world: World) -> World:
    return replace(world, messages=(Message(world.now),))


# Novita


def _novita_does(world: World) -> Iterator[Choice]:
    for machine in world.live():
        if after := OF_ITSELF.get(machine.word):
            yield f"{machine.id} is {after}", partial(become, world, machine, after)
        if machine.hidden_since:
            yield f"{machine.id} is shown again", partial(reveal, world, machine)
        if machine.crowded:
            roomy = replace(machine, crowded=False)
            yield f"there is room for {machine.id} again", partial(world.ticked().with_machine, roomy)
    if world.weather is not Weather.FINE:
        yield "Novita is itself again", partial(turn, world.ticked(), Weather.FINE)
    if not world.budget.faults:
        return
    paid = world.ticked().spend(faults=1)
    if world.weather is Weather.FINE:
        for weather in Weather:
            if weather is not Weather.FINE:
                yield f"Novita: {weather}", partial(turn, paid, weather)
    for machine in world.live():
        if machine.account != OURS:
            continue
        if machine.hidden_since is None:
            hidden = replace(machine, hidden_since=paid.now)
            yield f"{machine.id} is hidden, and lives", partial(paid.with_machine, hidden)
        if machine.word == "running":
            yield f"{machine.id} is stopped by Novita", partial(become, paid, machine, "exited")
            if world.record.spec.on_reclaim:
                yield from _reclaims(paid, machine)
            yield f"{machine.id} is moved by Novita", partial(become, paid, machine, "migrating")
        if machine.word in ("running", "exited"):
            yield f"{machine.id} is removed at Novita by others", partial(become, paid, machine, "removed")


def _reclaims(paid: World, machine: ModelMachine) -> Iterator[Choice]:
    full = replace(machine, crowded=True)
    yield f"{machine.id} is taken away for another", partial(become, paid, full, "exited")
    if not machine.notified:
        notified = replace(machine, notified=True)
        yield f"{machine.id} is to be taken away", partial(paid.with_machine, notified)


def turn(world: World, weather: Weather) -> World:
    """Every change of the key is a new version of the secret."""
    if Weather.OTHER_ACCOUNT in (world.weather, weather):
        world = replace(world, key=KeyState(world.key.version + 1))
    return replace(world, weather=weather)


def become(world: World, machine: ModelMachine, word: str) -> World:
    return world.ticked().with_machine(replace(machine, word=word))


def reveal(world: World, machine: ModelMachine) -> World:
    return world.ticked().with_machine(replace(machine, hidden_since=None))


# Users


def _users_ask(world: World) -> Iterator[Choice]:
    if not world.budget.requests:
        return
    for command in (*COMMANDS, *(LIMIT_COMMANDS if world.limited else ())):
        yield f"a user asks: {command}", partial(ask, world, command)
    if world.record.limits.idle_stop_after:
        yield "a user notes a use", partial(use, world)


def use(world: World) -> World:
    world = world.ticked().spend(requests=1)
    return replace(world, used_at=world.now)


def ask(world: World, command: str) -> World | None:
    world = world.ticked().spend(requests=1)
    run = Run(world, Worker(command, world.now), None, whole=True)
    try:
        run.operate((COMMANDS | LIMIT_COMMANDS)[command])
    except CallerError:
        return None
    if run.world.record is world.record:
        return None
    return replace(run.world, asked=run.world.asked | {command})


# Time


def _time_passes(world: World) -> Iterator[Choice]:
    for what, until in _moments(world):
        if until > world.now:
            yield f"time passes: {what}", partial(wait, world, until)


def _moments(world: World) -> Iterator[tuple[str, datetime]]:
    record = world.record
    if record.next_check_at:
        yield "the next step is due", record.next_check_at
        yield "the next step is overdue", record.next_check_at + GRACE
    if record.deadline_at:
        yield "the deadline has passed", record.deadline_at + TICK
    yield "the settling time", world.now + POLICY.settle + TICK
    if record.machine.last_missed_at:
        yield "more than an hour", world.now + timedelta(hours=1, seconds=1)


def wait(world: World, until: datetime) -> World:
    """A function that is interrupted for longer than it may live is no more."""
    world = replace(world, now=until)
    if world.parked and world.parked.began + LIFETIME < until:
        return _die(world, world.parked)
    return world


# Messages


def _messages_suffer(world: World) -> Iterator[Choice]:
    if not world.budget.faults or not world.messages:
        return
    paid = world.spend(faults=1)
    yield "the message is lost", lambda: replace(paid, messages=world.messages[1:])
    if len(world.messages) == 1:
        yield "the message is doubled", lambda: replace(paid, messages=world.messages * 2)
    if world.messages[0].visible_at <= world.now:
        yield "the message fails for the last time", partial(_dead_letter, paid)


def _dead_letter(world: World) -> World | None:
    world = world.ticked()
    run = Run(replace(world, messages=world.messages[1:]), Worker("dead letter", world.now), None, whole=True)
    run.dead_letter()
    return run.world
