from bisect import bisect_right
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.shared.stores import rate_limiter as limit
from functions.shared.stores.rate_limiter import LONGEST_WAIT, MINUTE, SECOND, Lane, LanePace, Lanes, SlotPlan

NOW = 1_900_000_000 * SECOND
HUNDRED = LanePace.of(100)


def write(plan: SlotPlan, lanes: Lanes) -> Lanes:
    for move in plan.moves:
        name = f"{move.lane}_at"
        at = plan.start if move.idle else getattr(lanes, name)
        lanes = replace(lanes, **{name: at + move.by})
    return lanes


def take(kind: Lane, lanes: Lanes, now: int, pace: LanePace) -> tuple[int, Lanes]:
    plan = limit.plan_slot(kind, lanes, now, pace)
    after = write(plan, lanes)
    assert limit.granted_slot(plan, after, pace) == plan.slot
    return plan.slot, after


def test_the_first_call_goes_at_once_and_the_next_a_little_later() -> None:
    first, lanes = take("normal", Lanes(), NOW, HUNDRED)
    second, _ = take("normal", lanes, NOW, HUNDRED)

    assert first == NOW
    assert second == NOW + 625_000


def test_what_was_not_used_is_not_saved_up() -> None:
    _, lanes = take("normal", Lanes(), NOW, HUNDRED)
    much_later = NOW + 10 * MINUTE
    first, lanes = take("normal", lanes, much_later, HUNDRED)
    second, _ = take("normal", lanes, much_later, HUNDRED)

    assert (first, second) == (much_later, much_later + 625_000)


def test_urgent_calls_pass_a_queue_of_normal_ones_and_are_taken_from_it() -> None:
    queue = Lanes(normal_at=NOW + 15 * SECOND)

    slots = []
    for _ in range(7):
        slot, queue = take("urgent", queue, NOW, HUNDRED)
        slots.append((slot - NOW) // SECOND)

    assert slots == [0, 0, 0, 0, 0, 6, 12]
    assert queue.normal_at == NOW + 15 * SECOND + 7 * 625_000


def test_urgent_calls_use_the_normal_lane_while_it_is_free() -> None:
    slot, lanes = take("urgent", Lanes(), NOW, HUNDRED)

    assert slot == NOW
    assert lanes.urgent_at == 0


@pytest.mark.parametrize("kind", ["normal", "urgent"])
def test_nobody_gets_a_slot_before_a_pause_ends(kind: Lane) -> None:
    end = NOW + 20 * SECOND

    slot, _ = take(kind, Lanes(NOW, NOW, end), NOW, HUNDRED)

    assert slot == end


@pytest.mark.parametrize("per_minute", [1, 2, 10, 99, 100, 10_000])
def test_every_limit_makes_a_pace(per_minute: int) -> None:
    pace = LanePace.of(per_minute)

    assert pace.normal_gap * per_minute >= MINUTE
    assert pace.urgent_burst >= 1
    assert pace.batch >= 1
    assert pace.batch * pace.normal_gap <= max(SECOND // 4, pace.normal_gap)


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 20_000), st.integers(0, 40), st.integers(0, 15), st.integers(0, 20)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=200)
@given(ARRIVALS, st.sampled_from([100, 250, 1000]))
def test_nobody_gets_more_than_105_percent_in_any_60_seconds(
    arrivals: list[tuple[int, int, int, int]], per_minute: int
) -> None:
    pace, lanes, now = LanePace.of(per_minute), Lanes(), NOW
    sent: list[int] = []

    for wait_millis, normal, urgent, patience in arrivals:
        now += wait_millis * 1000
        kinds: list[Lane] = ["normal" for _ in range(normal * per_minute // 100)]
        kinds += ["urgent" for _ in range(urgent)]
        for kind in kinds:
            if limit.plan_slot(kind, lanes, now, pace).slot <= now + min(patience * SECOND, LONGEST_WAIT):
                slot, lanes = take(kind, lanes, now, pace)
                sent.append(slot)

    sent.sort()
    most = max((bisect_right(sent, at + MINUTE) - i for i, at in enumerate(sent)), default=0)
    assert most <= per_minute * 1.05
