"""Places at a receiver: one that is slow keeps its own deliveries waiting, and waiting is no attempt."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from functions.shared.domain.delivery.targets import HttpResponse, OutboundFailed
from functions.shared.domain.delivery.webhooks import AttemptEnd, DeliveryState, ReceiverBusy
from functions.shared.domain.resilience import hold_wait
from functions.shared.outbound.http import OutboundHttp
from functions.shared.stores.deliveries import ReceiverSlot, ReceiverSlots
from functions.shared.stores.jobs import SlowSlots
from functions.shared.stores.table import Item, Table
from tests.unit.webhook.conftest import Listen
from tests.unit.webhook.harness import Hook, WebhookHarness

LEASE = timedelta(seconds=60)


def take(harness: WebhookHarness, origin: str, *, after: timedelta = timedelta()) -> ReceiverSlot | None:
    now = harness.clock() + after
    slot = harness.receivers.take(origin, now, now + LEASE)
    return None if isinstance(slot, ReceiverBusy) else slot


HANGS = AttemptEnd(timed_out=True, took=timedelta(seconds=15))
ANSWERS = AttemptEnd(timed_out=False, took=timedelta(seconds=2))
AT_ONCE = AttemptEnd(timed_out=False, took=timedelta(seconds=0.9))


def learn(harness: WebhookHarness, origin: str, ended: AttemptEnd) -> None:
    """One attempt ends so."""
    slot = take(harness, origin)
    assert slot
    harness.receivers.release(slot, harness.clock(), ended)
    harness.pass_time(0.01)


def at_once(harness: WebhookHarness, origin: str) -> int:
    """How many attempts it would get now."""
    taken = [slot for _ in range(4) if (slot := take(harness, origin))]
    for slot in taken:
        harness.receivers.release(slot, harness.clock())
    return len(taken)


def fill(harness: WebhookHarness, hook: Hook) -> None:
    """Attempts to the receiver that hang, and whose workers are never heard of again."""
    for _ in range(3):
        assert take(harness, hook.url.removesuffix("/hook"))


def test_no_more_slots_than_there_are_and_each_receiver_has_its_own(harness: WebhookHarness) -> None:
    taken = [take(harness, "https://a.example") for _ in range(4)]
    other = take(harness, "https://b.example")

    assert [one is not None for one in taken] == [True, True, True, False]
    assert len({one.slot.name for one in taken if one and one.slot}) == 3
    assert other is not None


def test_a_slot_is_free_when_it_is_left_or_its_time_is_over(harness: WebhookHarness) -> None:
    now = harness.clock()
    origin = "https://a.example"
    mine, *_ = [take(harness, origin) for _ in range(3)]
    assert mine is not None

    harness.receivers.release(mine, now)
    assert take(harness, origin) is not None
    assert take(harness, origin) is None

    harness.receivers.release(mine, now)  # somebody else has it now
    assert take(harness, origin) is None
    assert take(harness, origin, after=LEASE) is not None


def test_what_timed_out_gets_one_attempt_at_a_time_until_it_answers(harness: WebhookHarness) -> None:
    origin = "https://a.example"
    learn(harness, origin, HANGS)

    hanging = at_once(harness, origin)
    learn(harness, origin, ANSWERS)

    assert hanging == 1
    assert at_once(harness, origin) == 3


def test_all_that_hang_have_half_of_the_workers_of_which_one_is_left_for_newcomers(
    harness: WebhookHarness,
) -> None:
    hanging = [f"https://a{number}.a.example" for number in range(7)]
    for origin in hanging:
        learn(harness, origin, HANGS)

    taken = [take(harness, origin) is not None for origin in hanging]
    newcomers = [take(harness, f"https://new{number}.a.example") is not None for number in range(2)]
    elsewhere = take(harness, "https://b.example")

    assert taken == [True] * 4 + [False] * 3
    assert newcomers == [True, False]
    assert elsewhere is not None
    assert elsewhere.slow is None


@pytest.mark.parametrize(
    ("hanging", "newcomer", "same"),
    [
        ("https://a.hook.example", "https://b.hook.example", True),
        ("https://a.hook.example", "http://hook.example:8080", True),
        ("https://a.b.c.hook.example", "https://x.hook.example", True),
        ("https://hook.example", "https://other.example", False),
        ("http://203.0.113.9", "http://203.0.113.9:8080", True),
        ("http://203.0.113.9", "http://203.0.113.8", False),
        ("https://[2606:2800:220:1::1]", "https://[2606:2800:220:1::2]:8443", True),
        ("https://[2606:2800:220:1::1]", "https://[2606:2800:220:2::1]", False),
    ],
)
def test_a_newcomer_may_hang_while_another_of_its_site_does(
    harness: WebhookHarness, hanging: str, newcomer: str, same: bool
) -> None:
    learn(harness, hanging, HANGS)

    first = take(harness, newcomer)

    assert first is not None
    assert (first.slow is not None) is same
    harness.receivers.release(first, harness.clock(), ANSWERS)
    assert at_once(harness, newcomer) == 3, "it has answered since"


def test_a_site_is_trusted_again_when_who_hung_has_answered_or_after_a_day(harness: WebhookHarness) -> None:
    learn(harness, "https://a.hook.example", HANGS)
    learn(harness, "https://b.site.example", HANGS)

    learn(harness, "https://a.hook.example", ANSWERS)
    answered = take(harness, "https://new.hook.example")
    harness.pass_time(24 * 3600 + 60)
    forgotten = take(harness, "https://new.site.example")

    for slot in (answered, forgotten):
        assert slot is not None
        assert slot.slow is None


def test_in_the_minute_after_a_time_out_one_that_has_not_answered_lately_gets_one_attempt_at_a_time(
    harness: WebhookHarness,
) -> None:
    quiet, lately = "https://quiet.example", "https://lately.example"
    for origin in (quiet, lately):
        learn(harness, origin, ANSWERS)
    harness.pass_time(11)
    calm = at_once(harness, quiet)
    learn(harness, "https://hangs.example", HANGS)
    learn(harness, lately, ANSWERS)

    assert calm == 3
    assert (at_once(harness, quiet), at_once(harness, lately)) == (1, 3)
    harness.pass_time(61)
    assert (at_once(harness, quiet), at_once(harness, lately)) == (3, 3)


def test_one_that_was_known_before_its_site_began_to_hang_has_to_answer_once(harness: WebhookHarness) -> None:
    learn(harness, "https://b.hook.example", ANSWERS)
    learn(harness, "https://a.hook.example", HANGS)

    suspect = take(harness, "https://b.hook.example")
    assert suspect is not None
    assert suspect.slow is not None
    harness.receivers.release(suspect, harness.clock(), ANSWERS)
    learn(harness, "https://a.hook.example", HANGS)  # and again, which is nothing new

    assert at_once(harness, "https://b.hook.example") == 3


def calls_of(harness: WebhookHarness, work: Callable[[], object]) -> list[str]:
    calls: list[str] = []
    events = harness.table.client.meta.events
    events.register("provide-client-params", lambda model, **_: calls.append(model.name), unique_id="count")
    work()
    events.unregister("provide-client-params", unique_id="count")
    return calls


@pytest.mark.parametrize(
    ("before", "ended", "writes"), [(ANSWERS, ANSWERS, 2), (AT_ONCE, AT_ONCE, 0), (AT_ONCE, ANSWERS, 1)]
)
def test_an_attempt_costs_a_read_and_two_writes_for_its_slot_and_none_where_it_answers_at_once(
    harness: WebhookHarness, before: AttemptEnd, ended: AttemptEnd, writes: int
) -> None:
    origin = "https://a.example"
    learn(harness, origin, before)

    calls = calls_of(harness, lambda: learn(harness, origin, ended))

    assert calls == ["GetItem", *["UpdateItem"] * writes]


@pytest.mark.parametrize(("ended", "most"), [(ANSWERS, 3), (HANGS, 1)])
def test_one_that_no_longer_answers_at_once_needs_slots_again(
    harness: WebhookHarness, ended: AttemptEnd, most: int
) -> None:
    origin = "https://a.example"
    learn(harness, origin, AT_ONCE)
    at_first = at_once(harness, origin)
    learn(harness, origin, ended)

    assert (at_first, at_once(harness, origin)) == (4, most)


def test_after_a_time_out_in_this_process_one_that_answered_at_once_needs_a_slot_for_a_minute(
    harness: WebhookHarness,
) -> None:
    origin = "https://a.example"
    learn(harness, origin, AT_ONCE)
    harness.pass_time(11)
    learn(harness, "https://hangs.example", HANGS)

    assert at_once(harness, origin) == 1
    harness.pass_time(61)
    assert at_once(harness, origin) == 4


def test_a_slot_whose_answer_was_lost_is_known_to_be_ones_own(harness: WebhookHarness) -> None:
    class Twice(Table):
        def update(self, *args: Any, **kwargs: Any) -> Item:
            super().update(*args, **kwargs)
            return super().update(*args, **kwargs)

    now = harness.clock()
    twice = Twice(harness.table.client, harness.table.name)
    receivers = ReceiverSlots(twice, 1, SlowSlots(twice, "webhook", 2))

    assert isinstance(receivers.take("https://a.example", now, now + LEASE), ReceiverSlot)


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

    for instance_id in ("inst_1", "inst_2", "inst_3"):
        harness.take(harness.announce(hook.url, instance_id=instance_id), 1)

    assert len(hook.received) == 3


def test_waits_for_a_slot_double_up_to_the_time_an_attempt_may_take() -> None:
    waits = [hold_wait(held, 15, lambda: 0.5).total_seconds() for held in (0, 1, 2, 3, 4, 8)]

    assert waits == [1, 2, 4, 8, 15, 15]
    assert hold_wait(4, 15, lambda: 0.0).total_seconds() == 7.5


def test_one_of_the_slow_ones_does_not_ask_after_a_second() -> None:
    waits = [hold_wait(held, 15, lambda: 0.5, slow=True).total_seconds() for held in (0, 1, 5, 6)]

    assert waits == [8, 15, 15, 60]


def test_whoever_has_waited_a_minute_asks_four_times_less_often() -> None:
    assert [hold_wait(held, 15, lambda: 0.5).total_seconds() for held in (9, 50, 5000)] == [60, 60, 60]


class Network(OutboundHttp):
    """Answers, or fails, as it is told."""

    def __init__(self, outcome: HttpResponse | OutboundFailed) -> None:
        self._outcome = outcome

    def request(self, *_: Any, **__: Any) -> HttpResponse:
        if isinstance(self._outcome, OutboundFailed):
            raise self._outcome
        return self._outcome


@pytest.mark.parametrize(
    ("outcome", "slow"),
    [
        (OutboundFailed("timeout", "timeout"), True),
        (OutboundFailed("dns_resolution_failed", "not resolved in time", timed_out=True), True),
        (HttpResponse(200, {}, b"drip", 15, "8.8.8.8", cut="timeout"), True),
        (OutboundFailed("connection_refused", "refused"), False),
        (HttpResponse(500, {}, b"", 1, "8.8.8.8"), False),
        (HttpResponse(200, {}, b"", 1, "8.8.8.8"), False),
    ],
)
def test_a_receiver_is_slow_after_an_attempt_that_used_up_its_time_however_it_ended(
    make_harness: Callable[..., WebhookHarness], outcome: HttpResponse | OutboundFailed, slow: bool
) -> None:
    harness = make_harness(outbound=Network(outcome))
    delivery_id = harness.announce("https://hook.example/x")

    harness.take(delivery_id, 1)

    assert at_once(harness, "https://hook.example") == (1 if slow else 4)
    assert len(harness.stored(delivery_id).attempts) == 1
