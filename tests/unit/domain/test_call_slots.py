"""Which call may go out when: the minute's window, shares of the classes, the pace after a burst, pauses."""

from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.shared.domain.resilience import (
    CLASSES,
    LATE,
    MINUTE,
    SECOND,
    TICK,
    SlotClass,
    SlotLimits,
    SlotRequest,
    SlotWindow,
    TableTime,
)

NOW = 1_900_000_000 * SECOND
HUNDRED = SlotLimits.of(100)


def exactly(at: int) -> TableTime:
    return TableTime(at, at)


def send(
    window: SlotWindow, kind: SlotClass, number: int, at: int = NOW, limits: SlotLimits = HUNDRED
) -> SlotWindow:
    """So many calls of a class, whether they were allowed or not."""
    return (
        window.at(at, limits).grant(SlotRequest(kind), exactly(at), limits, number)[0] if number else window
    )


def go_at_once(
    window: SlotWindow, kind: SlotClass, at: int = NOW, limits: SlotLimits = HUNDRED
) -> tuple[int, SlotWindow]:
    number, window = 0, window.at(at, limits)
    while window.delay(SlotRequest(kind), at, limits) == 0:
        window, _ = window.grant(SlotRequest(kind), exactly(at), limits)
        number += 1
    return number, window


def delay(window: SlotWindow, kind: SlotClass, at: int = NOW, *, begun: bool = False) -> float:
    request = SlotRequest(kind, "mine", begun=begun)
    return window.at(at, HUNDRED).delay(request, at, HUNDRED) / SECOND


def waiting(window: SlotWindow, kind: SlotClass, ticket: str, back_at: int = NOW) -> SlotWindow:
    return window.wait_in_line(SlotRequest(kind, ticket), back_at)


@pytest.mark.parametrize("kind", ["looks", "work", "lookups", "callers"])
def test_after_a_quiet_minute_a_fifth_of_the_limit_goes_at_once(kind: SlotClass) -> None:
    number, _ = go_at_once(SlotWindow(), kind)

    assert number == 20


def test_after_the_burst_the_rest_of_the_minute_is_spread_over_it() -> None:
    _, window = go_at_once(SlotWindow(), "work")
    at, sent = NOW, [NOW]
    while len(sent) < 75:
        at += window.at(at, HUNDRED).delay(SlotRequest("work"), at, HUNDRED)
        window = send(window, "work", 1, at)
        sent.append(at)

    assert 35 < (sent[-1] - NOW) / SECOND < 60
    assert max(later - sooner for sooner, later in pairwise(sent)) < 4 * SECOND


def test_reads_of_callers_use_up_nobody_elses_burst() -> None:
    _, window = go_at_once(SlotWindow(), "callers")
    _, window = go_at_once(window, "lookups")

    assert delay(window, "callers") > 55
    assert go_at_once(window, "work")[0] == 20


def test_stops_and_deletes_have_room_that_others_have_not() -> None:
    full = send(SlotWindow(), "work", 98)

    assert delay(full, "work") > 55
    assert delay(full, "looks") > 55
    assert go_at_once(full, "ends")[0] == 6


def test_beyond_their_tenth_stops_and_deletes_wait_like_others() -> None:
    _, window = go_at_once(SlotWindow(), "ends")
    full = send(window, "work", 98 - window.used())

    assert window.used("ends") == 10 + 20
    assert delay(full, "ends") > 55


def test_what_novita_has_refused_uses_a_tenth_and_nobody_elses_room() -> None:
    number, window = go_at_once(SlotWindow(), "refused")

    assert number == 10
    assert delay(window, "refused") > 55
    assert go_at_once(window, "work")[0] == 20
    assert go_at_once(window, "ends")[0] == 10 + 20


def test_what_novita_has_refused_is_asked_for_once_a_minute_whatever_else_is_wanted() -> None:
    busy = waiting(send(SlotWindow(), "work", 60), "work", "create")

    assert delay(busy, "refused") == 0
    assert delay(send(busy, "refused", 1), "refused") > 0


def test_looks_that_wait_go_before_purchases_until_they_have_their_share() -> None:
    full = send(SlotWindow(), "work", 97)
    under, over = (waiting(send(full, "looks", has), "looks", "theirs") for has in (1, 30))

    assert delay(waiting(send(SlotWindow(), "work", 97), "looks", "theirs"), "work") > 55
    assert delay(send(SlotWindow(), "work", 97), "work") == 0
    assert under.claim("looks", HUNDRED) < under.claim("work", HUNDRED)
    assert over.claim("looks", HUNDRED) > send(SlotWindow(), "work", 51).claim("work", HUNDRED)


def test_what_nobody_waits_for_is_lent() -> None:
    window = send(SlotWindow(), "looks", 97)

    assert delay(window, "looks") == 0


def test_a_callers_read_never_goes_while_a_purchase_waits() -> None:
    in_a_while = waiting(replace(send(SlotWindow(), "work", 20), credit_at=NOW), "work", "theirs", NOW + 3000)

    assert delay(in_a_while, "callers") > 0
    assert delay(send(SlotWindow(), "work", 20), "callers") == 0


