"""Deliveries as they are stored: the same event makes one, one of two begins an attempt, ended is final."""

from dataclasses import replace

from functions.shared.domain.delivery.webhooks import (
    Announcement,
    Attempt,
    Delivery,
    DeliveryState,
    announce_event,
)
from functions.shared.stores.deliveries import Deliveries
from functions.shared.stores.table import Table
from tests.unit.builders import NOW, after, created

URL = "https://hook.example"
EVENT = replace(created().events[0], webhook_url=URL)
TOLD: Announcement = announce_event(EVENT)


def stored(deliveries: Deliveries) -> Delivery:
    found = deliveries.get(deliveries.add(TOLD, URL, NOW))
    assert found
    return found


def test_the_same_event_makes_one_delivery_however_often_it_is_announced(table: Table) -> None:
    deliveries = Deliveries(table)
    first = stored(deliveries)
    deliveries.begin(first, NOW, after(60))

    again = deliveries.add(replace(TOLD, body="other"), URL, after(5))

    found, end = deliveries.page(EVENT.instance_id, 10, None)
    assert again == first.id
    assert ([one.body for one in found], end) == ([TOLD.body], None)
    assert found[0].attempt == 1


def test_of_two_that_read_the_same_one_begins_the_attempt(table: Table) -> None:
    read = stored(Deliveries(table))

    begun = [Deliveries(table).begin(read, NOW, after(60)) for _ in range(2)]

    assert [one is not None for one in begun] == [True, False]


def test_ended_is_final(table: Table) -> None:
    deliveries = Deliveries(table)
    begun = deliveries.begin(stored(deliveries), NOW, after(60))
    assert begun
    result = Attempt(1, NOW, 12, 200)
    deliveries.finish(begun, result, state=DeliveryState.DELIVERED, again_at=None, now=NOW)

    late = deliveries.finish(begun, result, state=DeliveryState.PENDING, again_at=after(9), now=NOW)
    third = deliveries.begin(replace(begun, attempt=1), NOW, after(60))

    assert (late, third) == (False, None)
    found = deliveries.get(begun.id)
    assert found
    assert (found.state, found.next_at) == (DeliveryState.DELIVERED, None)
