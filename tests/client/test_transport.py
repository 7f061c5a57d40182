"""How the client asks: again where that is safe, with one key for all attempts, and errors by their code."""

import pytest
from ostler import errors
from ostler.client import Ostler

from functions.api.responses import STATUS_OF
from tests.client.conftest import Clock
from tests.client.small_server import LOST, Said, SmallServer, failure


def test_a_lost_answer_is_asked_for_again_with_the_same_key(client: Ostler, server: SmallServer) -> None:
    server.say(LOST)
    server.say(LOST)
    server.say(201, {"instanceId": "inst_1", "status": "creating"})

    made = client.create("one", "RTX 4090 24GB", "107672")

    assert made["instanceId"] == "inst_1"
    keys = {asked.headers["Idempotency-Key"] for asked in server.asked}
    assert len(server.asked) == 3
    assert len(keys) == 1


def test_two_calls_have_two_keys_and_a_key_of_ones_own_is_used(client: Ostler, server: SmallServer) -> None:
    for key in (None, None, "mine"):
        client.stop("inst_1", idempotency_key=key)

    first, second, own = (asked.headers["Idempotency-Key"] for asked in server.asked)
    assert first != second
    assert own == "mine"


def test_retry_after_is_honoured(client: Ostler, server: SmallServer, clock: Clock) -> None:
    server.say(429, failure("RATE_LIMIT_EXCEEDED", retryable=True, retryAfter=7), Retry_After="7")
    server.say(503, {"message": "Service Unavailable"}, Retry_After="3")
    server.say(200, {"status": "ok"})

    client.health()

    assert clock.waits == [7.0, 3.0]


def test_a_wait_beyond_the_bound_is_not_begun(client: Ostler, server: SmallServer, clock: Clock) -> None:
    server.say(503, failure("CIRCUIT_BREAKER_OPEN", retryable=True, retryAfter=600))

    with pytest.raises(errors.CircuitBreakerOpen) as caught:
        client.products()

    assert caught.value.retry_after == 600
    assert clock.waits == []


def test_attempts_end_with_the_time_bound(client: Ostler, server: SmallServer, clock: Clock) -> None:
    server.otherwise = lambda _: Said(502, b"<html>Bad Gateway</html>")

    with pytest.raises(errors.Unavailable):
        client.health()

    assert 30 < sum(clock.waits) <= 60


def test_a_definite_no_is_asked_once(client: Ostler, server: SmallServer) -> None:
    server.say(502, failure("NOVITA_REJECTED", details={"reason": "NO"}))

    with pytest.raises(errors.NovitaRejected) as caught:
        client.create("one", "RTX 4090 24GB", "107672")

    assert caught.value.details == {"reason": "NO"}
    assert caught.value.request_id == "req-1"
    assert len(server.asked) == 1


def test_bad_fields_are_named(client: Ostler, server: SmallServer) -> None:
    field = {"field": "gpuNum", "code": "INVALID_GPU_NUM", "message": "At most 8"}
    server.say(400, failure("VALIDATION_ERROR", validationErrors=[field]))

    with pytest.raises(errors.ValidationError) as caught:
        client.create("one", "RTX 4090 24GB", "107672", gpuNum=9)

    assert caught.value.fields == (field,)


def test_a_code_of_a_newer_service_is_sorted_by_its_status(client: Ostler, server: SmallServer) -> None:
    server.say(409, failure("SOMETHING_NEW"))

    with pytest.raises(errors.Conflict) as caught:
        client.stop("inst_1")

    assert caught.value.code == "SOMETHING_NEW"


def test_every_code_of_the_service_has_its_exception() -> None:
    assert STATUS_OF.keys() <= errors.ApiError.classes.keys()


def test_a_page_that_is_not_ostler_is_said_to_be_none(client: Ostler, server: SmallServer) -> None:
    server.say(200, b"<html>hello</html>")
    server.say(404, b"<html>no</html>")

    with pytest.raises(errors.BadAnswer):
        client.health()
    with pytest.raises(errors.BadAnswer):
        client.status()


def test_a_redirect_is_not_followed_with_the_key(client: Ostler, server: SmallServer) -> None:
    server.say(302, b"", Location="http://127.0.0.1:9/elsewhere")

    with pytest.raises(errors.BadAnswer):
        client.status()

    assert len(server.asked) == 1


def test_where_nobody_listens_it_says_so(clock: Clock) -> None:
    with pytest.raises(errors.Unreachable, match="nobody listens there"):
        Ostler("http://127.0.0.1:9", "ost_x", clock=clock, sleep=clock.sleep, retry_for=1).health()


def test_pages_are_followed_to_the_end(client: Ostler, server: SmallServer) -> None:
    server.say(200, {"instances": [{"instanceId": "a"}, {"instanceId": "b"}], "nextCursor": "c1"})
    server.say(200, {"instances": [{"instanceId": "c"}]})

    found = [one["instanceId"] for one in client.instances(status="ready")]

    assert found == ["a", "b", "c"]
    assert "cursor=c1" in server.asked[1].path
    assert "status=ready" in server.asked[1].path
