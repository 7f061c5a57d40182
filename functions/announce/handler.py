"""Consumer of the table's stream: each new event goes to the topic and to the instance's webhook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError

from functions.shared.domain.delivery.webhooks import Announcement, announce_event, announce_other
from functions.shared.domain.messages import DeliveryMessage
from functions.shared.platform.observability import correlated, logger, metered
from functions.shared.platform.wiring import prepare, wiring
from functions.shared.stores.instances import read_event
from functions.shared.stores.table import ConditionFailed, Item, Table, unmarshal

if TYPE_CHECKING:
    from functions.shared.platform.aws import Queues, Topic
    from functions.shared.platform.invocation import TimeBudget
    from functions.shared.stores.deliveries import Deliveries


@dataclass(frozen=True)
class Announce:
    """A failure is left to the sweep, which touches the event so that the stream brings it again: one event
    that cannot be announced must not hold up those behind it."""

    table: Table
    topic: Topic
    deliveries: Deliveries
    queues: Queues
    clock: Callable[[], datetime]
    budget: TimeBudget

    def __call__(self, images: Iterable[Mapping[str, Any]]) -> None:
        """The topic first: an event that it has may stay due in place of its delivery. A topic that does not
        answer is asked once, and the webhooks of the whole batch go out all the same."""
        items = [item for item in map(unmarshal, images) if item.get("kind") == item.get("due") == "event"]
        published = {_key(item) for item in self._each(items, self._publish, self.budget.may_publish)}
        queued = Counter[str]()
        self._each(items, partial(self._queue_webhooks, queued, published), self.budget.may_announce)

    def _each(
        self,
        items: Sequence[Item],
        work: Callable[[Item, Announcement], None],
        in_time: Callable[[], bool],
    ) -> list[Item]:
        """Those that it was done for. It ends when time is short or AWS does not answer, since the next one
        would wait as long, and the batches behind this one with it."""
        done: list[Item] = []
        for item in items:
            if not in_time():
                break
            error = self._try(item, work)
            if isinstance(error, BotoCoreError):
                break
            if error is None:
                done.append(item)
        else:
            return done
        logger.warning("events left to the sweep", events=len(items) - len(done))
        return done

    def _try(self, item: Item, work: Callable[[Item, Announcement], None]) -> Exception | None:
        with correlated(_correlation(item)):
            try:
                announcement = announce_event(read_event(item)) if "event" in item else announce_other(item)
                with correlated(announcement.correlation_id, event_id=announcement.id):
                    work(item, announcement)
            except Exception as error:  # noqa: BLE001  # whatever it is, the event is still due
                logger.exception("event not announced", key=item.get("sk"), error=type(error).__name__)
                return error
        return None

    def _publish(self, _: Item, announcement: Announcement) -> None:
        self.topic.publish(announcement)
        logger.info("event announced", type=announcement.type, webhook=bool(announcement.webhook_urls))

    def _queue_webhooks(
        self, queued: Counter[str], published: set[tuple[str, str]], item: Item, announcement: Announcement
    ) -> None:
        """Each event of an instance a second after the one before it in the batch: then none has to be put
        off by the webhook function, which keeps the order, and costs a write each time."""
        is_published, covers = _key(item) in published, False
        for url in announcement.webhook_urls:
            alone = is_published and len(announcement.webhook_urls) == 1
            delivery_id, covers = self.deliveries.add(announcement, url, self.clock(), covered=alone)
            message = DeliveryMessage(delivery_id, 1, announcement.correlation_id)
            self.queues.send("webhook", message, queued[announcement.instance_id or ""])
        queued[announcement.instance_id or ""] += 1
        if is_published and not covers:
            self._mark_announced(item)

    def _mark_announced(self, item: Item) -> None:
        try:
            self.table.update(item["pk"], item["sk"], "REMOVE due, dueAt", condition="attribute_exists(pk)")
        except ConditionFailed:
            return  # outlived its retention meanwhile


def _key(item: Item) -> tuple[str, str]:
    return item["pk"], item["sk"]


def _correlation(item: Item) -> str:
    """Read before anything that may fail, so that the failure carries it too."""
    event = item.get("event")
    return str(event.get("correlation_id", "") if isinstance(event, dict) else item.get("correlationId", ""))


prepare("announce")


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    announce = wiring("announce").invocation(context).compose(Announce)
    images = (record.get("dynamodb", {}).get("NewImage") for record in event.get("Records", []))
    announce(filter(None, images))
