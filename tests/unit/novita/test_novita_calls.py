"""Every answer that Novita is known to give, and many that it should not, as an error of ours."""

from typing import Any

import pytest

from functions.shared.domain.errors import (
    ImageAuthRefused,
    InvalidState,
    MachineNotFound,
    NoCapacity,
    NotFound,
    NotNow,
    NovitaForNow,
    NovitaRefused,
    OutcomeUnclear,
)
from functions.shared.novita import calls as reasons
from functions.shared.novita.calls import (
    CallFailure,
    NoResponse,
    NovitaCall,
    NovitaResponse,
    ReasonMeaning,
    Repeat,
    classify,
)

READ = NovitaCall("list products", "GET", "/products")
GET = NovitaCall("show machine m1", "GET", "/gpu/instance", machine_id="m1")
TEMPLATE = NovitaCall("show template 7", "GET", "/template", template_id="7")
START = NovitaCall("start machine m1", "POST", "/gpu/instance/start", circuit="actions", machine_id="m1")
RESTART = NovitaCall(
    "restart machine m1", "POST", "/r", circuit="actions", machine_id="m1", repeat=Repeat.IF_UNSENT
)
CREATE = NovitaCall("create x", "POST", "/gpu/instance/create", circuit="buys", repeat=Repeat.NEVER)
CREATE_WITH_AUTH = NovitaCall(
    "create x", "POST", "/c", circuit="buys", repeat=Repeat.NEVER, image_auth_by_id=True
)
EVERY_CALL = [READ, GET, TEMPLATE, START, RESTART, CREATE]

UNREACHED = NoResponse(timed_out=False, sent=False)
STATUS = {"UNKNOWN": 500, "WALLET_NOT_FOUND": 500, "UNAUTHORIZED": 401, "FORBIDDEN": 403}
DOCUMENTED = [*reasons.MEANINGS, "USER_NOT_FOUND", "SERVERLESS_ENDPOINT_NOT_FOUND"]


def said(status: int, reason: str = "", message: str = "", **more: Any) -> NovitaResponse:
    body = {"code": status, "reason": reason, "message": message, "metadata": {}}
    return NovitaResponse(status, body, **more)


def verdict(call: NovitaCall, outcome: NovitaResponse | NoResponse) -> CallFailure:
    result = classify(call, outcome)
    assert isinstance(result, CallFailure)
    return result


@pytest.mark.parametrize("reason", DOCUMENTED)
@pytest.mark.parametrize("call", EVERY_CALL, ids=lambda call: call.what)
def test_every_documented_reason_is_an_error_that_names_it(call: NovitaCall, reason: str) -> None:
    error = verdict(call, said(STATUS.get(reason, 400), reason)).error

    assert reason in error.message or isinstance(error, MachineNotFound)
    assert isinstance(error, NovitaRefused | NovitaForNow | NotFound)


@pytest.mark.parametrize(
    "reason", [word for word, is_ in reasons.MEANINGS.items() if is_ is ReasonMeaning.CAPACITY]
)
def test_no_capacity_lets_the_next_offer_be_tried(reason: str) -> None:
    found = verdict(CREATE_WITH_AUTH, said(400, reason))

    assert isinstance(found.error, NoCapacity)
    assert found.error.code == "RESOURCE_CONSTRAINTS"


@pytest.mark.parametrize(
    "reason", [word for word, is_ in reasons.MEANINGS.items() if is_ is ReasonMeaning.MONEY]
)
def test_money_is_a_refusal_with_its_reason(reason: str) -> None:
    error = verdict(CREATE_WITH_AUTH, said(400, reason)).error

    assert type(error) is NovitaRefused
    assert error.code == "NOVITA_REJECTED"
    assert error.details == {"httpStatus": 400, "reason": reason}


@pytest.mark.parametrize(
    "answer",
    [
        said(401, "UNAUTHORIZED"),
        said(403, "INVALID_API_KEY"),
        said(400, "MISSING_API_KEY"),
        NovitaResponse(403),
    ],
)
def test_a_key_that_is_not_taken_is_an_authentication_failure(answer: NovitaResponse) -> None:
    for call in EVERY_CALL:
        error = verdict(call, answer).error
        assert isinstance(error, NovitaRefused)
        assert error.code == "NOVITA_AUTHENTICATION_FAILED"


