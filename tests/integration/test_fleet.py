"""Part C's promises of twenty environments, against DynamoDB's API over HTTP; `bench.fleet` prints them."""

import pytest

from bench import breaking, limiting
from bench.environments import Place
from local.emulator import Emulator


@pytest.fixture(scope="module")
def place(emulator: Emulator) -> Place:
    return Place(emulator.url)


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
def test_minutes_of_enough_work_keep_between_95_and_105_a_minute(place: Place, minutes: int) -> None:
    seen = limiting.traffic(place, minutes * 60)

    assert seen.per_minute >= 95
    assert seen.most_in_60_seconds <= 105


def test_deletes_beside_all_that_work_do_not_pass_105_either(place: Place) -> None:
    seen = limiting.traffic(place, 125, deletes=limiting.DELETES)

    assert seen.most_in_60_seconds <= 105
    assert seen.writes_per_call <= 3


def test_a_burst_of_creates_leaves_room_for_a_delete_at_once_and_a_look_soon(place: Place) -> None:
    seen = limiting.burst_of_creates(place)

    assert seen.longest_create_wait > 4
    assert seen.delete_wait == 0
    assert seen.look_wait <= 7


def test_a_429_slows_the_whole_fleet_to_what_it_asks_for(place: Place) -> None:
    seen = limiting.traffic(place, 70, pauses={30.0: 20.0})

    assert seen.between(0, 30) > 40
    assert seen.between(30.001, 50) == 0
    assert 0 < seen.between(50, 70) <= 33


def test_twenty_writers_at_once_get_a_slot_each_within_three_writes(place: Place) -> None:
    seen = limiting.many_at_once(place)

    assert seen.different == seen.slots == 40
    assert seen.most_writes_for_one <= 3


def test_a_high_limit_costs_next_to_nothing(place: Place) -> None:
    seen = limiting.high_limit(place, 2000)

    assert seen.writes <= seen.calls / 20
