"""Consumer of the table's stream: each new event goes to the topic and to the instance's webhook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.shared.domain.delivery.webhooks import Announcement, announce_event, announce_other
from functions.shared.domain.messages import DeliveryMessage
from functions.shared.platform.observability import correlated, logger, metered
from functions.shared.platform.wiring import wiring
from functions.shared.stores.instances import read_event
from functions.shared.stores.table import ConditionFailed, Item, Table, unmarshal

if TYPE_CHECKING:
    from functions.shared.platform.aws import Queues, Topic
    from functions.shared.stores.deliveries import Deliveries


@dataclass(frozen=True)
class Announce:
    table: Table
    topic: Topic
    deliveries: Deliveries
    queues: Queues
    clock: Callable[[], datetime]

    def __call__(self, image: Mapping[str, Any]) -> None:
        """A failure is left to the sweep, which touches the event so that the stream brings it again:
        one event that cannot be announced must not hold up those behind it."""
        item = unmarshal(image)
        if item.get("kind") != "event" or item.get("due") != "event":
            return
        with correlated(_correlation(item)):
            try:
                self._announce(item)
            except Exception as error:  # noqa: BLE001  # whatever it is, the event is still due
                logger.exception("event not announced", key=item.get("sk"), error=type(error).__name__)

    def _announce(self, item: Item) -> None:
        announcement = announce_event(read_event(item)) if "event" in item else announce_other(item)
        with correlated(announcement.correlation_id, event_id=announcement.id):
            if announcement.webhook_url:
                self._add_delivery(announcement)
            self.topic.publish(announcement)
            self._mark_announced(item)
            logger.info("event announced", type=announcement.type, webhook=bool(announcement.webhook_url))

    def _add_delivery(self, announcement: Announcement) -> None:
        """Before the topic, so that receivers do not wait for it; a second time changes nothing."""
        delivery_id = self.deliveries.add(announcement, self.clock())
        self.queues.send("webhook", DeliveryMessage(delivery_id, 1, announcement.correlation_id))

    def _mark_announced(self, item: Item) -> None:
        try:
            self.table.update(item["pk"], item["sk"], "REMOVE due, dueAt", condition="attribute_exists(pk)")
        except ConditionFailed:
            return  # outlived its retention meanwhile


def _correlation(item: Item) -> str:
    """Read before anything that may fail, so that the failure carries it too."""
    event = item.get("event")
    return str(event.get("correlation_id", "") if isinstance(event, dict) else item.get("correlationId", ""))


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    announce = wiring("announce").invocation(context).compose(Announce)
    for record in event.get("Records", []):
        if image := record.get("dynamodb", {}).get("NewImage"):
            announce(image)
