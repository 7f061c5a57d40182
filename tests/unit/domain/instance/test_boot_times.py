"""How long machines take, learned from those that came up; and from when on looking is worth it."""

import math
from datetime import timedelta
from random import Random

import pytest

from functions.shared.domain.instance import boot_times as estimate
from functions.shared.domain.instance.boot_times import (
    BootEstimate,
    estimate_from,
    expected_ready_at,
    first_look,
)
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.observations import Seen, Tick
from functions.shared.domain.instance.record import Action, Instance
from functions.shared.domain.instance.status import Status
from tests.unit.builders import (
    NOW,
    POLICY,
    after,
    ago,
    new_instance,
    new_machine,
    new_operation,
    new_task,
)


def boots(seed: int, number: int, median: float = 240.0, sigma: float = 0.3) -> list[float]:
    random = Random(seed)
    return [median * math.exp(sigma * random.gauss(0, 1)) for _ in range(number)]


@pytest.mark.parametrize("seen", [0, 1, 3])
def test_a_few_boots_teach_nothing(seen: int) -> None:
    assert estimate_from([240.0] * seen) is None


def test_the_middle_and_the_spread_are_those_of_the_boots() -> None:
    boot = estimate_from(boots(1, 40, median=120))

    assert boot
    assert boot.median_seconds == pytest.approx(120, rel=0.15)
    assert boot.log_spread == pytest.approx(0.3, abs=0.08)


def test_only_the_last_boots_count() -> None:
    was_slow = estimate_from([600.0] * 100 + boots(1, estimate.BOOT_TIMES_KEPT, median=100))

    assert was_slow
    assert was_slow.median_seconds == pytest.approx(100, rel=0.15)


def test_boots_that_all_took_as_long_are_not_taken_for_certain() -> None:
    boot = estimate_from([100.0] * 4)

    assert boot
    assert boot.log_spread > 0.2


def test_a_boot_in_no_time_is_no_error() -> None:
    boot = estimate_from([0.0] * 10)

    assert boot
    assert first_look(boot) < 1


@pytest.mark.parametrize("median", [60.0, 120.0, 240.0, 480.0])
def test_hardly_any_is_up_before_the_first_look_and_it_saves_a_third_of_the_time(median: float) -> None:
    """Of ten estimators each has seen 60 boots, and is tried on 200 others."""
    sooner, number = 0, 0
    for seed in range(10):
        boot = estimate_from(boots(seed, 60, median))
        assert boot
        unseen = boots(seed + 1000, 200, median)
        sooner += sum(one < first_look(boot) for one in unseen)
        number += len(unseen)
        assert first_look(boot) > median / 3

    assert sooner <= 0.01 * number


def test_ready_is_expected_in_four_minutes_unless_something_is_known() -> None:
    assert expected_ready_at(NOW, None) == NOW + timedelta(minutes=4)
    assert expected_ready_at(NOW, BootEstimate(math.log(90), 0.3)) - NOW == pytest.approx(
        timedelta(seconds=90), rel=0.001
    )


# What decide makes of it.

BOOT = BootEstimate(math.log(240), 0.3)


def starting(**changes: object) -> Instance:
    return new_instance(Status.STARTING, **{"acted_at": ago(60), "deadline_at": after(1140)} | changes)


def on_its_way(record: Instance) -> Instance:
    return decide(record, Seen(new_machine("pulling", endpoints=()), NOW), NOW, POLICY).record


def test_the_next_step_is_when_it_may_be_up() -> None:
    record = on_its_way(starting(boot=BOOT))

    assert record.next_check_at == ago(60) + timedelta(seconds=first_look(BOOT))


def test_without_knowledge_the_next_step_is_after_the_interval() -> None:
    assert on_its_way(starting()).next_check_at == after(30)


def test_once_it_may_be_up_the_next_step_is_after_the_interval() -> None:
    record = starting(boot=BOOT, acted_at=ago(200), deadline_at=after(1000))

    assert on_its_way(record).next_check_at == after(30)


def test_a_deadline_comes_before_a_likely_time() -> None:
    assert on_its_way(starting(boot=BOOT, deadline_at=after(20))).next_check_at == after(20)


DELETING_ANOTHER = {"tasks": (new_task(Action.DELETE, "m-2", asked_at=ago(5), checked_at=NOW),)}
OPEN_BOOKS = {"unsettled": True, "read_at": NOW}


@pytest.mark.parametrize("busy", [DELETING_ANOTHER, OPEN_BOOKS])
def test_what_else_is_waited_for_is_not_put_off_by_a_plan(busy: dict[str, object]) -> None:
    assert on_its_way(starting(boot=BOOT, **busy)).next_check_at == after(30)


def test_an_instance_that_is_not_starting_is_looked_at_after_the_interval() -> None:
    stopping = new_instance(Status.STOPPING, boot=BOOT)

    assert decide(stopping, Seen(new_machine("stopping"), NOW), NOW, POLICY).record.next_check_at == after(30)


def test_a_boot_is_timed_to_the_middle_between_the_last_look_and_this_one() -> None:
    record = starting(acted_at=ago(100), seen_at=ago(20), product_id="p1", region="EU", endpoints=())

    decision = decide(record, Seen(new_machine("running"), NOW), NOW, POLICY)

    assert decision.boot_time == estimate.BootTime("create", "p1", "EU", 90.0)


def test_a_start_is_timed_from_when_novita_took_it_and_kept_apart() -> None:
    record = starting(
        acted_at=ago(40), seen_at=ago(500), product_id="p1", operation=new_operation(Action.START)
    )

    decision = decide(record, Seen(new_machine("running"), NOW), NOW, POLICY)

    assert decision.boot_time == estimate.BootTime("start", "p1", "", 20.0)


@pytest.mark.parametrize(
    "record",
    [
        starting(ready_at=ago(9000), acted_at=ago(9000), product_id="p1"),
        starting(acted_at=ago(9000), product_id="p1", operation=new_operation(Action.START)),
    ],
    ids=["a restart that nobody confirmed", "a start of what ran already"],
)
def test_what_came_up_after_no_call_of_ours_teaches_nothing(record: Instance) -> None:
    decision = decide(record, Seen(new_machine("running"), NOW), NOW, POLICY)

    assert decision.events
    assert decision.boot_time is None


@pytest.mark.parametrize("status", [Status.EXITED, Status.MIGRATING, Status.READY])
def test_only_what_was_starting_teaches(status: Status) -> None:
    record = new_instance(status, product_id="p1")

    assert decide(record, Seen(new_machine("running"), NOW), NOW, POLICY).boot_time is None
    assert decide(starting(product_id="p1"), Tick(), NOW, POLICY).boot_time is None
    assert decide(starting(product_id="p1"), Seen(new_machine("pulling"), NOW), NOW, POLICY).boot_time is None
