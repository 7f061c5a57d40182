"""Faults that are waiting for a call: which call one meets, how often, and what it then does."""

import random
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field, field_validator

from local.novita.wire import Wire

Kind = Literal["status", "timeout", "disconnect", "garbage", "slow"]


class Match(Wire):
    """What is given must hold; `path` is how the path ends, `query` and `body` occur in theirs."""

    method: str = ""
    path: str = ""
    query: str = ""
    body: str = ""

    def meets(self, method: str, path: str, query: str, body: str) -> bool:
        return (
            self.method.upper() in ("", method.upper())
            and path.endswith(self.path)
            and self.query in query
            and self.body in body
        )


class FaultBody(Wire):
    match: Match = Match()
    kind: Kind
    status: int | None = Field(default=None, ge=200, le=599)
    reason: str | None = None
    message: str = "simulated fault"
    retry_after: int | str | None = None
    delay_ms: int | None = Field(default=None, ge=0)
    commit: bool = False
    times: int | None = Field(default=None, ge=1)
    rate: float = Field(default=1, gt=0, le=1)
    seed: int = 0
    # For garbage: html, truncated, cut, list, empty, or any other text as it is; or so many bytes.
    body: str = "html"
    bytes: int | None = Field(default=None, ge=0, le=1_000_000_000)
    content_type: str | None = None

    @field_validator("retry_after", "content_type", "reason")
    @classmethod
    def _one_line(cls, value: int | str | None) -> int | str | None:
        if isinstance(value, str) and set("\r\n\0") & set(value):
            raise ValueError("has a line break")
        return value


@dataclass
class Fault:
    id: str
    what: FaultBody
    met: int = 0
    applied: int = 0
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.what.seed)

    def take(self) -> bool:
        """Whether it strikes this time; a draw is made for every call that it meets."""
        if self.what.times is not None and self.applied >= self.what.times:
            return False
        self.met += 1
        strikes = self.what.rate >= 1 or self.dice.random() < self.what.rate
        self.applied += strikes
        return strikes

    def shown(self) -> dict[str, Any]:
        return {"id": self.id, **self.what.sent(), "met": self.met, "applied": self.applied}


@dataclass
class Faults:
    waiting: list[Fault] = field(default_factory=list)
    made: int = 0

    def add(self, what: FaultBody) -> Fault:
        self.made += 1
        fault = Fault(f"fault-{self.made}", what)
        self.waiting.append(fault)
        return fault

    def clear(self, id_: str | None = None) -> int:
        kept = [fault for fault in self.waiting if id_ not in (None, fault.id)]
        cleared = len(self.waiting) - len(kept)
        self.waiting = kept
        return cleared

    def take(self, method: str, path: str, query: str, body: str) -> Fault | None:
        """The first that meets the call and strikes."""
        meeting = (fault for fault in self.waiting if fault.what.match.meets(method, path, query, body))
        return next((fault for fault in meeting if fault.take()), None)
