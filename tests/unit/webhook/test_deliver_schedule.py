"""When attempts are made, and what ends them, on a virtual clock."""

import socket
from dataclasses import replace
from datetime import timedelta

import pytest

from functions.shared.domain.delivery.webhooks import DeliveryState
from functions.shared.domain.messages import DeliveryMessage
from tests.unit.webhook.conftest import Listen
from tests.unit.webhook.harness import CURRENT, FORMER, START, WAITS, Hook, WebhookHarness


def gaps(hook: Hook) -> list[float]:
    return [(b - a).total_seconds() for a, b in zip(hook.times, hook.times[1:], strict=False)]


def test_attempts_follow_the_schedule_within_jitter_and_then_it_is_exhausted(
    harness: WebhookHarness, listen: Listen
) -> None:
    hook = listen(500)
    delivery_id = harness.announce(hook.url)

    harness.run(days=14)

    assert len(hook.received) == 1 + len(WAITS)
    for gap, wait in zip(gaps(hook), WAITS, strict=True):
        assert wait * 0.9 <= gap <= wait * 1.1 + 1  # the queue counts in whole seconds
    delivery = harness.stored(delivery_id)
    assert delivery.state is DeliveryState.EXHAUSTED
    assert [one.number for one in delivery.attempts] == list(range(1, 11))
    assert {one.status for one in delivery.attempts} == {500}


def test_every_attempt_has_the_same_id_and_is_signed_afresh(harness: WebhookHarness, listen: Listen) -> None:
    hook = listen(500)
    harness.announce(hook.url)

    harness.run(days=14)

    assert len({one.headers["webhook-id"] for one in hook.received}) == 1
    assert len({one.headers["webhook-timestamp"] for one in hook.received}) == 10
    for one in hook.received:
        assert int(one.headers["webhook-timestamp"]) == int(one.at.timestamp())
        assert one.verified(hook.secret())["sequence"] == 1


@pytest.mark.parametrize("status", [200, 204, 299])
def test_a_2xx_stops_it(harness: WebhookHarness, listen: Listen, status: int) -> None:
    hook = listen(500, status, 500)
    delivery_id = harness.announce(hook.url)

    harness.run(days=14)

    assert len(hook.received) == 2
    assert harness.stored(delivery_id).state is DeliveryState.DELIVERED


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_3xx_is_a_failure_and_is_not_followed(harness: WebhookHarness, listen: Listen, status: int) -> None:
    elsewhere = listen(200)
    hook = listen((status, {"Location": elsewhere.url}), 200)
    delivery_id = harness.announce(hook.url)

    harness.run(minutes=1)

    assert elsewhere.received == []
    assert [one.status for one in harness.stored(delivery_id).attempts] == [status, 200]


def test_gone_stops_it_for_good(harness: WebhookHarness, listen: Listen) -> None:
    hook = listen(500, 410, 200)
    delivery_id = harness.announce(hook.url)

    harness.run(days=14)
    harness.take(delivery_id, 3)
    harness.sweep()

    assert len(hook.received) == 2
    assert harness.stored(delivery_id).state is DeliveryState.ENDED


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("seconds", [60, 3600, 86400])
def test_retry_after_is_kept_also_beyond_what_the_queue_can_hold(
    harness: WebhookHarness, listen: Listen, status: int, seconds: int
) -> None:
    hook = listen((status, {"Retry-After": str(seconds)}), 200)
    harness.announce(hook.url)

    harness.run(days=2)

    assert len(hook.received) == 2
    assert seconds <= gaps(hook)[0] <= seconds + 1


def test_when_every_delayed_message_is_lost_the_sweep_alone_keeps_the_schedule(
    harness: WebhookHarness, listen: Listen
) -> None:
    hook = listen(500)
    harness.queue.loses_delayed = True
    harness.announce(hook.url)

    harness.run(days=14)

    assert len(hook.received) == 10
    for gap, wait in zip(gaps(hook), WAITS, strict=True):
        assert wait * 0.9 <= gap <= wait * 1.1 + 150  # a sweep comes every minute and waits for its message


def test_doubled_messages_make_no_second_attempt(harness: WebhookHarness, listen: Listen) -> None:
    hook = listen(500)
    harness.queue.copies = 2
    harness.announce(hook.url)

    harness.run(days=14)

    assert len(hook.received) == 10


def test_sweeps_at_any_time_send_nothing_early(harness: WebhookHarness, listen: Listen) -> None:
    hook = listen(500, 500, 500, 500, 200)
    delivery_id = harness.announce(hook.url)
    harness.run(minutes=45)  # the next wait is two hours
    due = harness.stored(delivery_id).next_at
    assert due is not None
    assert len(hook.received) == 4

    for before in (6000, 1000, 300, *range(120, 0, -5), 2):
        harness.clock.now = due - timedelta(seconds=before)
        harness.sweep()
        harness.take(delivery_id, 5)
    assert len(hook.received) == 4
    harness.run(minutes=5)

    assert due <= hook.times[4] <= due + timedelta(seconds=1)


def test_the_log_has_time_duration_status_and_the_first_bytes_of_each_answer(
    harness: WebhookHarness, listen: Listen
) -> None:
    hook = listen(500, 200)
    hook.body = "é".encode() * 1000
    hook.meanwhile = lambda: harness.pass_time(2)
    delivery_id = harness.announce(hook.url)

    harness.run(minutes=1)

    first, second = harness.stored(delivery_id).attempts
    assert (first.number, first.at, first.took_ms, first.status) == (1, START, 2000, 500)
    assert (second.number, second.status, second.error) == (2, 200, None)
    assert first.answer == "é" * 100


def test_no_answer_is_logged_by_its_category(harness: WebhookHarness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    delivery_id = harness.announce(f"http://127.0.0.1:{port}/")

    harness.run(seconds=1)

    (attempt,) = harness.stored(delivery_id).attempts
    assert (attempt.status, attempt.error) == (None, "connection_refused")


def test_during_rotation_either_secret_verifies_every_attempt(
    harness: WebhookHarness, listen: Listen
) -> None:
    hook = listen(500, 500, 200)
    harness.deliver = replace(harness.deliver, webhook_masters=lambda: [CURRENT, FORMER])
    harness.announce(hook.url)

    harness.run(hours=1)

    assert len(hook.received) == 3
    for one in hook.received:
        assert one.verified(hook.secret(CURRENT)) == one.verified(hook.secret(FORMER))


def test_an_exhausted_delivery_is_replayed_with_a_whole_schedule_under_the_same_id(
    harness: WebhookHarness, listen: Listen
) -> None:
    hook = listen(*[500] * 12, 200)
    delivery_id = harness.announce(hook.url)
    harness.run(days=14)
    assert harness.stored(delivery_id).state is DeliveryState.EXHAUSTED

    again = harness.deliveries.replay(harness.stored(delivery_id), harness.clock())
    harness.queue.send("webhook", DeliveryMessage(again.id, again.attempt + 1, "corr"))
    harness.run(days=14)

    delivery = harness.stored(delivery_id)
    assert delivery.state is DeliveryState.DELIVERED
    assert [one.number for one in delivery.attempts] == list(range(1, 14))
    assert len({one.headers["webhook-id"] for one in hook.received}) == 1
    for gap, wait in zip(gaps(hook)[10:], WAITS, strict=False):
        assert wait * 0.9 <= gap <= wait * 1.1 + 1
