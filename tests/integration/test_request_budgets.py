"""How often one may ask: each caller for itself, and strangers seldom, without a read or a write."""

from typing import Any

import pytest

from ops import keys
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.wire import Made

WRONG = {"authorization": f"Bearer ost_{'a' * 43}"}


@pytest.fixture
def harness(build: Build) -> Harness:
    return build(REQUESTS_PER_CALLER="60", REQUESTS_PER_STRANGER="30")


def ask(harness: Harness, **headers: Any) -> tuple[int, Any]:
    return harness.call("GET", "/api/circuits", headers=headers)


def statuses(harness: Harness, times: int, **headers: Any) -> list[int]:
    return [ask(harness, **headers)[0] for _ in range(times)]


def looked_up(harness: Harness) -> list[Made]:
    return [made for made in harness.wire.calls if made.name == "GetItem key/key"]


def test_a_caller_that_asks_too_often_is_told_when_to_come_back(harness: Harness) -> None:
    assert statuses(harness, 10) == [200] * 10

    status, answer = ask(harness)

    error = answer["error"]
    assert (status, error["code"], error["retryable"]) == (429, "RATE_LIMIT_EXCEEDED", True)
    harness.advance(error["retryAfter"])
    assert ask(harness)[0] == 200


def test_another_caller_is_answered_meanwhile(harness: Harness) -> None:
    other = keys.new_key()
    harness.add_key(other, "read")
    statuses(harness, 20)

    assert ask(harness, authorization=f"Bearer {other}")[0] == 200


def test_a_refused_request_costs_no_read_and_no_write(harness: Harness) -> None:
    statuses(harness, 12)
    before = len(harness.wire.calls)

    assert ask(harness)[0] == 429
    assert len(harness.wire.calls) == before


def test_strangers_are_soon_not_even_looked_up(harness: Harness) -> None:
    assert set(statuses(harness, 5, **WRONG)) == {401}
    before = len(looked_up(harness))

    assert set(statuses(harness, 50, **WRONG)) == {429}
    assert len(looked_up(harness)) == before
    assert set(statuses(harness, 1, authorization=None)) == {429}


def test_a_caller_who_is_known_here_is_answered_though_strangers_knock_from_the_same_address(
    harness: Harness,
) -> None:
    assert ask(harness)[0] == 200
    statuses(harness, 50, **WRONG)

    assert ask(harness)[0] == 200


def test_strangers_elsewhere_have_tries_of_their_own(harness: Harness) -> None:
    harness.source_ip = "192.0.2.1"
    statuses(harness, 50, **WRONG)
    harness.source_ip = "192.0.2.2"

    assert ask(harness, **WRONG)[0] == 401


def test_the_budget_holds_over_a_minute(harness: Harness) -> None:
    answered = 0
    for _ in range(240):
        answered += ask(harness)[0] == 200
        harness.advance(0.25)

    assert 60 <= answered <= 60 + 10 + 2, "with what may come at once, and a moment that each call takes"


def test_health_can_be_asked_as_often_as_one_likes(harness: Harness) -> None:
    answers = [harness.call("GET", "/health", headers={"authorization": None})[0] for _ in range(50)]

    assert set(answers) == {200}
