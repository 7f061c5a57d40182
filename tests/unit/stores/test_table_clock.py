"""The table's time as a process knows it: from the dates of its answers, whatever the own clock says."""

from datetime import timedelta

import pytest

from bench.virtual_time import Clock, dated
from functions.shared.stores.table import TableClock


def _true(clock: Clock) -> int:
    return round(clock().timestamp() * 1000)


def _table_clock(clock: Clock, skew: float = 0.0) -> TableClock:
    return TableClock(lambda: clock() + timedelta(seconds=skew), lambda: clock().timestamp())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("skew", [-30.0, -0.4, 0.0, 30.0, 3600.0])
def test_one_answer_tells_the_time_to_a_second(clock: Clock, skew: float) -> None:
    table = _table_clock(clock, skew)
    clock.advance(0.3)

    table.learn(table.own(), dated(clock()))

    known = table.now()
    assert known.earliest <= _true(clock) <= known.latest
    assert known.latest - known.earliest == 1000


def test_more_answers_narrow_it_down(clock: Clock) -> None:
    table = _table_clock(clock, 17.25)
    for _ in range(20):
        clock.advance(1.13)
        table.learn(table.own(), dated(clock()))

        known = table.now()
        assert known.earliest <= _true(clock) <= known.latest

    assert known.latest - known.earliest < 200


def test_the_time_of_the_answer_is_somewhere_between_request_and_answer(clock: Clock) -> None:
    table = _table_clock(clock)
    sent = table.own()
    clock.advance(0.9)
    answer = dated(clock())
    clock.advance(0.9)

    table.learn(sent, answer)

    known = table.now()
    assert known.earliest <= _true(clock) <= known.latest


@pytest.mark.parametrize("set_by", [-45.0, -0.4, 0.4, 30.0])
def test_a_clock_that_was_set_is_noticed_and_followed(clock: Clock, set_by: float) -> None:
    skew = [0.0]
    table = TableClock(lambda: clock() + timedelta(seconds=skew[0]), lambda: clock().timestamp())
    for _ in range(10):
        clock.advance(1.13)
        table.learn(table.own(), dated(clock()))
    before = table.is_sure()
    skew[0] = set_by

    after = table.is_sure()
    table.learn(table.own(), dated(clock()))

    assert (before, after, table.is_sure()) == (True, False, True)

    known = table.now()
    assert known.earliest <= _true(clock) <= known.latest


def test_what_was_learned_long_ago_is_less_sure(clock: Clock) -> None:
    table = _table_clock(clock)
    table.learn(table.own(), dated(clock()))
    assert table.is_sure()
    clock.advance(3600)

    known = table.now()

    assert not table.is_sure()

    assert known.latest - known.earliest == 1000 + 2 * 360


@pytest.mark.parametrize(
    "answer", [{}, {"ResponseMetadata": {}}, {"ResponseMetadata": {"HTTPHeaders": {"date": "yesterday"}}}]
)
def test_an_answer_without_a_date_teaches_nothing(clock: Clock, answer: dict[str, object]) -> None:
    table = _table_clock(clock)

    table.learn(table.own(), answer)

    assert table.now() == (_true(clock), _true(clock))
    assert not table.is_sure()
