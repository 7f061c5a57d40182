"""Telling one event: to the instance's webhook, to the topic, and then noting that it was told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functions.shared.adapters import items
from functions.shared.adapters.deliveries import Deliveries
from functions.shared.adapters.queues import Queues
from functions.shared.adapters.table import ConditionFailed, Item, Table, unmarshal
from functions.shared.adapters.topic import Topic
from functions.shared.domain.announcement import Announcement, announce_event, announce_other
from functions.shared.domain.messages import DeliveryMessage
from functions.shared.log import correlated, logger


@dataclass(frozen=True)
class Publish:
    table: Table
    topic: Topic
    deliveries: Deliveries
    queues: Queues
    clock: Callable[[], datetime]

    def __call__(self, image: Mapping[str, Any]) -> None:
        """A failure is left to the sweep, which touches the event so that the stream brings it again:
        one event that cannot be told must not hold up those behind it."""
        item = unmarshal(image)
        if item.get("kind") != "event" or item.get("due") != "event":
            return
        with correlated(_correlation(item)):
            try:
                self._tell(item)
            except Exception as error:  # noqa: BLE001  # whatever it is, the event is still due
                logger.exception("event not announced", key=item.get("sk"), error=type(error).__name__)

    def _tell(self, item: Item) -> None:
        told = announce_event(items.read_event(item)) if "event" in item else announce_other(item)
        with correlated(told.correlation_id, event_id=told.id):
            if told.webhook_url:
                self._send(told)
            self.topic.publish(told)
            self._note(item)
            logger.info("event announced", type=told.type, webhook=bool(told.webhook_url))

    def _send(self, told: Announcement) -> None:
        """Before the topic, so that receivers do not wait for it; a second time changes nothing."""
        delivery_id = self.deliveries.add(told, self.clock())
        self.queues.send("webhook", DeliveryMessage(delivery_id, 1, told.correlation_id))

    def _note(self, item: Item) -> None:
        try:
            self.table.update(item["pk"], item["sk"], "REMOVE due, dueAt", condition="attribute_exists(pk)")
        except ConditionFailed:
            return  # outlived its retention meanwhile


def _correlation(item: Item) -> str:
    """Read before anything that may fail, so that the failure carries it too."""
    event = item.get("event")
    return str(event.get("correlation_id", "") if isinstance(event, dict) else item.get("correlationId", ""))
