"""One call to Novita's API, and what can come of sending it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from typing import Any

from functions.shared.adapters.novita.gate import Circuit
from functions.shared.domain import reasons


class Repeat(Enum):
    FREELY = auto()  # reads, and actions that may be asked twice
    IF_UNSENT = auto()  # only where Novita cannot have heard it
    NEVER = auto()


@dataclass(frozen=True)
class Call:
    what: str  # "start machine 8097f1658f3e6ad1": completes "Novita refused to ..."
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = field(default=None, repr=False)
    circuit: Circuit = "reads"
    repeat: Repeat = Repeat.FREELY
    must_pass: bool = False  # goes out while the circuit is open, and uses the slots kept for it
    machine_id: str = ""  # whose absence a not-found means
    template_id: str = ""
    image_auth_by_id: bool = False
    slot_wait: float = inf  # seconds that it waits for a slot at most, of all that its caller has

    @property
    def buys(self) -> bool:
        return self.circuit == "buys"

    @property
    def harmless_twice(self) -> bool:
        return self.repeat is Repeat.FREELY

    @property
    def acts(self) -> bool:
        return self.circuit == "actions"


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any = field(default=None, repr=False)  # parsed JSON; None where it is none
    retry_after: float | None = None

    @property
    def fine(self) -> bool:
        return 200 <= self.status < 300

    @property
    def refusal(self) -> bool:
        return 400 <= self.status < 500

    @property
    def error(self) -> Mapping[str, Any]:
        return self.body if isinstance(self.body, dict) else {}

    @property
    def reason(self) -> str:
        return reasons.word(self.error.get("reason"))

    @property
    def text(self) -> str:
        """Novita's own words: quoted only through quoting.quoted."""
        said = (self.error.get(key) for key in ("message", "error", "title"))
        return next((text for text in said if isinstance(text, str) and text), "")


@dataclass(frozen=True)
class Lost:
    """No answer. `sent` is False only where Novita cannot have heard a word."""

    timed_out: bool
    sent: bool
