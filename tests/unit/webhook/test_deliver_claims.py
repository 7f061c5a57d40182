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
from tests.unit.webhook.harness import WebhookHarness

LEASE = timedelta(seconds=60)


def die_in_attempt(harness: WebhookHarness, delivery_id: str) -> Delivery:
    """Claim the next attempt as a worker does, and never be heard of again."""
    now = harness.clock()
    harness.receivers.take("a receiver", now, now + LEASE)
    begun = harness.deliveries.begin(harness.stored(delivery_id), now, now + LEASE)
    assert begun is not None
    return begun


def test_two_workers_with_the_same_attempt_send_once_and_record_once(
    harness: WebhookHarness, listen: Listen
) -> None:
    hook = listen(200)
    delivery_id = harness.announce(hook.url)
    hook.meanwhile = lambda: harness.take(delivery_id, 1)

    harness.take(delivery_id, 1)
    harness.take(delivery_id, 1)

    assert len(hook.received) == 1
    assert [one.number for one in harness.stored(delivery_id).attempts] == [1]


def test_a_claim_whose_answer_was_lost_is_known_to_be_ones_own(harness: WebhookHarness) -> None:
    class Twice(Table):
        def update(self, *args: Any, **kwargs: Any) -> Item:
            super().update(*args, **kwargs)
            return super().update(*args, **kwargs)  # as the SDK does when no answer came

    read = harness.stored(harness.announce("http://127.0.0.1:9/"))
    now = harness.clock()

    begun = Deliveries(Twice(harness.table.client, harness.table.name)).begin(read, now, now + LEASE)

    assert begun is not None
    assert begun.attempt == 1


def test_an_attempt_whose_worker_died_is_followed_by_the_next_after_its_lease(
    harness: WebhookHarness, listen: Listen
) -> None:
    hook = listen(200)
    delivery_id = harness.announce(hook.url)
    harness.queue.waiting.clear()
    die_in_attempt(harness, delivery_id)

    harness.run(seconds=59)
    assert hook.received == []
    harness.run(minutes=3)

    assert len(hook.received) == 1
    delivery = harness.stored(delivery_id)
    assert delivery.state is DeliveryState.DELIVERED
    assert [delivery.lost(one, harness.clock()) for one in delivery.attempts] == [True, False]


def test_an_attempt_under_way_does_not_show_as_lost(harness: WebhookHarness) -> None:
    delivery = die_in_attempt(harness, harness.announce("http://127.0.0.1:9/"))

    assert delivery.under_way(harness.clock())
    assert not delivery.lost(delivery.attempts[0], harness.clock())
    assert delivery.lost(delivery.attempts[0], harness.clock() + LEASE)


def test_a_last_attempt_whose_worker_died_is_not_followed_by_one_too_many(
    make_harness: Callable[..., WebhookHarness],
) -> None:
    harness = make_harness(waits=(5.0,))
    delivery_id = harness.announce("http://127.0.0.1:9/")
    harness.take(delivery_id, 1)
    harness.pass_time(6)
    die_in_attempt(harness, delivery_id)

    harness.run(days=1)

    delivery = harness.stored(delivery_id)
    assert delivery.state is DeliveryState.EXHAUSTED
    assert len(delivery.attempts) == 2


@pytest.mark.parametrize(("status", "state"), [(200, DeliveryState.DELIVERED), (500, DeliveryState.PENDING)])
def test_the_result_of_a_worker_taken_for_dead_changes_nothing(
    harness: WebhookHarness, listen: Listen, status: int, state: DeliveryState
) -> None:
    hook = listen(status)
    delivery_id = harness.announce(hook.url)
    harness.queue.waiting.clear()
    slow = die_in_attempt(harness, delivery_id)
    harness.run(minutes=5)
    after = harness.stored(delivery_id)

    late = Attempt(1, harness.clock(), 1, status=410)
    noted = harness.deliveries.finish(
        slow, late, state=DeliveryState.ENDED, again_at=None, now=harness.clock()
    )

    assert not noted
    assert harness.stored(delivery_id) == after
    assert after.state is state


def test_a_worker_slower_than_its_lease_is_not_followed_before_the_time_it_sets(
    harness: WebhookHarness, listen: Listen
) -> None:
    """The sweep has sent the next attempt already when the slow worker says: in two hours."""
    hook = listen(200)
    delivery_id = harness.announce(hook.url)
    harness.queue.waiting.clear()
    slow = die_in_attempt(harness, delivery_id)
    harness.pass_time(180)
    assert harness.sweep() == 1

    two_hours = harness.clock() + timedelta(hours=2)
    late = Attempt(1, harness.clock(), 1, status=500)
    assert harness.deliveries.finish(
        slow, late, state=DeliveryState.PENDING, again_at=two_hours, now=harness.clock()
    )
    harness.run(minutes=110)
    assert hook.received == []
    harness.run(minutes=20)

    assert hook.times == [pytest.approx(two_hours, abs=timedelta(seconds=1))]


def test_ended_is_final(harness: WebhookHarness, listen: Listen) -> None:
    hook = listen(410)
    delivery_id = harness.announce(hook.url)
    harness.run(seconds=1)
    ended = harness.stored(delivery_id)

    again = Attempt(1, harness.clock(), 1, status=200)
    noted = harness.deliveries.finish(
        ended, again, state=DeliveryState.DELIVERED, again_at=None, now=harness.clock()
    )
    for attempt in (1, 2, 3):
        harness.take(delivery_id, attempt)

    assert not noted
    assert harness.stored(delivery_id) == ended
    assert len(hook.received) == 1


def test_a_secret_that_cannot_be_read_costs_no_attempt(harness: WebhookHarness, listen: Listen) -> None:
    def unreachable() -> list[bytes]:
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:9")

    hook = listen(200)
    delivery_id = harness.announce(hook.url)
    good, harness.deliver = harness.deliver, replace(harness.deliver, webhook_masters=unreachable)

    with pytest.raises(EndpointConnectionError):
        harness.take(delivery_id, 1)
    harness.deliver = good
    harness.run(minutes=1)

    assert [one.number for one in harness.stored(delivery_id).attempts] == [1]
    assert len(hook.received) == 1


def test_the_same_event_announced_twice_is_one_delivery(harness: WebhookHarness, listen: Listen) -> None:
    hook = listen(200)

    first, second = harness.announce(hook.url), harness.announce(hook.url)
    harness.run(minutes=5)

    assert first == second
    assert len(hook.received) == 1
