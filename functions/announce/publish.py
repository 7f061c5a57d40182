"""Telling one event: to the topic, to the instance's webhook, and then noting that it was told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

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
        told = announce_event(items.read_event(item)) if "event" in item else announce_other(item)
        with correlated(told.correlation_id, event_id=told.id):
            try:
                self._tell(told)
                self._note(item)
            except (ClientError, BotoCoreError) as error:
                logger.error("event not announced", error=type(error).__name__, type=told.type)

    def _tell(self, told: Announcement) -> None:
        self.topic.publish(told)
        if told.webhook_url:
            delivery_id = self.deliveries.add(told, self.clock())
            self.queues.send("webhook", DeliveryMessage(delivery_id, 1, told.correlation_id))
        logger.info("event announced", type=told.type, webhook=bool(told.webhook_url))

    def _note(self, item: Item) -> None:
        try:
            self.table.update(item["pk"], item["sk"], "REMOVE due, dueAt", condition="attribute_exists(pk)")
        except ConditionFailed:
            return  # outlived its retention meanwhile
