"""Places at a receiver: one that is slow keeps its own deliveries waiting, and waiting is no attempt."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from functions.shared.domain.delivery.webhooks import DeliveryState
from functions.shared.domain.resilience import hold_wait
from functions.shared.stores.deliveries import ReceiverSlots
from functions.shared.stores.jobs import SlowSlots
from functions.shared.stores.table import Item, Table
from tests.unit.webhook.conftest import Listen
from tests.unit.webhook.harness import Hook, WebhookHarness

LEASE = timedelta(seconds=60)


def fill(harness: WebhookHarness, hook: Hook) -> None:
    """Attempts to the receiver that hang, and whose workers are never heard of again."""
    for _ in range(3):
        assert harness.receivers.take(
            hook.url.removesuffix("/hook"), harness.clock(), harness.clock() + LEASE
        )


def test_no_more_slots_than_there_are_and_each_receiver_has_its_own(harness: WebhookHarness) -> None:
    now = harness.clock()

    taken = [harness.receivers.take("https://a.example", now, now + LEASE) for _ in range(4)]
    other = harness.receivers.take("https://b.example", now, now + LEASE)

    assert [one is not None for one in taken] == [True, True, True, False]
    assert len({one.slot.name for one in taken if one}) == 3
    assert other is not None


def test_a_slot_is_free_when_it_is_left_or_its_time_is_over(harness: WebhookHarness) -> None:
    now = harness.clock()
    origin = "https://a.example"
    mine, *_ = [harness.receivers.take(origin, now, now + LEASE) for _ in range(3)]
    assert mine is not None

    harness.receivers.release(mine, now)
    assert harness.receivers.take(origin, now, now + LEASE) is not None
    assert harness.receivers.take(origin, now, now + LEASE) is None

    harness.receivers.release(mine, now)  # somebody else has it now
    assert harness.receivers.take(origin, now, now + LEASE) is None
    assert harness.receivers.take(origin, now + LEASE, now + 2 * LEASE) is not None


def test_a_slot_whose_answer_was_lost_is_known_to_be_ones_own(harness: WebhookHarness) -> None:
    class Twice(Table):
        def update(self, *args: Any, **kwargs: Any) -> Item:
            super().update(*args, **kwargs)
            return super().update(*args, **kwargs)

    now = harness.clock()
    twice = Twice(harness.table.client, harness.table.name)
    receivers = ReceiverSlots(twice, 1, SlowSlots(twice, "webhook", 2))

    assert receivers.take("https://a.example", now, now + LEASE) is not None


def test_a_delivery_to_a_busy_receiver_waits_and_that_is_no_attempt(
    harness: WebhookHarness, listen: Listen
) -> None:
    hook = listen(200)
    fill(harness, hook)
    delivery_id = harness.announce(hook.url)

    harness.run(seconds=50)
    waiting = harness.stored(delivery_id)
    harness.run(minutes=2)

    assert (waiting.attempt, waiting.attempts, waiting.state) == (0, (), DeliveryState.PENDING)
    assert waiting.held > 2
    assert len(hook.received) == 1
    assert harness.stored(delivery_id).state is DeliveryState.DELIVERED
    assert harness.stored(delivery_id).held == 0


def test_waiting_makes_one_chain_of_messages_however_many_came(
    harness: WebhookHarness, listen: Listen
) -> None:
    hook = listen(200)
    fill(harness, hook)
    delivery_id = harness.announce(hook.url)
    for _ in range(5):
        harness.take(delivery_id, 1)

    harness.run(seconds=14)

    assert len(harness.queue.waiting) == 1


def test_of_two_that_read_the_same_one_makes_it_wait(harness: WebhookHarness) -> None:
    read = harness.stored(harness.announce("http://127.0.0.1:9/"))

    assert [harness.deliveries.hold(read, harness.clock() + LEASE) for _ in range(2)] == [True, False]


def test_an_attempt_releases_its_slot(make_harness: Callable[..., WebhookHarness], listen: Listen) -> None:
    hook = listen(500)
    harness = make_harness(slots=1)

    for sequence in (1, 2, 3):
        harness.take(harness.announce(hook.url, sequence), 1)

    assert len(hook.received) == 3


def test_waits_for_a_slot_double_up_to_the_time_an_attempt_may_take() -> None:
    waits = [hold_wait(held, 15, lambda: 0.5).total_seconds() for held in (0, 1, 2, 3, 4, 8)]

    assert waits == [1, 2, 4, 8, 15, 15]
    assert hold_wait(4, 15, lambda: 0.0).total_seconds() == 7.5


def test_whoever_has_waited_a_minute_asks_four_times_less_often() -> None:
    assert [hold_wait(held, 15, lambda: 0.5).total_seconds() for held in (9, 50, 5000)] == [60, 60, 60]