def test_a_callers_read_never_goes_while_a_purchase_that_was_put_off_is_on_its_way_back() -> None:
    put_off = replace(SlotWindow(), buyers_until=NOW + 4 * SECOND)

    assert delay(put_off, "callers") == 4
    assert delay(put_off, "lookups") == 0, "a create is accepted meanwhile"
    assert delay(send(put_off, "lookups", 5), "lookups") == 4, "if not too many are"
    assert delay(put_off, "work") == 0


def test_first_come_first_served_within_a_class() -> None:
    window = send(SlotWindow(), "work", 97)
    line = waiting(waiting(window, "work", "theirs"), "work", "mine")

    assert delay(line, "work") > 55
    assert delay(line.without("theirs"), "work") == 0
    assert delay(waiting(waiting(window, "work", "mine"), "work", "theirs"), "work") == 0


def test_what_is_free_now_is_not_kept_for_one_who_comes_later() -> None:
    window = send(SlotWindow(), "work", 97)

    assert delay(waiting(window, "looks", "theirs", NOW + TICK), "work") > 55
    assert delay(waiting(window, "looks", "theirs", NOW + TICK + 1), "work") == 0


def test_one_who_does_not_come_is_not_waited_for() -> None:
    line = waiting(SlotWindow(), "work", "theirs", NOW)

    assert line.at(NOW + LATE - 1, HUNDRED).waiting
    assert not line.at(NOW + LATE, HUNDRED).waiting


def test_a_purchase_that_is_begun_waits_neither_for_the_pace_nor_for_others_to_begin() -> None:
    _, window = go_at_once(SlotWindow(), "work")
    line = waiting(window, "work", "theirs")

    assert delay(line, "work") > 0
    assert delay(line, "work", begun=True) == 0
    begun = line.wait_in_line(SlotRequest("work", "mine", begun=True), NOW)
    assert [one.ticket for one in begun.waiting] == ["mine", "theirs"]


def test_a_crowd_of_callers_takes_no_place_in_the_line_from_those_who_work() -> None:
    window = SlotWindow()
    for number in range(100):
        if not window.is_crowded("callers"):
            window = waiting(window, "callers", f"caller {number}")

    assert len(window.waiting) == 20
    assert window.is_crowded("lookups")
    assert not window.is_crowded("work")


@pytest.mark.parametrize("kind", CLASSES)
def test_nobody_goes_during_a_pause(kind: SlotClass) -> None:
    paused = SlotWindow().pause(exactly(NOW), 20 * SECOND)

    assert delay(paused, kind) == 20
    assert delay(paused, kind, NOW + 20 * SECOND) == 0


def test_a_pause_keeps_what_novita_has_refused_for_no_longer_than_other_ends() -> None:
    paused = SlotWindow().pause(exactly(NOW), 3600 * SECOND)

    assert delay(paused, "refused") == delay(paused, "ends") < 60


def test_a_pause_keeps_stops_and_deletes_for_less_than_a_minute_however_often_it_is_renewed() -> None:
    paused = SlotWindow().pause(exactly(NOW), 3600 * SECOND)
    renewed = paused.pause(exactly(NOW + 30 * SECOND), 3600 * SECOND)

    assert delay(renewed, "ends") == 50
    assert delay(renewed, "ends", NOW + 50 * SECOND) == 0
    assert delay(renewed, "work") == 3630


def test_a_shorter_pause_does_not_end_a_longer_one() -> None:
    paused = SlotWindow().pause(exactly(NOW), 20 * SECOND).pause(exactly(NOW), SECOND)

    assert delay(paused, "work") == 20


@pytest.mark.parametrize("per_minute", [1, 2, 5, 6, 10, 33, 99, 100, 10_000])
def test_every_limit_can_be_kept_and_used(per_minute: int) -> None:
    limits = SlotLimits.of(per_minute)

    assert 0.98 * per_minute <= limits.normal <= per_minute
    assert limits.normal <= limits.everything <= 1.05 * per_minute
    assert limits.burst >= 1
    assert min(limits.most.values()) >= 1
    assert limits.most["callers"] <= max(1, per_minute // 5 + 1)
    assert sum(limits.share.values()) <= limits.normal or per_minute < 10


ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 20_000),  # milliseconds since the one before
        st.sampled_from(CLASSES),
        st.integers(1, 40),  # so many in a moment
        st.integers(-500, 500),  # how far the environment's idea of the time is from the middle of its bounds
        st.integers(0, 500),  # of which the true time may be anywhere
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=200)
@given(ARRIVALS, st.sampled_from([5, 100, 250]))
def test_never_more_than_105_percent_in_any_60_true_seconds(
    arrivals: list[tuple[int, SlotClass, int, int, int]], per_minute: int
) -> None:
    limits, window, true = SlotLimits.of(per_minute), SlotWindow(), NOW
    sent: list[int] = []

    for pause, kind, number, error, width in arrivals:
        true += pause
        middle = true + max(-width, min(width, error))
        known = TableTime(middle - width, middle + width)
        request = SlotRequest(kind)
        for _ in range(number):
            seen = window.at(known.earliest, limits)
            if seen.delay(request, known.earliest, limits) == 0:
                window, _ = seen.grant(request, known, limits)
                sent.append(true)

    most = max((bisect_right(sent, at + MINUTE) - i for i, at in enumerate(sent)), default=0)
    assert most <= per_minute * 1.05
