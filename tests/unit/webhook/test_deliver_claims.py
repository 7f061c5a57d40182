"""Who makes an attempt, and what becomes of one whose worker died or was too slow."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from functions.shared.domain.delivery.webhooks import Attempt, Delivery, DeliveryState
from functions.shared.stores.deliveries import Deliveries
from functions.shared.stores.table import Item, Table
from tests.unit.webhook.conftest import Listen
from tests.unit.webhook.harness import Line

LEASE = timedelta(seconds=60)


def die_in_attempt(line: Line, delivery_id: str) -> Delivery:
    """Claim the next attempt as a worker does, and never be heard of again."""
    now = line.clock()
    line.receivers.take("a receiver", now, now + LEASE)
    begun = line.deliveries.begin(line.stored(delivery_id), now, now + LEASE)
    assert begun is not None
    return begun


def test_two_workers_with_the_same_attempt_send_once_and_record_once(line: Line, listen: Listen) -> None:
    hook = listen(200)
    delivery_id = line.announce(hook.url)
    hook.meanwhile = lambda: line.take(delivery_id, 1)

    line.take(delivery_id, 1)
    line.take(delivery_id, 1)

    assert len(hook.received) == 1
    assert [one.number for one in line.stored(delivery_id).attempts] == [1]


def test_a_claim_whose_answer_was_lost_is_known_to_be_ones_own(line: Line) -> None:
    class Twice(Table):
        def update(self, *args: Any, **kwargs: Any) -> Item:
            super().update(*args, **kwargs)
            return super().update(*args, **kwargs)  # as the SDK does when no answer came

    read = line.stored(line.announce("http://127.0.0.1:9/"))
    now = line.clock()

    begun = Deliveries(Twice(line.table.client, line.table.name)).begin(read, now, now + LEASE)

    assert begun is not None
    assert begun.attempt == 1


def test_an_attempt_whose_worker_died_is_followed_by_the_next_after_its_lease(
    line: Line, listen: Listen
) -> None:
    hook = listen(200)
    delivery_id = line.announce(hook.url)
    line.queue.waiting.clear()
    die_in_attempt(line, delivery_id)

    line.run(seconds=59)
    assert hook.received == []
    line.run(minutes=3)

    assert len(hook.received) == 1
    delivery = line.stored(delivery_id)
    assert delivery.state is DeliveryState.DELIVERED
    assert [delivery.lost(one, line.clock()) for one in delivery.attempts] == [True, False]


def test_an_attempt_under_way_does_not_show_as_lost(line: Line) -> None:
    delivery = die_in_attempt(line, line.announce("http://127.0.0.1:9/"))

    assert delivery.under_way(line.clock())
    assert not delivery.lost(delivery.attempts[0], line.clock())
    assert delivery.lost(delivery.attempts[0], line.clock() + LEASE)


def test_a_last_attempt_whose_worker_died_is_not_followed_by_one_too_many(
    make_line: Callable[..., Line],
) -> None:
    line = make_line(waits=(5.0,))
    delivery_id = line.announce("http://127.0.0.1:9/")
    line.take(delivery_id, 1)
    line.pass_time(6)
    die_in_attempt(line, delivery_id)

    line.run(days=1)

    delivery = line.stored(delivery_id)
    assert delivery.state is DeliveryState.EXHAUSTED
    assert len(delivery.attempts) == 2


@pytest.mark.parametrize(("status", "state"), [(200, DeliveryState.DELIVERED), (500, DeliveryState.PENDING)])
def test_the_result_of_a_worker_taken_for_dead_changes_nothing(
    line: Line, listen: Listen, status: int, state: DeliveryState
) -> None:
    hook = listen(status)
    delivery_id = line.announce(hook.url)
    line.queue.waiting.clear()
    slow = die_in_attempt(line, delivery_id)
    line.run(minutes=3)
    after = line.stored(delivery_id)

    late = Attempt(1, line.clock(), 1, status=410)
    noted = line.deliveries.finish(slow, late, state=DeliveryState.ENDED, again_at=None, now=line.clock())

    assert not noted
    assert line.stored(delivery_id) == after
    assert after.state is state


def test_a_worker_slower_than_its_lease_is_not_followed_before_the_time_it_sets(
    line: Line, listen: Listen
) -> None:
    """The sweep has sent the next attempt already when the slow worker says: in two hours."""
    hook = listen(200)
    delivery_id = line.announce(hook.url)
    line.queue.waiting.clear()
    slow = die_in_attempt(line, delivery_id)
    line.pass_time(80)
    assert line.sweep() == 1

    two_hours = line.clock() + timedelta(hours=2)
    late = Attempt(1, line.clock(), 1, status=500)
    assert line.deliveries.finish(
        slow, late, state=DeliveryState.PENDING, again_at=two_hours, now=line.clock()
    )
    line.run(minutes=110)
    assert hook.received == []
    line.run(minutes=20)

    assert hook.times == [pytest.approx(two_hours, abs=timedelta(seconds=1))]


def test_ended_is_final(line: Line, listen: Listen) -> None:
    hook = listen(410)
    delivery_id = line.announce(hook.url)
    line.run(seconds=1)
    ended = line.stored(delivery_id)

    again = Attempt(1, line.clock(), 1, status=200)
    noted = line.deliveries.finish(
        ended, again, state=DeliveryState.DELIVERED, again_at=None, now=line.clock()
    )
    for attempt in (1, 2, 3):
        line.take(delivery_id, attempt)

    assert not noted
    assert line.stored(delivery_id) == ended
    assert len(hook.received) == 1


def test_a_secret_that_cannot_be_read_costs_no_attempt(line: Line, listen: Listen) -> None:
    def unreachable() -> list[bytes]:
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:9")

    hook = listen(200)
    delivery_id = line.announce(hook.url)
    good, line.deliver = line.deliver, replace(line.deliver, webhook_masters=unreachable)

    with pytest.raises(EndpointConnectionError):
        line.take(delivery_id, 1)
    line.deliver = good
    line.run(minutes=1)

    assert [one.number for one in line.stored(delivery_id).attempts] == [1]
    assert len(hook.received) == 1


def test_the_same_event_announced_twice_is_one_delivery(line: Line, listen: Listen) -> None:
    hook = listen(200)

    first, second = line.announce(hook.url), line.announce(hook.url)
    line.run(minutes=5)

    assert first == second
    assert len(hook.received) == 1
