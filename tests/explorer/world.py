"""All there is to one instance at one moment, as a value that can be forked: record, Novita, functions."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from functions.shared.domain.instance.decision import Policy
from functions.shared.domain.instance.record import Instance, Purchase

POLICY = Policy(vanished_after=timedelta(minutes=62))  # longer than boots; a day is only more of the same
TICK = timedelta(seconds=0.05)  # what every call takes, so that no two things happen at once
LIFETIME = timedelta(seconds=90)  # of a function
DEPLOYMENT = "expl0rer"
OURS = "ours"
ANOTHER = "another account"


class Weather(StrEnum):
    """How Novita answers while it lasts."""

    FINE = "fine"
    ROUTES_LOST = "its gateway has lost its routes: 404 without a reason"
    OTHER_ACCOUNT = "our key is that of another account"
    LIST_EMPTY = "its list is empty"
    LIST_OF_YESTERDAY = "its list is that of yesterday"
    LIST_LAGS = "its list lags"
    CIRCUIT_OPEN = "it failed so often that the circuits are open"


@dataclass(frozen=True)
class ModelMachine:
    """A machine at Novita. What the service does not know of it is for the promises."""

    id: str
    name: str
    word: str = "creating"  # Novita's own; "removed" is gone
    account: str = OURS
    notified: bool = False  # it will be taken away: only a list says so
    crowded: bool = False  # there is no room to start it
    hidden_since: datetime | None = None  # lives, and neither get nor list shows it
    denied_since: datetime | None = None  # since when Novita has said that there is no such machine
    denied_at: datetime | None = None  # and when it last did
    denied_for: timedelta = timedelta()  # from the first to the last time, at the longest
    missed_for: timedelta = timedelta()  # the same without gaps of more than an hour
    unfound: int = 0  # looks for its name that did not show it, one after the other

    @property
    def lives(self) -> bool:
        return self.word != "removed"


@dataclass(frozen=True)
class Message:
    """A message of the record's current token; those of older tokens do nothing, so they are not kept."""

    visible_at: datetime


@dataclass(frozen=True)
class KeyState:
    """What is stored of a version of the Novita key. Every change of the key is a new version."""

    version: int = 1
    first_used_at: int | None = None  # in milliseconds
    proven: bool = False


@dataclass(frozen=True)
class HeldKey:
    """The key as a function has read it, which it uses to its end."""

    state: KeyState
    account: str = OURS


@dataclass(frozen=True)
class Call:
    """What a function is about to do that others see, or that depends on them."""

    kind: str
    machine_id: str = ""
    name: str = ""
    value: Any = None  # what it writes
    key: HeldKey = HeldKey(KeyState())  # that Novita is asked with


@dataclass(frozen=True)
class Worker:
    """A function under way: what it has learned is all its memory, so that it can be run again up to here."""

    kind: str  # step, sweep, read
    began: datetime
    token: str = ""  # of the message that it was called with
    shares_list: bool = False  # many others wait, so that looks come from the shared list
    learned: tuple[Any, ...] = ()
    call: Call | None = None  # the one that it makes next


@dataclass(frozen=True)
class Budget:
    """What may still happen in this history."""

    faults: int  # of Novita, the network, functions and queues
    requests: int  # of users


@dataclass(frozen=True)
class Terms:
    """What a machine's absence may be believed from."""

    missing_for: timedelta = POLICY.vanished_after  # until an instance ends that nobody asked to end
    without_reason: bool = False  # a 404 without a reason is a not-found
    of_another_account: bool = False  # another account's key is trusted like ours


@dataclass(frozen=True)
class World:
    now: datetime
    record: Instance
    purchases: tuple[Purchase, ...] = ()
    machines: tuple[ModelMachine, ...] = ()
    weather: Weather = Weather.FINE
    messages: tuple[Message, ...] = ()
    running: Worker | None = None
    parked: Worker | None = None  # interrupted; it goes on later, if it lives so long
    budget: Budget = Budget(0, 0)
    key: KeyState = KeyState()
    missing_told: bool = False
    asked: frozenset[str] = frozenset()  # by users or clocks, and "failure" once it has failed
    terms: Terms = Terms()
    limited: bool = False  # limits are among what users ask for
    used_at: datetime | None = None  # as callers have noted it

    def machine(self, machine_id: str) -> ModelMachine | None:
        return next((one for one in self.machines if one.id == machine_id), None)

    def named(self, name: str) -> ModelMachine | None:
        return next((one for one in self.machines if one.name == name), None)

    def with_machine(self, machine: ModelMachine) -> "World":
        return replace(
            self, machines=tuple(machine if one.id == machine.id else one for one in self.machines)
        )

    def purchase(self, number: int) -> Purchase | None:
        return next((one for one in self.purchases if one.number == number), None)

    def with_purchase(self, purchase: Purchase) -> "World":
        others = [one for one in self.purchases if one.number != purchase.number]
        return replace(self, purchases=tuple(sorted((*others, purchase), key=lambda one: one.number)))

    @property
    def account(self) -> str:
        """Of the key that is stored."""
        return ANOTHER if self.weather is Weather.OTHER_ACCOUNT else OURS

    def live(self) -> list[ModelMachine]:
        return [one for one in self.machines if one.lives]

    def ticked(self) -> "World":
        return replace(self, now=self.now + TICK)

    def spend(self, faults: int = 0, requests: int = 0) -> "World":
        left = Budget(self.budget.faults - faults, self.budget.requests - requests)
        return replace(self, budget=left)
