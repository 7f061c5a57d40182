"""The applications inside the machines: what each answers, and how many requests are open at once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from local.novita.answers import Answer
from local.novita.world import World

ANY = "*"
NOT_LISTENING = Answer(status=502, body="502 Bad Gateway")
OK = Answer(body="ok")


def answer_of(world: World, id_: str, port: str) -> Answer:
    """Novita's gateway answers for an application that does not listen yet, or not any more."""
    set_by_hand = _set_answer(world, id_, port)
    machine = world.machines.get(id_)
    now = world.clock.now()
    since = machine.running_since(now) if machine else None
    if (
        not machine
        or since is None
        or not machine.listens_on(port)
        or now < since + set_by_hand.after_seconds
    ):
        return NOT_LISTENING
    return set_by_hand


def _set_answer(world: World, id_: str, port: str) -> Answer:
    places = (f"{id_}/{port}", f"{id_}/{ANY}", f"{ANY}/{port}", f"{ANY}/{ANY}")
    return next((world.app_answers[place] for place in places if place in world.app_answers), OK)


@dataclass
class AppStats:
    open: int = 0
    max_open: int = 0
    requests: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def one_more(self, id_: str, port: str) -> Iterator[None]:
        self.requests[f"{id_}/{port}"] += 1
        self.open += 1
        self.max_open = max(self.max_open, self.open)
        try:
            yield
        finally:
            self.open -= 1

    def shown(self) -> dict[str, Any]:
        return {
            "open": self.open,
            "maxOpen": self.max_open,
            "total": self.requests.total(),
            "byPort": dict(self.requests),
        }
