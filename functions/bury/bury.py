"""Keeping a dead letter with its reason, and failing the instance that stands still because of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from functions.shared.adapters.counts import Counts
from functions.shared.adapters.dead_letters import DeadLetters
from functions.shared.adapters.instances import Instances
from functions.shared.advance import Advance
from functions.shared.domain.dead_letter import UNKNOWN, DeadLetter, read_letter, unsaid
from functions.shared.domain.decide import decide
from functions.shared.domain.decision import Policy, left_to_its_worker
from functions.shared.domain.instance import Queue
from functions.shared.domain.observation import Died
from functions.shared.log import correlated, logger
from functions.shared.metrics import DEAD_LETTERS, measure


@dataclass(frozen=True)
class Bury:
    letters: DeadLetters
    instances: Instances
    advance: Advance
    counts: Counts
    policy: Policy
    clock: Callable[[], datetime]
    dead_queue_urls: Mapping[str, str]
    attempts: int  # how often a message is tried before it comes here

    def __call__(self, message_id: str, dead_queue_arn: str, body: str) -> None:
        """The same letter may come twice, the second time because the first was not finished with."""
        failure = self.letters.noted(message_id) or unsaid(self.attempts, self.clock())
        letter = read_letter(message_id, self._queue(dead_queue_arn), body, failure)
        about = {"instance_id": letter.instance_id, "delivery_id": letter.delivery_id}
        with correlated(letter.correlation_id, **{name: id_ for name, id_ in about.items() if id_}):
            if self.letters.add(letter):
                self.counts.add(letter.queue, failed=1)
                measure(DEAD_LETTERS, by=letter.queue)
                logger.error("dead letter", queue=letter.queue, id=letter.id, reason=failure.fault.message)
            if letter.stops:
                self._fail(letter, letter.stops)

    def _queue(self, dead_queue_arn: str) -> str:
        """The queue whose dead letters these are: an ARN and an address end in the same name."""
        name = dead_queue_arn.rpartition(":")[2]
        urls = self.dead_queue_urls.items()
        return next((queue for queue, url in urls if url.rpartition("/")[2] == name), UNKNOWN)

    def _fail(self, letter: DeadLetter, queue: Queue) -> None:
        record = self.instances.get(letter.instance_id or "")
        if record is None or record.token != letter.token:
            return  # whatever it was to do has been done
        decision = decide(record, Died(queue, letter.failure.fault), self.clock(), self.policy)
        if decision.events:
            self.advance.store(left_to_its_worker(record, decision))
