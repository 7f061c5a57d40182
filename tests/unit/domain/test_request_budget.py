"""Request budgets: so many for each caller, filled up again by time."""

from datetime import timedelta

import pytest

from functions.shared.domain.resilience import _MOST_CALLERS, RequestBudget
from tests.unit.tables import Clock


def spent(budget: RequestBudget, caller: str = "a", most: int = 1000) -> int:
    """How many requests the caller can make before it has to wait."""
    for number in range(most):
        if budget.wait(caller):
            return number
        budget.spend(caller)
    return most


def test_ten_seconds_of_it_may_come_at_once() -> None:
    assert spent(RequestBudget(60, Clock())) == 10
    assert spent(RequestBudget(1200, Clock())) == 200


def test_even_the_smallest_has_one() -> None:
    assert spent(RequestBudget(1, Clock())) == 1


def test_the_wait_is_as_long_as_the_next_one_takes_and_no_longer() -> None:
    clock = Clock()
    budget = RequestBudget(60, clock)
    spent(budget)

    assert budget.wait("a") == pytest.approx(1.0)
    clock.now += timedelta(seconds=0.75)
    assert budget.wait("a") == pytest.approx(0.25)
    clock.now += timedelta(seconds=0.25)
    assert budget.wait("a") == 0


def test_over_a_minute_it_is_what_was_promised() -> None:
    clock, made = Clock(), 0
    budget = RequestBudget(60, clock)
    spent(budget)
    for _ in range(600):
        clock.now += timedelta(seconds=0.1)
        made += spent(budget)

    assert made == pytest.approx(60, abs=1)


def test_one_caller_takes_nothing_from_another() -> None:
    budget = RequestBudget(60, Clock())
    spent(budget, "greedy")

    assert budget.wait("greedy") > 0
    assert spent(budget, "modest") == 10


def test_asking_what_is_left_costs_nothing() -> None:
    budget = RequestBudget(60, Clock())
    for _ in range(100):
        budget.wait("a")

    assert spent(budget) == 10


def test_many_callers_take_no_more_room_and_push_out_the_quietest() -> None:
    budget = RequestBudget(60, Clock())
    spent(budget, "busy")
    for number in range(_MOST_CALLERS - 1):
        budget.spend(str(number))
    budget.spend("busy")

    budget.spend("one more")

    assert len(budget._left) == _MOST_CALLERS
    assert budget.wait("busy") > 0
