"""Part C's promises of twenty environments, against DynamoDB's API over HTTP; `bench.fleet` counts them."""

import pytest

from bench import breaking, limiting
from bench.environments import Place
from functions.shared.domain.resilience import SlotClass
from local.emulator import Emulator


@pytest.fixture(scope="module")
def place(emulator_over_http: Emulator) -> Place:
    return Place(emulator_over_http.url)


def test_a_dead_novita_gets_the_threshold_and_one_call_of_each_environment(place: Place) -> None:
    for _ in range(2):
        seen = breaking.stampede(place)

        assert seen.calls <= 5 + 20
        assert seen.openings == 1


def test_while_open_the_fleet_sends_one_probe_in_each_recovery_period(place: Place) -> None:
    seen = breaking.while_open(place)

    assert seen.probes == seen.periods
    assert seen.probes_before_time == 0
    assert seen.shortest_gap_seconds >= 60


def test_after_recovery_all_resume_within_one_cache_lifetime(place: Place) -> None:
    seen = breaking.recovery(place)

    assert seen.resumed == 20
    assert seen.last_after_seconds <= 5


def test_a_stale_prober_cannot_overwrite_a_newer_state(place: Place) -> None:
    seen = breaking.stale_prober(place)

    assert seen.reports == 6
    assert seen.moved == 0


def test_without_the_table_everything_goes_out_but_a_create() -> None:
    seen = breaking.unreachable()

    assert (seen.reads, seen.starts, seen.deletes, seen.creates) == (True, True, True, False)


def test_a_healthy_circuit_is_never_written_and_read_once_in_a_cache_lifetime(place: Place) -> None:
    seen = breaking.healthy(place, 10_000, 50)

    assert seen.calls == 10_000
    assert seen.writes == 0
    assert seen.most_reads <= seen.lifetimes


@pytest.mark.parametrize("minutes", [3, pytest.param(10, marks=pytest.mark.soak)])
@pytest.mark.parametrize("skews", [(0.0,), (-30.0, 0.0, 30.0)])
def test_minutes_of_enough_work_keep_between_95_and_105_a_minute(
    place: Place, minutes: int, skews: tuple[float, ...]
) -> None:
    seen = limiting.traffic(place, minutes * 60, skews=skews)

    assert all(seen.between(60 * minute, 60 * minute + 60) >= 95 for minute in range(minutes))
    assert seen.most_in_60_seconds <= 105
    assert seen.writes_per_call <= 4


def test_clocks_that_differ_by_a_minute_refuse_nobody_who_would_not_be_anyway(place: Place) -> None:
    alike, differing = (
        limiting.traffic(place, 65, kinds=limiting.EVERYBODY, skews=skews)
        for skews in ((0.0,), (30.0, -30.0, 0.0))
    )

    assert differing.refusals == alike.refusals
    assert differing.sent == alike.sent


def test_whoever_wants_more_than_its_share_gets_it_and_callers_what_is_left(place: Place) -> None:
    seen = limiting.traffic(place, 185, kinds=limiting.EVERYBODY, deletes=limiting.DELETES)

    assert seen.most_in_60_seconds <= 105
    for start in (65, 125):
        assert seen.between(start, start + 60, "ends") >= 10
        assert seen.between(start, start + 60, "looks") >= 29
        assert seen.between(start, start + 60, "work") >= 45
        assert seen.between(start, start + 60, "callers") <= 2, "never ahead of a purchase"


@pytest.mark.parametrize("kind", ["looks", "work", "lookups", "callers"])
def test_after_a_quiet_minute_twenty_calls_go_at_once_without_a_wait(place: Place, kind: SlotClass) -> None:
    for _ in range(2):
        seen = limiting.burst(place, kind)

        assert seen.went_at_once == 20


def test_a_rush_of_creates_leaves_room_for_a_delete_at_once_and_a_look_soon(place: Place) -> None:
    seen = limiting.rush_of_creates(place)

    assert seen.creates > 80
    assert seen.delete_wait == 0
    assert seen.look_wait <= 2


def test_a_thousand_creates_keep_no_machine_from_being_looked_at(place: Place) -> None:
    seen = limiting.machines_beside_creates(place, 125)

    assert seen.refusals["looks"] == 0
    assert max(seen.waits["looks"]) <= 7
    assert seen.between(60, 120, "work") >= 60, "what looks do not want is lent"


def test_a_create_does_not_wait_for_one_key_that_reads_as_fast_as_it_can(place: Place) -> None:
    seen = limiting.creates_beside_readers(place, 65)

    assert set(seen.waits["work"]) == {0.0}
    assert seen.between(0, 60, "callers") <= 20
    assert seen.writes < len(seen.sent) * 3, "refusals cost next to nothing"


def test_a_429_slows_the_whole_fleet_to_what_it_asks_for(place: Place) -> None:
    seen = limiting.traffic(place, 70, pauses={30.0: 20.0})

    assert seen.between(0, 30) > 40
    assert seen.between(30.001, 50) == 0
    assert seen.between(50, 70) > 0


def test_a_429_keeps_a_delete_for_a_minute_at_most(place: Place) -> None:
    seen = limiting.traffic(place, 100, pauses={20.0: 3600.0}, deletes=(25.0, 69.0, 90.0))

    assert seen.between(20.001, 100, "work") == 0
    assert seen.between(20.001, 70, "ends") == 0
    assert seen.between(70, 95, "ends") == 2, "the first was told to come back, and did not here"


def test_a_high_limit_costs_next_to_nothing(place: Place) -> None:
    seen = limiting.high_limit(place, 2000)

    assert seen.writes <= seen.calls / 20
