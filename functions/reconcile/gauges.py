"""How things stand, told once in a sweep: alarms need states, and events alone make none."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from botocore.exceptions import BotoCoreError, ClientError

from functions.shared.adapters.circuits import Circuits
from functions.shared.adapters.dead_letters import DeadLetters
from functions.shared.domain.findings import Kind, Outcome
from functions.shared.log import logger
from functions.shared.metrics import CIRCUITS_OPEN, DEAD_LETTERS_KEPT, MACHINES, ORPHANS, measure


@dataclass(frozen=True)
class Gauges:
    circuits: Circuits
    letters: DeadLetters
    queues: Iterable[str]
    clock: Callable[[], datetime]

    def read(self, outcome: Outcome) -> None:
        """Never worth a failure. What Novita did not tell is left out: no number is not the number 0."""
        measure(MACHINES, outcome.known)
        if outcome.fault is None:
            measure(ORPHANS, sum(1 for _ in outcome.of(Kind.ORPHAN)))
        try:
            for circuit in self.circuits.states():
                measure(CIRCUITS_OPEN, circuit.refuses(self.clock()), by=circuit.name)
            measure(DEAD_LETTERS_KEPT, sum(map(self.letters.count, self.queues)))
        except (ClientError, BotoCoreError) as error:
            logger.warning("not all gauges read", error=type(error).__name__)
