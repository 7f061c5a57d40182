"""Events of one instance leave in order, as far as their receiver takes them."""

import json
from datetime import timedelta

from functions.shared.domain.delivery.webhooks import DeliveryState
from tests.unit.webhook.conftest import Listen
from tests.unit.webhook.harness import START, Hook, WebhookHarness

OTHER = "inst_01JGFJJZ00ZZZZZZZZZZZZZZZZ"
A_MINUTE = timedelta(minutes=1)


def numbers(hook: Hook) -> list[int]:
    return [json.loads(one.body)["sequence"] for one in hook.received]


def first_at(hook: Hook, number: int) -> timedelta:
    return hook.times[numbers(hook).index(number)] - START


def test_messages_in_the_wrong_order_leave_in_the_right_one(harness: WebhookHarness, listen: Listen) -> None:
    hook = listen(200)
    announced = [harness.announce(hook.url, number) for number in (1, 2, 3)]
    harness.queue.waiting.clear()
    for delivery_id in reversed(announced):
        harness.take(delivery_id, 1)

    harness.run(minutes=1)

    assert numbers(hook) == [1, 2, 3]
    assert [len(harness.stored(one).attempts) for one in announced] == [1, 1, 1]


def test_a_second_waits_while_the_first_is_being_sent(harness: WebhookHarness, listen: Listen) -> None:
    hook = listen(200)
    harness.announce(hook.url, 1)
    second = harness.announce(hook.url, 2)
    seen: list[int] = []

    def meanwhile() -> None:
        if not seen:
            harness.take(second, 1)
        seen.append(harness.stored(second).attempt)

    hook.meanwhile = meanwhile
    harness.run(minutes=1)

    assert numbers(hook) == [1, 2]
    assert seen[0] == 0


def test_a_first_one_that_is_taken_at_its_second_attempt_is_still_first(
    harness: WebhookHarness, listen: Listen
) -> None:
    hook = listen(500, 200)
    for number in (1, 2, 3):
        harness.announce(hook.url, number)

    harness.run(minutes=2)

    assert numbers(hook) == [1, 1, 2, 3]


def test_a_first_one_that_is_never_taken_holds_the_next_for_less_than_a_minute(
    harness: WebhookHarness, listen: Listen
) -> None:
    hook = listen(500)
    for number in (1, 2):
        harness.announce(hook.url, number)

    harness.run(minutes=5)

    assert first_at(hook, 2) < A_MINUTE


def test_a_receiver_that_asks_for_an_hour_holds_no_other_event(
    harness: WebhookHarness, listen: Listen
) -> None:
    hook = listen((503, {"Retry-After": "3600"}), 200)
    for number in (1, 2):
        harness.announce(hook.url, number)

    harness.run(hours=2)

    assert numbers(hook) == [1, 2, 1]


def test_a_worker_that_died_holds_the_next_for_a_minute_at_most(
    harness: WebhookHarness, listen: Listen
) -> None:
    hook = listen(200)
    first = harness.announce(hook.url, 1)
    harness.queue.waiting.clear()
    now = harness.clock()
    assert harness.deliveries.begin(harness.stored(first), now, now + A_MINUTE)
    harness.announce(hook.url, 2)

    harness.run(minutes=5)

    assert numbers(hook) == [2, 1]
    assert first_at(hook, 2) <= A_MINUTE + timedelta(seconds=20)


def test_whoever_gets_events_of_another_instance_or_at_another_address_waits_for_nobody(
    harness: WebhookHarness, listen: Listen
) -> None:
    hook, other = listen(200), listen(200)
    harness.announce(hook.url, 1)
    harness.queue.waiting.clear()

    moved = harness.announce(other.url, 2)
    another = harness.announce(hook.url, 2, OTHER)
    harness.take(moved, 1)
    harness.take(another, 1)

    assert [harness.stored(one).state for one in (moved, another)] == [DeliveryState.DELIVERED] * 2


def test_a_replay_waits_for_nobody(harness: WebhookHarness, listen: Listen) -> None:
    hook = listen(200, 200, 500)
    harness.announce(hook.url, 1)
    second = harness.announce(hook.url, 2)
    harness.run(minutes=1)
    third = harness.announce(hook.url, 3)
    harness.run(seconds=1)

    harness.deliveries.replay(harness.stored(second), harness.clock())
    harness.take(second, 2)

    assert numbers(hook) == [1, 2, 3, 2]
    assert harness.stored(third).state is DeliveryState.PENDING
