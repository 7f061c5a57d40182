"""The ledger: from when to when a machine is counted, and on which days."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.shared.domain.money.ledger import (
    Ledger,
    LineKind,
    Meter,
    Sighting,
    Span,
    amount,
    storage_per_hour,
)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ID = "m-1"
CLOCKS = 300  # seconds by which Novita's clock may differ


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def bought(**terms: Any) -> Ledger:
    return Ledger().add(Meter(ID, Decimal("0.36"), **terms)).expect(ID, at(0))


def see(ledger: Ledger, status: str, seconds: float, *, off: bool = False, **told: float) -> Ledger:
    times = {f"{name}_at": at(value) for name, value in told.items()}
    return ledger.see(ID, Sighting(status, at(seconds), off, **times, bought_at=at(0)))


def lines(ledger: Ledger) -> list[tuple[str, float, float, bool]]:
    return [
        (str(one.kind), (one.begin - NOON).total_seconds(), (one.end - NOON).total_seconds(), one.estimated)
        for one in ledger.new_lines
    ]


def test_a_run_whose_times_are_told_is_exact() -> None:
    ledger = see(bought(), "pulling", 30, started=5)
    ledger = see(ledger, "running", 60, started=5)
    ledger = see(ledger, "exited", 400, off=True, started=5, stopped=365)

    assert lines(ledger) == [("running", 5, 365, False)]
    assert ledger.closed_usd == Decimal("0.036")
    assert not ledger.unsure


def test_a_time_that_is_told_and_cannot_be_is_estimated() -> None:
    """Novita tells a stop that is older than an end that was counted by our own clock."""
    stored = {"storage_usd_per_hour": Decimal("0.01")}
    ledger = see(bought(**stored), "exited", 60, off=True, started=5, stopped=40).expect(ID, at(100))
    not_started = see(ledger, "exited", 150, off=True, started=5, stopped=40)

    assert lines(not_started) == [("running", 5, 40, False), ("storage", 40, 100, True)]
    assert (not_started.meters[0].since, not_started.meters[0].estimated) == (at(100), True)


@pytest.mark.parametrize("wrong", [-8 * 3600, 8 * 3600])
def test_times_that_novita_cannot_have_told_count_for_nothing(wrong: float) -> None:
    """From before it was bought, or yet to come: as by a clock of another time zone."""
    ledger = see(bought(), "running", 30, started=5 + wrong)
    stopped = see(ledger, "exited", 400, off=True, started=5 + wrong, stopped=365 + wrong)
    leaving = ledger.see_leaving(ID, Sighting("removing", at(400), True, None, at(365 + wrong), at(0)))

    assert (ledger.meters[0].since, ledger.unsure) == (at(0), True)
    assert lines(stopped) == [("running", 0, 400, True)]
    assert leaving == ledger


def test_a_clock_of_novitas_that_differs_by_minutes_is_believed() -> None:
    for off in (-240, 240):
        ledger = see(bought(), "running", 30, started=5 + off)

        assert (ledger.meters[0].since, ledger.unsure) == (at(5 + off), False)


def test_a_run_whose_times_are_not_told_is_as_long_as_what_was_seen_allows() -> None:
    ledger = see(bought(), "creating", 20)
    ledger = see(ledger, "running", 50)
    ledger = see(ledger, "exited", 400, off=True)

    assert lines(ledger) == [("running", 20, 400, True)]


def test_one_that_had_stopped_just_before_it_was_imported_is_not_counted_on() -> None:
    """Novita showed it as running still, and its clock is not ours."""
    imported = Ledger().add(Meter(ID, Decimal("0.36"), guessed_price=True, ended_at=at(100)))
    running = see(imported, "running", 100, started=5)

    stopped = see(running, "exited", 160, off=True, started=5, stopped=97)

    assert running.meters[0].since == at(100)
    assert (stopped.meters[0].since, lines(stopped)) == (None, [])


def test_an_answer_from_before_its_start_does_not_end_a_run() -> None:
    ledger = see(bought(), "running", 30, started=5)

    assert see(ledger, "exited", 60, off=True, started=-500, stopped=-100) == ledger


def test_a_restart_is_no_stop() -> None:
    ledger = see(bought(), "running", 30, started=5)
    ledger = see(ledger, "restarting", 100, started=5)
    ledger = see(ledger, "running", 130, started=120)

    assert lines(ledger) == []
    assert ledger.meters[0].since == at(5)


def test_a_stop_and_a_start_between_two_looks_are_counted_where_they_are_told() -> None:
    ledger = see(bought(storage_usd_per_hour=Decimal("0.01")), "running", 30, started=5)
    ledger = see(ledger, "running", 500, started=300, stopped=200)

    assert lines(ledger) == [("running", 5, 200, False), ("storage", 200, 300, False)]
    assert (ledger.meters[0].since, ledger.unsure) == (at(300), False)


def test_a_start_and_a_stop_between_two_looks_are_counted_where_they_are_told() -> None:
    ledger = see(bought(), "running", 30, started=5)
    ledger = see(ledger, "exited", 150, off=True, started=5, stopped=100)
    ledger = see(ledger, "exited", 900, off=True, started=300, stopped=400)

    assert lines(ledger) == [("running", 5, 100, False), ("running", 300, 400, False)]


def test_an_answer_from_before_the_start_changes_nothing() -> None:
    ledger = see(bought(), "running", 30, started=5)
    ledger = see(ledger, "exited", 150, off=True, started=5, stopped=100)
    ledger = see(ledger.expect(ID, at(200)), "running", 230, started=210, stopped=100)

    assert see(ledger, "exited", 240, started=5, stopped=100) == ledger
    assert ledger.meters[0].since == at(210)


def test_an_answer_from_before_the_stop_changes_nothing() -> None:
    ledger = see(bought(storage_usd_per_hour=Decimal("0.01")), "running", 30, started=5)
    ledger = see(ledger, "exited", 150, off=True, started=5, stopped=100)

    assert see(ledger, "running", 160, started=5) == ledger


def test_a_start_of_ours_that_comes_to_nothing_costs_nothing() -> None:
    ledger = see(bought(), "running", 30)
    ledger = see(ledger, "exited", 100, off=True).expect(ID, at(200))
    ledger = see(see(ledger, "exited", 230), "exited", 400, off=True)

    assert lines(ledger) == [("running", 0, 100, True)]
    assert ledger.usd(at(10_000)) == ledger.closed_usd


def test_storage_is_free_up_to_60_gb() -> None:
    assert storage_per_hour(60, None) == 0
    assert storage_per_hour(0, None) == 0
    assert storage_per_hour(84, None) == Decimal("0.005")
    assert storage_per_hour(84, Decimal("0.01")) == Decimal("0.01")


def test_a_price_that_nobody_knows_is_said_to_be_estimated() -> None:
    ledger = Ledger().add(Meter(ID)).expect(ID, at(0))
    ledger = see(ledger, "running", 30, started=5)
    known = ledger.price(ID, Decimal("0.2"), None)

    assert (ledger.usd(at(4000)), ledger.unsure) == (Decimal(), True)
    assert (known.usd(at(3605)), known.unsure) == (Decimal("0.2"), True)


def test_a_machine_that_is_gone_and_there_again_is_not_counted_twice() -> None:
    ledger = see(bought(), "running", 30, started=5).end(ID, at(100))
    ledger = see(ledger.add(Meter(ID, Decimal("0.36"))), "running", 300, started=5)

    assert lines(ledger) == [("running", 5, 100, True)]
    assert ledger.meters[0].since == at(100)


def test_a_machine_that_was_taken_for_gone_and_has_stopped_since_was_billed_until_then() -> None:
    ledger = see(bought(), "running", 30, started=5).end(ID, at(100))
    ledger = ledger.add(Meter(ID, Decimal("0.36"))).expect(ID, at(100))
    ledger = see(ledger, "exited", 400, off=True, started=5, stopped=300)

    assert lines(ledger) == [("running", 5, 100, True), ("running", 100, 300, True)]
    assert ledger.meters[0].since is None


def leaving(ledger: Ledger, **told: float) -> Ledger:
    times = {f"{name}_at": at(value) for name, value in told.items()}
    return ledger.see_leaving(ID, Sighting("removing", at(900), off=True, **times))


def test_what_is_removed_and_had_stopped_before_is_counted_until_then() -> None:
    """It stopped by itself, nobody could look, and then its delete was taken."""
    ledger = see(bought(storage_usd_per_hour=Decimal("0.01")), "running", 30, started=5)
    stopped = leaving(ledger, started=5, stopped=300).end(ID, at(890))
    again = leaving(ledger, started=500, stopped=300).end(ID, at(890))

    assert lines(stopped) == [("running", 5, 300, False), ("storage", 300, 890, True)]
    assert lines(again)[-1] == ("running", 500, 890, True)
    assert leaving(ledger) == leaving(ledger, stopped=2) == ledger
    assert leaving(Ledger(), stopped=300) == Ledger()


def test_each_day_has_its_part() -> None:
    ledger = replace(see(bought(), "running", 30, started=0), tags=(("team", "a"),))
    ledger = ledger.carry(at(86_400), (("team", "a"),))
    ledger = ledger.end(ID, at(86_400 + 3600))

    assert [(one.day, one.usd) for one in ledger.new_entries] == [
        (date(2030, 1, 1), Decimal("4.32")),
        (date(2030, 1, 2), Decimal("4.68")),
    ]
    assert all(one.tags == (("team", "a"),) for one in ledger.new_entries)


def test_tags_count_from_when_they_are_set() -> None:
    ledger = see(bought(), "running", 30, started=0).carry(at(60), ())
    ledger = ledger.carry(at(3600), (("team", "a"),)).end(ID, at(7200))

    assert [(one.tags, one.usd) for one in ledger.new_entries] == [
        ((), Decimal("0.36")),
        ((("team", "a"),), Decimal("0.36")),
    ]


def test_what_was_booked_too_much_is_taken_back_on_its_day() -> None:
    ledger = see(bought(), "running", 30, started=0).carry(at(60), ())
    ledger = ledger.carry(at(12 * 3600 + 60), ())
    ledger = see(ledger, "exited", 12 * 3600 + 90, off=True, started=0, stopped=11 * 3600)

    assert [(one.day, one.usd) for one in ledger.new_entries] == [
        (date(2030, 1, 1), Decimal("4.32")),
        (date(2030, 1, 1), Decimal("-0.36")),
    ]
    assert ledger.closed_usd == Decimal("3.96")


WORDS = ("toCreate", "creating", "pulling", "running", "toStop", "exited", "toStart", "starting", "toRemove")


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, float, bool, float | None, float | None]]:
    told = st.one_of(st.none(), st.floats(0, 400_000), st.floats(-900_000, 900_000))
    steps = draw(st.lists(st.tuples(st.sampled_from(WORDS), st.booleans(), told, told), max_size=12))
    seconds = sorted(draw(st.lists(st.floats(0, 400_000), min_size=len(steps), max_size=len(steps))))
    return [(word, second, *rest) for second, (word, *rest) in zip(seconds, steps, strict=True)]  # type: ignore[misc]  # hypothesis


@given(histories(), st.lists(st.floats(0, 500_000), max_size=6))
def test_whatever_is_seen_no_intervals_overlap_and_the_days_make_the_whole(
    history: list[tuple[str, float, bool, float | None, float | None]], carries: list[float]
) -> None:
    ledger, left, now = bought(storage_usd_per_hour=Decimal("0.01")), sorted(carries), 0.0
    for word, second, off, started, stopped in history:
        while left and left[0] <= second:
            now = left.pop(0)
            ledger = ledger.carry(at(now), (("n", str(len(left))),))
        told = {"started": started, "stopped": stopped}
        now = second
        ledger = see(ledger, word, second, off=off, **{k: v for k, v in told.items() if v is not None})
        if word == "exited":
            ledger = ledger.expect(ID, at(second))
    ledger = ledger.end(ID, at(now + 10))

    spans = sorted((one.begin, one.end) for one in ledger.new_lines)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert all(begin < end for begin, end in spans)
    assert all(at(-CLOCKS) <= begin and end <= at(now + 10 + CLOCKS) for begin, end in spans)
    assert ledger.meters == ()
    assert ledger.closed_usd == sum((one.usd for one in ledger.new_lines), Decimal())
    booked = sum((one.usd for one in ledger.new_entries), Decimal())
    assert booked == pytest.approx(ledger.closed_usd, abs=Decimal("0.0000001"))


def test_a_span_of_no_length_costs_nothing() -> None:
    assert amount(Decimal(1), Span(NOON, NOON)) == 0
    assert list(Span(NOON, NOON).days()) == []


def test_only_the_open_interval_is_per_hour() -> None:
    ledger = see(bought(storage_usd_per_hour=Decimal("0.01")), "running", 30, started=5)
    stopped = see(ledger, "exited", 100, off=True, stopped=90)

    assert (ledger.usd_per_hour, stopped.usd_per_hour) == (Decimal("0.36"), Decimal("0.01"))
    assert replace(stopped.meters[0]).kind is LineKind.STORAGE
