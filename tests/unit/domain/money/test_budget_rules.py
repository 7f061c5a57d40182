"""Periods, scopes and thresholds of budgets, and bills that differ."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from functions.shared.domain.errors import SpendingRefused
from functions.shared.domain.money.bills import Bill, counted, first_bill_at, settled_days
from functions.shared.domain.money.budgets import Budget, BudgetAction, read_budget
from functions.shared.domain.money.ledger import Line, LineKind, Span

NOON = datetime(2028, 2, 29, 12, tzinfo=UTC)
MONTH = Budget("b", Decimal(100), "month")


def test_periods_are_days_and_months_in_utc() -> None:
    month, day = MONTH.period_at(NOON), replace(MONTH, period="day").period_at(NOON)

    assert (month.begin, month.end) == (date(2028, 2, 1), date(2028, 3, 1))
    assert len(month.days) == 29
    assert (day.begin, day.end) == (date(2028, 2, 29), date(2028, 3, 1))
    december = MONTH.period_at(datetime(2028, 12, 31, 23, 59, tzinfo=UTC))
    assert december.ends_at == datetime(2029, 1, 1, tzinfo=UTC)


def test_a_budget_covers_all_a_key_or_a_tag() -> None:
    tags = (("team", "a"),)

    assert MONTH.covers("key_own", tags)
    assert replace(MONTH, owner="key_own").covers("key_own", ())
    assert not replace(MONTH, owner="key_other").covers("key_own", tags)
    assert replace(MONTH, tag=("team", "a")).covers("key_own", tags)
    assert not replace(MONTH, tag=("team", "b")).covers("key_own", tags)


@pytest.mark.parametrize("budget", [MONTH, replace(MONTH, owner="k"), replace(MONTH, tag=("team", "a"))])
def test_a_budget_is_read_as_it_was_stored(budget: Budget) -> None:
    assert read_budget(budget.as_json()) == budget


@pytest.mark.parametrize(
    ("spent", "reached"), [("49.9999", []), ("50", [50]), ("99.99", [50, 80]), ("250", [50, 80, 100])]
)
def test_thresholds_are_reached_at_their_percent(spent: str, reached: list[int]) -> None:
    assert MONTH.reached(Decimal(spent)) == reached


@pytest.mark.parametrize("action", list(BudgetAction))
def test_what_is_spent_and_the_first_hour_must_fit(action: BudgetAction) -> None:
    budget = replace(MONTH, action=action)
    budget.require_room(Decimal(99), 1_000_000, NOON)

    if action is BudgetAction.NOTIFY:
        budget.require_room(Decimal(99), 1_000_001, NOON)
        return
    with pytest.raises(SpendingRefused, match="first hour"):
        budget.require_room(Decimal(99), 1_000_001, NOON)


def line(begin: datetime, hours: float, machine_id: str = "m-1") -> Line:
    return Line(machine_id, LineKind.RUNNING, begin, begin + timedelta(hours=hours), Decimal(1))


@pytest.mark.parametrize(
    ("billed", "ours", "differs"),
    [("12", "10", True), ("8", "10", True), ("11", "10", False), ("10.9", "10", False),
     ("1", "0", False), ("1.01", "0", True), ("0", "5", True), ("109", "100", False), ("111", "100", True)],
)  # fmt: skip  # one after the other
def test_a_difference_is_above_a_tenth_and_a_dollar(billed: str, ours: str, differs: bool) -> None:
    assert Bill("m-1", NOON, NOON, Decimal(billed), Decimal(ours)).differs is differs


def test_only_days_that_are_settled_are_asked_for() -> None:
    began = datetime(2028, 2, 27, 12, tzinfo=UTC)

    assert settled_days([line(began, 48)], "m-1", NOON) == Span(
        datetime(2028, 2, 27, tzinfo=UTC), datetime(2028, 2, 29, tzinfo=UTC)
    )
    assert settled_days([line(began, 48)], "m-1", NOON - timedelta(hours=7)) == Span(
        datetime(2028, 2, 27, tzinfo=UTC), datetime(2028, 2, 28, tzinfo=UTC)
    )
    assert settled_days([line(NOON, 1)], "m-1", NOON) is None
    long_ago = settled_days([line(NOON - timedelta(days=90), 24 * 90)], "m-1", NOON)
    assert long_ago
    assert long_ago.end - long_ago.begin == timedelta(days=30)


def test_the_days_of_an_import_and_of_a_release_are_not_compared() -> None:
    """Novita bills all of them, and we count a part."""
    lines = [line(datetime(2028, 2, 25, 18, tzinfo=UTC), 72)]

    imported = settled_days(lines, "m-1", NOON, imported=True)
    released = settled_days(lines, "m-1", NOON, released_at=datetime(2028, 2, 27, 9, tzinfo=UTC))
    on_one_day = settled_days(lines, "m-1", NOON, imported=True, released_at=lines[0].begin)

    assert imported == Span(datetime(2028, 2, 26, tzinfo=UTC), datetime(2028, 2, 29, tzinfo=UTC))
    assert released == Span(datetime(2028, 2, 25, tzinfo=UTC), datetime(2028, 2, 27, tzinfo=UTC))
    assert on_one_day is None


def test_ours_is_what_falls_into_the_days_of_that_machine() -> None:
    day = Span(datetime(2028, 2, 28, tzinfo=UTC), datetime(2028, 2, 29, tzinfo=UTC))
    lines = [line(datetime(2028, 2, 27, 22, tzinfo=UTC), 4), line(day.begin, 3, "m-2"), line(NOON, 1)]

    assert counted(lines, "m-1", day) == 2


def test_bills_are_due_over_some_hours_after_the_day_is_settled() -> None:
    times = {first_bill_at(f"inst_{number}", NOON) for number in range(100)}

    assert min(times) >= datetime(2028, 3, 1, 6, tzinfo=UTC)
    assert max(times) < datetime(2028, 3, 1, 12, tzinfo=UTC)
    assert len(times) > 90
