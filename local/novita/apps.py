"""The applications inside the machines: what each answers, and how many requests are open at once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from local.novita.canned_response import CannedResponse
from local.novita.state import SimulatorState

ANY = "*"
NOT_LISTENING = CannedResponse(status=502, body="502 Bad Gateway")
OK = CannedResponse(body="ok")
LOGS = {"2223": "pulling image\nstarting container\n", "2224": "the application says hello\n"}


def app_response(state: SimulatorState, id_: str, port: str) -> CannedResponse:
    """Novita's gateway answers for an application that does not listen yet, or not any more."""
    override = _override(state, id_, port)
    machine = state.machines.get(id_)
    now = state.clock.now()
    since = machine.running_since(now) if machine else None
    if machine and port in LOGS and (since is not None or port == "2223"):
        return override if override is not OK else CannedResponse(body=LOGS[port])
    if not machine or since is None or not machine.listens_on(port) or now < since + override.after_seconds:
        return NOT_LISTENING
    return override


def _override(state: SimulatorState, id_: str, port: str) -> CannedResponse:
    places = (f"{id_}/{port}", f"{id_}/{ANY}", f"{ANY}/{port}", f"{ANY}/{ANY}")
    return next((state.app_responses[place] for place in places if place in state.app_responses), OK)


@dataclass
class AppStats:
    open: int = 0
    max_open: int = 0
    requests: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def count_request(self, id_: str, port: str) -> Iterator[None]:
        self.requests[f"{id_}/{port}"] += 1
        self.open += 1
        self.max_open = max(self.max_open, self.open)
        try:
            yield
        finally:
            self.open -= 1

    def to_json(self) -> dict[str, Any]:
        return {
            "open": self.open,
            "maxOpen": self.max_open,
            "total": self.requests.total(),
            "byPort": dict(self.requests),
        }
