"""A world in which nothing goes wrong any more: it must come to rest, with its books balanced."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from tests.explorer.canonical import key
from tests.explorer.moves import GRACE, ask, become, begin, go_on, overdue, resend, reveal, turn, wait
from tests.explorer.promises import Broken, check_rest
from tests.explorer.small_novita import OF_ITSELF
from tests.explorer.world import POLICY, Weather, World

_MOST_MOVES = 300
_QUIET_SWEEPS = 3  # that find nothing to do
_SWEEP = "a sweep"

Fair = tuple[str, Callable[[], World]]


class Ends:
    """Remembers which worlds are known to end well, since most lead into the same."""

    def __init__(self) -> None:
        self._good: set[int] = set()
        self.history: list[str] = []

    def check(self, world: World) -> None:
        path: list[int] = []
        self.history = ["FROM HERE ON nothing goes wrong"]
        for _ in range(_MOST_MOVES):
            found = key(world)
            if found in self._good:
                break
            path.append(found)
            if self._rests(world):
                check_rest(world)
                break
            world = self._go_on(world)
        else:
            self.history[12:] = ["and so on"]
            raise Broken("it never comes to rest")
        self._good.update(path)

    def _rests(self, world: World) -> bool:
        """Several sweeps in a row, well apart, find nothing to do."""
        if world.running or world.parked:
            return False
        swept = world
        for _ in range(_QUIET_SWEEPS):
            what, happen = _next(swept)
            if what != _SWEEP:
                return False
            swept = finished(happen())
            if swept.record.version != world.record.version:
                return False
        return True

    def _go_on(self, world: World) -> World:
        what, happen = _next(world)
        self.history.append(what)
        world = happen()
        while world.running:
            call = world.running.call
            self.history[-1] += f", {call and call.kind} {call and call.machine_id}".rstrip()
            world = go_on(world, world.running, "ok")
        return world


def rested(world: World) -> World:
    ends = Ends()
    while not ends._rests(world):
        world = ends._go_on(world)
    check_rest(world)
    return world


def next_move(world: World) -> World:
    return Ends()._go_on(world)


def asked(world: World, command: str) -> World:
    after = ask(replace(world, budget=replace(world.budget, requests=1)), command)
    assert after is not None
    return after


def finished(world: World) -> World:
    while world.running:
        world = go_on(world, world.running, "ok")
    return world


def _next(world: World) -> Fair:
    return next(_in_turn(world))


def _in_turn(world: World) -> Iterator[Fair]:
    if world.parked:
        yield "the interrupted function goes on", partial(replace, world, running=world.parked, parked=None)
    if world.weather is not Weather.FINE:
        yield "Novita is itself again", partial(turn, world, Weather.FINE)
    for machine in world.live():
        if machine.hidden_since:
            yield f"{machine.id} is shown again", partial(reveal, world, machine)
    for machine in world.live():
        if machine.crowded and not world.record.recovery:
            yield (
                f"there is room for {machine.id}",
                partial(world.with_machine, replace(machine, crowded=False)),
            )
    for machine in world.live():
        if after := OF_ITSELF.get(machine.word):
            yield f"{machine.id} is {after}", partial(become, world, machine, after)
    if world.weather is Weather.FINE and not world.key.proven:
        swept = finished(begin(world, "sweep"))
        if swept.key.proven:
            yield "a sweep proves the key", lambda: swept
        yield "an admin trusts the key", partial(replace, world, key=replace(world.key, proven=True))
    for message in world.messages:
        if message.visible_at <= world.now:
            left = tuple(one for one in world.messages if one is not message)
            taken = replace(world, messages=left)
            yield "a message is delivered", partial(begin, taken, "step", world.record.token)
    if overdue(world):
        yield "the sweep sends a message", partial(resend, world)
    if world.messages:
        yield "time passes", partial(wait, world, min(message.visible_at for message in world.messages))
    if world.record.next_check_at:
        yield "time passes", partial(wait, world, world.record.next_check_at + GRACE)
    yield _SWEEP, partial(begin, wait(world, world.now + POLICY.settle), "sweep")
