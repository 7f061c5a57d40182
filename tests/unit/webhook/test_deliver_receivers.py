"""Places at a receiver: one that is slow keeps its own deliveries waiting, and waiting is no attempt."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from functions.shared.domain.delivery.webhooks import DeliveryState, hold_wait
from functions.shared.stores.deliveries import ReceiverSlots
from functions.shared.stores.table import Item, Table
from tests.unit.webhook.conftest import Listen
from tests.unit.webhook.harness import Hook, Line

LEASE = timedelta(seconds=60)


def fill(line: Line, hook: Hook) -> None:
    """Attempts to the receiver that hang, and whose workers are never heard of again."""
    for _ in range(3):
        assert line.receivers.take(hook.url.removesuffix("/hook"), line.clock(), line.clock() + LEASE)


def test_no_more_places_than_there_are_and_each_receiver_has_its_own(line: Line) -> None:
    now = line.clock()

    taken = [line.receivers.take("https://a.example", now, now + LEASE) for _ in range(4)]
    other = line.receivers.take("https://b.example", now, now + LEASE)

    assert [one is not None for one in taken] == [True, True, True, False]
    assert len({one.name for one in taken if one}) == 3
    assert other is not None


def test_a_place_is_free_when_it_is_left_or_its_time_is_over(line: Line) -> None:
    now = line.clock()
    origin = "https://a.example"
    mine, *_ = [line.receivers.take(origin, now, now + LEASE) for _ in range(3)]
    assert mine is not None

    line.receivers.release(mine)
    assert line.receivers.take(origin, now, now + LEASE) is not None
    assert line.receivers.take(origin, now, now + LEASE) is None

    line.receivers.release(mine)  # somebody else has it now
    assert line.receivers.take(origin, now, now + LEASE) is None
    assert line.receivers.take(origin, now + LEASE, now + 2 * LEASE) is not None


def test_a_place_whose_answer_was_lost_is_known_to_be_ones_own(line: Line) -> None:
    class Twice(Table):
        def update(self, *args: Any, **kwargs: Any) -> Item:
            super().update(*args, **kwargs)
            return super().update(*args, **kwargs)

    now = line.clock()
    receivers = ReceiverSlots(Twice(line.table.client, line.table.name), 1)

    assert receivers.take("https://a.example", now, now + LEASE) is not None


def test_a_delivery_to_a_busy_receiver_waits_and_that_is_no_attempt(line: Line, listen: Listen) -> None:
    hook = listen(200)
    fill(line, hook)
    delivery_id = line.announce(hook.url)

    line.run(seconds=50)
    waiting = line.stored(delivery_id)
    line.run(minutes=2)

    assert (waiting.attempt, waiting.attempts, waiting.state) == (0, (), DeliveryState.PENDING)
    assert waiting.held > 2
    assert len(hook.received) == 1
    assert line.stored(delivery_id).state is DeliveryState.DELIVERED
    assert line.stored(delivery_id).held == 0


def test_waiting_makes_one_chain_of_messages_however_many_came(line: Line, listen: Listen) -> None:
    hook = listen(200)
    fill(line, hook)
    delivery_id = line.announce(hook.url)
    for _ in range(5):
        line.take(delivery_id, 1)

    line.run(seconds=14)

    assert len(line.queue.waiting) == 1


def test_of_two_that_read_the_same_one_makes_it_wait(line: Line) -> None:
    read = line.stored(line.announce("http://127.0.0.1:9/"))

    assert [line.deliveries.hold(read, line.clock() + LEASE) for _ in range(2)] == [True, False]


def test_an_attempt_gives_its_place_back(make_line: Callable[..., Line], listen: Listen) -> None:
    hook = listen(500)
    line = make_line(places=1)

    for sequence in (1, 2, 3):
        line.take(line.announce(hook.url, sequence), 1)

    assert len(hook.received) == 3


def test_waits_for_a_place_double_up_to_the_time_an_attempt_may_take() -> None:
    waits = [hold_wait(held, 15, lambda: 0.5).total_seconds() for held in (0, 1, 2, 3, 4, 50, 5000)]

    assert waits == [1, 2, 4, 8, 15, 15, 15]
    assert hold_wait(4, 15, lambda: 0.0).total_seconds() == 7.5
