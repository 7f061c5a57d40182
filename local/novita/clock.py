"""The simulator's time: real with an offset, or virtual, which stands still until it is advanced."""

import time
from dataclasses import dataclass
from typing import Literal

Mode = Literal["real", "virtual"]


@dataclass
class Clock:
    mode: Mode = "real"
    offset: float = 0.0
    stands_at: float = 0.0

    def now(self) -> float:
        return self.stands_at if self.mode == "virtual" else time.time() + self.offset

    def advance(self, seconds: float) -> None:
        self.set(self.now() + seconds)

    def set(self, now: float) -> None:
        self.stands_at = now
        self.offset = now - time.time()

    def run(self, mode: Mode) -> None:
        self.set(self.now())
        self.mode = mode