@pytest.mark.parametrize(
    "answer",
    [
        said(400, "RESOURCE_NOT_FOUND"),
        said(404, "RESOURCE_NOT_FOUND"),
        said(410, "RESOURCE_NOT_FOUND"),
    ],
)
def test_novitas_own_not_found_means_that_there_is_no_such_machine(answer: NovitaResponse) -> None:
    assert isinstance(verdict(GET, answer).error, MachineNotFound)
    assert isinstance(verdict(START, answer).error, MachineNotFound)
    assert verdict(TEMPLATE, answer).error.code == "TEMPLATE_NOT_FOUND"


@pytest.mark.parametrize(
    "answer",
    [
        NovitaResponse(404),
        NovitaResponse(404, []),
        NovitaResponse(404, {}),
        NovitaResponse(404, {"message": "no Route matched with those values"}),
        NovitaResponse(404, {"code": 404, "message": "route not found"}),
        NovitaResponse(404, {"code": 404, "reason": "", "message": "route not found", "metadata": {}}),
        NovitaResponse(410, {"code": 410}),
        said(404, "NOT_FOUND"),
        said(404, "SOMETHING_NEW"),
        said(500, "RESOURCE_NOT_FOUND"),
        said(502, "TEMPLATE_NOT_FOUND"),
        NovitaResponse(503, {"code": 404}),
    ],
)
def test_what_a_broken_proxy_or_an_outage_says_is_no_absence(answer: NovitaResponse) -> None:
    for call in (GET, START, TEMPLATE, READ):
        error = verdict(call, answer).error
        assert isinstance(error, NovitaForNow)
        assert error.code == "NOVITA_UNAVAILABLE"


def test_a_404_of_a_broken_proxy_bought_nothing_and_is_not_for_good() -> None:
    assert type(verdict(CREATE, NovitaResponse(404)).error) is NotNow


def test_a_404_without_a_reason_counts_like_a_5xx_and_one_with_a_reason_does_not() -> None:
    lost = verdict(GET, NovitaResponse(404, {"code": 404, "message": "route not found"}))
    told = verdict(GET, said(404, "RESOURCE_NOT_FOUND"))

    assert (lost.counts, lost.again) == (True, True)
    assert (told.counts, told.again) == (False, False)


@pytest.mark.parametrize("reason", ["TEMPLATE_NOT_FOUND", "TEMPLATE_IS_PRIVATE"])
def test_a_template_that_is_missing_or_private_is_not_found(reason: str) -> None:
    error = verdict(TEMPLATE, said(400, reason)).error

    assert isinstance(error, NotFound)
    assert error.code == "TEMPLATE_NOT_FOUND"


@pytest.mark.parametrize(
    "answer",
    [said(400, "REQUEST", "Invalid state change from running"), said(400, "CONFLICT"), said(409, "CONFLICT")],
)
def test_a_refusal_for_the_machines_status_is_recognisable(answer: NovitaResponse) -> None:
    assert isinstance(verdict(START, answer).error, InvalidState)
    assert type(verdict(READ, answer).error) is NovitaRefused


def test_an_auth_id_that_may_be_to_blame_is_recognisable() -> None:
    for reason in ("VALIDATOR_PARAM", "IMAGE_NOT_FOUND", "RESOURCE_NOT_FOUND", "SOMETHING_NEW", ""):
        assert isinstance(verdict(CREATE_WITH_AUTH, said(400, reason)).error, ImageAuthRefused)
        assert type(verdict(CREATE, said(400, reason)).error) is NovitaRefused
    for reason in ("BALANCE_NOT_ENOUGH", "INSUFFICIENT_RESOURCE", "UNAUTHORIZED"):
        assert not isinstance(verdict(CREATE_WITH_AUTH, said(400, reason)).error, ImageAuthRefused)


@pytest.mark.parametrize("status", [429, 400])
def test_too_many_requests_are_not_now_for_every_call(status: int) -> None:
    for call in EVERY_CALL:
        found = verdict(call, said(status, "RATE_LIMIT_EXCEEDED", retry_after=7.0))
        assert type(found.error) is NotNow
        assert (found.error.code, found.error.retry_after) == ("RATE_LIMIT_EXCEEDED", 7.0)
        assert found.too_fast
        assert found.pause_seconds == 7.0
        assert not found.counts


def test_a_429_without_retry_after_still_names_a_wait() -> None:
    assert verdict(READ, NovitaResponse(429)).error.retry_after


@pytest.mark.parametrize("status", range(400, 500))
def test_no_4xx_with_a_reason_counts_against_the_circuit_and_none_makes_a_purchase_unclear(
    status: int,
) -> None:
    for answer in (NovitaResponse(status), said(status, "UNKNOWN"), said(status, "SOMETHING_NEW")):
        for call in EVERY_CALL:
            found = verdict(call, answer)
            assert found.counts is (status in (404, 410) and not answer.reason)
            assert not isinstance(found.error, OutcomeUnclear)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 599])
