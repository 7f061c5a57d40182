"""Breadth first over all histories of one instance, so that the first broken promise has the shortest one."""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from functions.shared.platform.observability import logger
from tests.explorer.canonical import key
from tests.explorer.fair import Ends
from tests.explorer.moves import Move, moves
from tests.explorer.promises import Broken
from tests.explorer.world import Budget, World


@dataclass(frozen=True)
class Bounds:
    """Where a search ends, if it does not come to the end of all states before."""

    depth: int = 10**9
    states: int = 10**9
    seconds: float = 10**9


@dataclass(frozen=True)
class Report:
    states: int
    moves: int
    depth: int  # all histories of so many moves were tried
    exhausted: bool  # and all longer ones lead to states that were seen
    seconds: float
    broken: str = ""
    history: tuple[str, ...] = ()

    def __str__(self) -> str:
        deep = f"all states (depth {self.depth})" if self.exhausted else f"depth {self.depth}"
        seen = f"{self.states} states, {self.moves} moves, {deep}, {self.seconds:.0f} s"
        if not self.broken:
            return f"{seen}: every promise holds"
        told = "\n".join(f"  {number:3}. {what}" for number, what in enumerate(self.history, 1))
        return f"{seen}. BROKEN: {self.broken}\n{told}"


@dataclass(frozen=True)
class Node:
    number: int
    depth: int
    world: World


class Search:
    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._began = time.monotonic()
        self._seen: dict[int, list[Budget]] = {}
        self._came_from: list[tuple[int, str]] = []
        self._frontier: deque[Node] = deque()
        self._moves = 0
        self._ends = Ends()
        logger.setLevel("CRITICAL")

    def run(self, roots: Iterable[tuple[str, World]]) -> Report:
        for what, world in roots:
            self._add(-1, what, 0, world)
        depth = 0
        while self._frontier:
            depth = self._frontier[0].depth
            if self._at_its_bounds(depth):
                return self._report(depth)
            node = self._frontier.popleft()
            for move in moves(node.world):
                self._moves += 1
                if broken := self._follow(node, move):
                    return broken
        return self._report(depth, exhausted=True)

    def _at_its_bounds(self, depth: int) -> bool:
        bounds, spent = self._bounds, time.monotonic() - self._began
        return depth >= bounds.depth or len(self._came_from) >= bounds.states or spent >= bounds.seconds

    def _follow(self, node: Node, move: Move) -> Report | None:
        if move.world is None:
            return self._report(node.depth, move.broken, (*self._history(node.number), move.what))
        number = self._add(node.number, move.what, node.depth + 1, move.world)
        if number is None:
            return None
        try:
            self._ends.check(move.world)
        except Broken as broken:
            history = (*self._history(number), *self._ends.history)
            return self._report(node.depth, str(broken), history)
        return None

    def _add(self, parent: int, what: str, depth: int, world: World) -> int | None:
        """Its number; None if such a state was seen before, with no less still to happen."""
        before, budget = self._seen.setdefault(key(world), []), world.budget
        if any(one.faults >= budget.faults and one.requests >= budget.requests for one in before):
            return None
        before.append(budget)
        self._came_from.append((parent, what))
        number = len(self._came_from) - 1
        self._frontier.append(Node(number, depth, world))
        return number

    def _history(self, number: int) -> list[str]:
        found: list[str] = []
        while number >= 0:
            number, what = self._came_from[number]
            found.append(what)
        return found[::-1]

    def _report(
        self, depth: int, broken: str = "", history: Iterable[str] = (), *, exhausted: bool = False
    ) -> Report:
        spent = time.monotonic() - self._began
        return Report(len(self._came_from), self._moves, depth, exhausted, spent, broken, tuple(history))


def walk(roots: Sequence[tuple[str, World]], length: int, random: Random) -> Report:
    """One long history, whatever comes: deeper than a search can go."""
    logger.setLevel("CRITICAL")
    what, world = random.choice(roots)
    told, ends, began = [what], Ends(), time.monotonic()

    def report(broken: str = "") -> Report:
        spent = time.monotonic() - began
        return Report(len(told), len(told) - 1, len(told) - 1, False, spent, broken, tuple(told))

    for _ in range(length):
        move = random.choice(list(moves(world)))
        told.append(move.what)
        if move.world is None:
            return report(move.broken)
        world = move.world
    try:
        ends.check(world)
    except Broken as broken:
        told += ends.history
        return report(str(broken))
    return report()
