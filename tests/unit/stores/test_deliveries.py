"""Deliveries as they are stored: the same event makes one, one of two begins an attempt, ended is final."""

from dataclasses import replace

import pytest

from functions.shared.domain.delivery.webhooks import (
    Announcement,
    Attempt,
    Delivery,
    DeliveryState,
    announce_event,
)
from functions.shared.stores.deliveries import Deliveries
from functions.shared.stores.instances import event_item
from functions.shared.stores.table import Due, Table, Write
from tests.unit.builders import NOW, after, created

URL = "https://hook.example"
EVENT = replace(created().events[0], webhook_url=URL)
TOLD: Announcement = announce_event(EVENT)


def stored(deliveries: Deliveries) -> Delivery:
    found = deliveries.get(deliveries.add(TOLD, URL, NOW)[0])
    assert found
    return found


def test_the_same_event_makes_one_delivery_however_often_it_is_announced(table: Table) -> None:
    deliveries = Deliveries(table)
    first = stored(deliveries)
    deliveries.begin(first, NOW, after(60))

    again, _ = deliveries.add(replace(TOLD, body="other"), URL, after(5))

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


def test_one_that_its_event_covers_for_is_not_due_until_it_is_announced_again(table: Table) -> None:
    deliveries, due = Deliveries(table), Due(table)
    made = deliveries.add(TOLD, URL, NOW, covered=True)
    at_first = due.overdue("delivery", after(3600), 9)
    again = deliveries.add(TOLD, URL, after(60), covered=True)

    (found,) = due.overdue("delivery", after(3600), 9)
    assert (made[1], list(at_first), again) == (True, [], (made[0], False))
    assert found["sk"] == f"delivery#{made[0]}"


def test_one_that_was_delivered_is_due_no_more_however_often_it_is_announced(table: Table) -> None:
    deliveries = Deliveries(table)
    delivery_id, _ = deliveries.add(TOLD, URL, NOW, covered=True)
    covered = deliveries.get(delivery_id)
    assert covered
    begun = deliveries.begin(covered, NOW, after(60))
    assert begun
    deliveries.finish(begun, Attempt(1, NOW, 5, 200), state=DeliveryState.DELIVERED, again_at=None, now=NOW)

    deliveries.add(TOLD, URL, after(60), covered=True)

    assert list(Due(table).overdue("delivery", after(3600), 9)) == []


@pytest.mark.parametrize("put_off", [True, False])
def test_its_event_is_due_no_more_when_it_is_due_itself(table: Table, put_off: bool) -> None:
    deliveries, due = Deliveries(table), Due(table)
    table.put(Write(event_item(EVENT)))
    delivery_id, _ = deliveries.add(TOLD, URL, NOW, covered=True)
    covered = deliveries.get(delivery_id)
    assert covered
    if put_off:
        deliveries.hold(covered, after(8))
    else:
        begun = deliveries.begin(covered, NOW, after(60))
        assert begun
        failed = Attempt(1, NOW, 5, 500)
        deliveries.finish(begun, failed, state=DeliveryState.PENDING, again_at=after(5), now=NOW)
    both = [len(due.overdue(kind, after(3600), 9)) for kind in ("event", "delivery")]

    deliveries.uncover(covered)
    deliveries.uncover(covered)  # as a message that comes twice does

    assert both == [1, 1]
    assert [len(due.overdue(kind, after(3600), 9)) for kind in ("event", "delivery")] == [0, 1]
