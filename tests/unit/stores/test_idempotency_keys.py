"""Idempotency keys: the first answer again, within a day, to the same caller, route and body."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from functions.shared.domain.errors import CallerError, StaleInstance
from functions.shared.stores.idempotency import (
    ApiResult,
    IdempotencyKeys,
    IdempotentRequest,
    idempotent_request,
)
from functions.shared.stores.table import ConditionFailed, Table
from tests.unit.builders import NOW, after

ASKED = idempotent_request("key_1", "POST /api/instances", "k", {"a": 1, "b": [2]})
GIVEN = ApiResult(201, {"instanceId": "inst_1", "price": 0.25, "none": None}, "/api/instances/inst_1")
DAY = 86_400


class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def answers(table: Table, clock: Clock) -> IdempotencyKeys:
    return IdempotencyKeys(table, clock)


def test_the_first_answer_is_given_again(table: Table, answers: IdempotencyKeys) -> None:
    table.transact([answers.write(ASKED, GIVEN)])

    assert answers.find(ASKED) == GIVEN


def test_an_unused_key_has_no_answer(answers: IdempotencyKeys) -> None:
    assert answers.find(ASKED) is None


@pytest.mark.parametrize(
    "other",
    [
        ("key_2", "POST /api/instances", "k"),
        ("key_1", "POST /api/instances/inst_1/start", "k"),
        ("key_1", "POST /api/instances", "K"),
        ("key_1POST /api/instances", "", "k"),
    ],
)
def test_another_caller_route_or_key_is_another_request(
    table: Table, answers: IdempotencyKeys, other: tuple[str, str, str]
) -> None:
    table.transact([answers.write(ASKED, GIVEN)])

    assert answers.find(idempotent_request(*other, {"a": 1, "b": [2]})) is None


@pytest.mark.parametrize("body", [{"a": 1}, {"a": 1, "b": [2, 3]}, {"a": "1", "b": [2]}, None, []])
def test_another_body_under_the_same_key_is_refused(
    table: Table, answers: IdempotencyKeys, body: Any
) -> None:
    table.transact([answers.write(ASKED, GIVEN)])

    with pytest.raises(CallerError) as caught:
        answers.find(idempotent_request("key_1", "POST /api/instances", "k", body))

    assert caught.value.code == "IDEMPOTENCY_KEY_REUSED"


def test_the_order_of_fields_does_not_make_another_body(table: Table, answers: IdempotencyKeys) -> None:
    table.transact([answers.write(ASKED, GIVEN)])

    assert answers.find(idempotent_request("key_1", "POST /api/instances", "k", {"b": [2], "a": 1})) == GIVEN


def test_text_that_is_no_unicode_is_still_a_body() -> None:
    assert idempotent_request("k", "r", "k", {"a": "\ud800"}) != idempotent_request("k", "r", "k", {"a": "?"})


def test_of_two_writes_at_the_same_moment_one_wins(table: Table, answers: IdempotencyKeys) -> None:
    first, second = (
        answers.write(ASKED, GIVEN),
        answers.write(ASKED, ApiResult(201, {"instanceId": "inst_2"})),
    )
    table.transact([first])

    with pytest.raises(ConditionFailed):
        table.transact([second])

    assert answers.find(ASKED) == GIVEN


@pytest.mark.parametrize("waited", [DAY - 1, DAY, DAY + 0.5, 2 * DAY])
def test_a_key_is_either_answered_or_free_never_neither(
    table: Table, answers: IdempotencyKeys, clock: Clock, waited: float
) -> None:
    """The table removes what has expired hours later, so both look at the time."""
    table.transact([answers.write(ASKED, GIVEN)])
    clock.now = after(waited)

    found = answers.find(ASKED)
    try:
        table.transact([answers.write(ASKED, GIVEN)])
        free = True
    except ConditionFailed:
        free = False

    assert (found is None) == free == (waited >= DAY)


class Attempts:
    """Loses so many writes to somebody else, then answers."""

    def __init__(self, lost: int, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.left, self.made, self._meanwhile = lost, 0, meanwhile

    def __call__(self) -> ApiResult:
        self.made += 1
        if self.left:
            self.left -= 1
            self._meanwhile()
            raise [ConditionFailed(), StaleInstance("inst_1")][self.left % 2]
        return GIVEN


@pytest.mark.parametrize("asked", [ASKED, None])
def test_an_attempt_that_was_overtaken_is_made_anew_and_not_for_ever(
    answers: IdempotencyKeys, asked: IdempotentRequest | None
) -> None:
    lucky, hopeless = Attempts(lost=4), Attempts(lost=99)

    assert answers.once(asked, lucky, "it") == GIVEN
    with pytest.raises(StaleInstance):
        answers.once(asked, hopeless, "it")
    assert (lucky.made, hopeless.made) == (5, 5)


def test_what_another_request_of_the_same_key_answered_meanwhile_is_the_answer(
    table: Table, answers: IdempotencyKeys
) -> None:
    theirs = ApiResult(202, {"by": "the other"})
    overtaken = Attempts(lost=1, meanwhile=lambda: table.transact([answers.write(ASKED, theirs)]))

    assert answers.once(ASKED, overtaken, "it") == theirs
    assert answers.once(ASKED, overtaken, "it") == theirs
    assert overtaken.made == 1