@pytest.mark.parametrize("reason", ["", "UNKNOWN", "SOMETHING_NEW"])
def test_every_5xx_without_a_business_reason_counts_and_may_be_tried_again(status: int, reason: str) -> None:
    for call in (READ, GET, START, TEMPLATE):
        found = verdict(call, said(status, reason))
        assert type(found.error) is NovitaForNow
        assert found.counts
        assert found.again


def test_a_5xx_with_a_business_reason_does_not_count() -> None:
    assert not verdict(READ, said(500, "WALLET_NOT_FOUND")).counts
    assert type(verdict(READ, said(500, "WALLET_NOT_FOUND")).error) is NovitaRefused
    assert isinstance(verdict(START, said(500, "INSUFFICIENT_RESOURCE")).error, NoCapacity)
    assert not verdict(CREATE, said(500, "WALLET_NOT_FOUND")).counts


@pytest.mark.parametrize(
    "outcome",
    [
        *[
            said(status, reason)
            for status in (500, 502, 503, 504)
            for reason in ("", "WALLET_NOT_FOUND", "CONFLICT")
        ],
        said(500, "INSUFFICIENT_RESOURCE"),
        said(503, "RATE_LIMIT_EXCEEDED"),
        NovitaResponse(302),
        NoResponse(timed_out=True, sent=True),
        NoResponse(timed_out=False, sent=True),
        NovitaResponse(200),
        NovitaResponse(201, ["id"]),
        NovitaResponse(200, "text"),
    ],
)
def test_a_purchase_is_unclear_after_everything_that_is_neither_yes_nor_no(
    outcome: NovitaResponse | NoResponse,
) -> None:
    assert type(verdict(CREATE, outcome).error) is OutcomeUnclear


@pytest.mark.parametrize("timed_out", [True, False])
def test_a_purchase_that_never_left_is_surely_none(timed_out: bool) -> None:
    found = verdict(CREATE, NoResponse(timed_out=timed_out, sent=False))

    assert type(found.error) is NotNow
    assert found.error.code == "NOVITA_UNAVAILABLE"
    assert found.counts


def test_whether_a_restart_was_heard_is_unclear_too() -> None:
    assert type(verdict(RESTART, NoResponse(timed_out=True, sent=True)).error) is OutcomeUnclear
    assert type(verdict(START, NoResponse(timed_out=True, sent=True)).error) is NovitaForNow


def test_no_answer_is_a_time_out_or_an_outage() -> None:
    assert verdict(READ, NoResponse(timed_out=True, sent=True)).error.code == "NOVITA_TIMEOUT"
    assert verdict(READ, NoResponse(timed_out=False, sent=False)).error.code == "NOVITA_UNAVAILABLE"


@pytest.mark.parametrize(
    "answer", [NovitaResponse(200), NovitaResponse(200, []), NovitaResponse(200, "x"), NovitaResponse(200, 7)]
)
def test_an_answer_that_is_no_object_is_unreadable_and_counts_for_nothing(answer: NovitaResponse) -> None:
    for call in (READ, GET):
        found = verdict(call, answer)
        assert type(found.error) is NovitaForNow
        assert not found.counts


@pytest.mark.parametrize("body", [None, [], {}, "ok", True, 7])
def test_an_action_may_be_answered_with_anything(body: Any) -> None:
    for call in (START, RESTART):
        assert classify(call, NovitaResponse(200, body)) == NovitaResponse(200, body)


def test_a_restart_that_never_left_is_surely_none() -> None:
    found = verdict(RESTART, UNREACHED)

    assert type(found.error) is NotNow
    assert found.unheard


def test_novitas_words_are_quoted_but_for_purchases_which_hold_secrets() -> None:
    answer = said(400, "VALIDATOR_PARAM", "gpuNum: not 9; envs TOP hunter2")

    assert "gpuNum: not 9" in verdict(READ, answer).error.message
    assert "hunter2" not in verdict(CREATE, answer).error.message


@pytest.mark.parametrize("reason", ["lower", "A B", "A" * 65, "É", 7, None, ["A"], {"a": 1}])
def test_a_reason_that_is_no_enum_word_is_not_repeated(reason: Any) -> None:
    error = verdict(READ, NovitaResponse(400, {"reason": reason})).error

    assert error.details == {"httpStatus": 400}
    assert error.message.endswith("HTTP 400")
