"""What the client sends over real HTTP, and what it makes of answers, refusals and broken connections."""

import json
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from functions.shared.domain.errors import NotNow, NovitaForNow, NovitaRefused, OutcomeUnclear
from functions.shared.domain.market import RegistryAuth
from functions.shared.novita.attempts import CallTimeouts
from functions.shared.novita.calls import NovitaKey
from tests.integration.test_novita_servers import (
    ENOUGH,
    KEY,
    ORDER,
    PATIENCE,
    Answer,
    Gate,
    client,
    cut_off,
    drip,
    hang_up,
    logged_secrets,
    outcome,
    reply,
    serving,
)

AUTH = RegistryAuth("auth-id", "bob", "hunter4")


@pytest.fixture(autouse=True)
def no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert not logged_secrets(caplog)


def test_what_is_sent_is_what_novita_documents() -> None:
    with serving(reply(200, {"data": []})) as server:
        client(server.url).products("RTX 4090 24GB", "spot", within=ENOUGH)

    head = server.requests[0].decode()
    assert head.startswith("GET /v1/products?productName=RTX+4090+24GB&billingMethod=spot HTTP/1.1")
    assert f"Authorization: Bearer {KEY}" in head
    assert "Content-Type: application/json" in head
    assert "X-Correlation-ID: corr-1" in head


def test_a_purchase_is_posted_once_on_a_connection_of_its_own() -> None:
    with serving(reply(200, {"id": "8097f1658f3e6ad1"})) as server:
        novita = client(server.url)
        first = novita.create(ORDER, within=ENOUGH)
        second = novita.create(ORDER, AUTH, within=ENOUGH)

    assert first == second == "8097f1658f3e6ad1"
    assert server.connections == 2
    bodies = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in server.requests]
    assert bodies[0]["envs"] == [{"key": "HF_TOKEN", "value": "hunter3"}]
    assert bodies[1]["imageAuth"] == "bob:hunter4"


def test_reads_share_a_connection_until_it_has_been_idle_for_long() -> None:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    with serving(reply(200, {"data": []})) as server:
        novita = client(server.url, now=lambda: now[0])
        for seconds in (0, 1, 60):
            now[0] += timedelta(seconds=seconds)
            novita.clusters(within=ENOUGH)

    assert server.connections == 2


@pytest.mark.parametrize("lost", [hang_up, cut_off(200)], ids=["no answer", "half an answer"])
def test_a_connection_that_breaks_after_sending_leaves_a_purchase_unclear(lost: Answer) -> None:
    gate = Gate()
    with serving(lost) as server:
        error = outcome(lambda: client(server.url, gate).create(ORDER, within=ENOUGH))

    assert type(error) is OutcomeUnclear
    assert len(server.requests) == 1
    assert gate.reports == ["failed"]


def test_a_status_says_enough_where_the_body_breaks_off() -> None:
    with serving(cut_off(400)) as server:
        assert type(outcome(lambda: client(server.url).create(ORDER, within=ENOUGH))) is NovitaRefused
    with serving(cut_off(500)) as server:
        assert type(outcome(lambda: client(server.url).create(ORDER, within=ENOUGH))) is OutcomeUnclear


def nobody_listens() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


@pytest.mark.parametrize(
    "url", [nobody_listens(), "http://no-such-host.invalid/v1"], ids=["nobody listens", "no such host"]
)
def test_a_purchase_that_never_connected_is_surely_none(url: str) -> None:
    gate = Gate()

    error = outcome(lambda: client(url, gate).create(ORDER, within=ENOUGH))

    assert type(error) is NotNow
    assert error.code == "NOVITA_UNAVAILABLE"
    assert gate.reports == ["failed"]


@contextmanager
def unreachable(host: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    """A port at which nobody gets through, by its number."""
    with ExitStack() as opened:
        full = opened.enter_context(socket.socket())
        full.bind((host, port))
        full.listen(0)
        address = full.getsockname()
        for _ in range(4):  # until the backlog is full, and the next must wait
            one = opened.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(address)
        yield address[1]


def test_a_connect_that_times_out_is_surely_no_purchase() -> None:
    with unreachable() as port:
        error = outcome(lambda: client(f"http://127.0.0.1:{port}").create(ORDER, within=ENOUGH))

    assert type(error) is NotNow


@pytest.fixture
def four_addresses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of the host novita.test."""
    real, found = socket.getaddrinfo, [f"127.0.0.{number}" for number in (5, 4, 3, 2)]

    def look_up(host: str, port: int, *more: Any) -> list[Any]:
        hosts = found if host == "novita.test" else [host]
        return [row for one in hosts for row in real(one, port, *more)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return found


PATIENT = CallTimeouts(3, 10, 30)


@pytest.mark.usefixtures("four_addresses")
def test_every_address_together_has_the_time_of_one_attempt() -> None:
    with unreachable("0.0.0.0") as port:
        novita = client(f"http://novita.test:{port}", limits=PATIENT)
        began = time.monotonic()
        error = outcome(lambda: novita.clusters(within=1.2))
        took = time.monotonic() - began

    assert error.code == "NOVITA_TIMEOUT"
    assert 1.0 < took < 2.0


def test_an_address_that_is_reached_is_used_after_others_that_are_not(four_addresses: list[str]) -> None:
    *out_of_reach, last = four_addresses
    with serving(reply(200, {"data": []}), host=last) as server, ExitStack() as opened:
        port = int(server.url.split(":")[2].split("/")[0])
        for address in out_of_reach:
            opened.enter_context(unreachable(address, port))
        novita = client(f"http://novita.test:{port}/v1", limits=PATIENT)
        assert novita.clusters(within=1.2) == {}


def test_a_server_without_tls_where_tls_is_expected_was_sent_nothing() -> None:
    with serving(reply(200, {"id": "x"})) as server:
        url = server.url.replace("http:", "https:")
        error = outcome(lambda: client(url, limits=CallTimeouts(0.3, 0.3, 0.3)).create(ORDER, within=ENOUGH))

    assert type(error) is NotNow
    assert server.requests == []


def test_a_read_is_tried_again_until_it_works() -> None:
    gate = Gate()
    with serving(reply(503), hang_up, reply(200, {"data": [{"id": "c", "name": "R-1 (Here)"}]})) as server:
        assert client(server.url, gate).clusters(within=ENOUGH) == {"R-1": "c"}

    assert gate.reports == ["failed", "failed", "succeeded"]


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_honoured_in_both_forms(form: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    said = "3" if form == "seconds" else format_datetime(now + timedelta(seconds=3), usegmt=True)
    gate, waits = Gate(), list[float]()
    with serving(reply(429, b"", f"Retry-After: {said}"), reply(200, {"data": []})) as server:
        novita = client(server.url, gate, wait=waits.append, now=lambda: now, random=lambda: 0.0)
        novita.clusters(within=ENOUGH)

    assert waits == gate.pauses == [3.0]
    assert gate.reports == ["succeeded", "succeeded"]


@pytest.mark.parametrize(
    "said", ["soon", "-5", "1e9", "99999999999999", "Thu, 99 Jan 2026 00:00:00 GMT", "é"]
)
def test_a_retry_after_that_makes_no_sense_does_no_harm(said: str) -> None:
    with serving(reply(429, b"", f"Retry-After: {said}")) as server:
        error = outcome(lambda: client(server.url).create(ORDER, within=ENOUGH))

    assert type(error) is NotNow
    assert error.retry_after is not None
    assert 0 < error.retry_after <= 3600


def test_a_redirect_is_not_followed() -> None:
    with serving(reply(307, b"", "Location: http://127.0.0.1:9/elsewhere")) as server:
        assert type(outcome(lambda: client(server.url).clusters(within=ENOUGH))) is NovitaForNow
        assert type(outcome(lambda: client(server.url).create(ORDER, within=ENOUGH))) is OutcomeUnclear


@pytest.mark.parametrize("key", ["", "  ", "two words", "line\nbreak", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_not_repeated(key: str) -> None:
    with serving(reply(200, {"data": []})) as server:
        error = outcome(lambda: client(server.url, key=lambda: NovitaKey(key)).clusters(within=ENOUGH))

    assert error.code == "NOVITA_AUTHENTICATION_FAILED"
    assert not key.strip() or key not in error.message
    assert server.requests == []


def test_a_correlation_id_that_no_header_can_carry_is_left_out() -> None:
    with serving(reply(200, {"data": []})) as server:
        client(server.url, correlation=lambda: "a\r\nX-Evil: 1").clusters(within=ENOUGH)

    assert b"X-Evil" not in server.requests[0]
    assert b"X-Correlation-ID" not in server.requests[0]


def test_an_answer_that_repeats_our_secrets_passes_none_of_them_on() -> None:
    echo: dict[str, object] = {
        "code": 400,
        "reason": "REQUEST",
        "message": f"bad key {KEY}, bob:hunter4, hunter3",
    }
    with serving(reply(400, echo)) as server:
        outcome(lambda: client(server.url).create(ORDER, AUTH, within=ENOUGH))
    echo["message"] = f"bad key {KEY}"
    with serving(reply(400, echo)) as server:
        outcome(lambda: client(server.url).clusters(within=ENOUGH))


def test_a_get_that_answers_with_another_machine_is_not_believed() -> None:
    with serving(reply(200, {"id": "m2", "status": "running"})) as server:
        assert type(outcome(lambda: client(server.url).get("m1", within=ENOUGH))) is NovitaForNow


@pytest.mark.parametrize(
    "answer",
    [
        *[reply(200, body) for body in (b"", b"{}", b"null", b'"ok"', b"true", b"[]", b"OK", b"<html>")],
        reply(200, {"instanceId": "m1", "state": "toStop"}),
        cut_off(200),
        drip(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", b" "),
    ],
)
def test_an_action_is_taken_whatever_is_answered_with_a_good_status(answer: Answer) -> None:
    with serving(answer) as server:
        novita = client(server.url)
        for act in (novita.start, novita.stop, novita.restart):
            act("m1", within=ENOUGH)
        novita.delete("m1", within=ENOUGH, unless=lambda: False)

    paths = [request.split(b" ")[1] for request in server.requests]
    assert paths == [b"/v1/gpu/instance/" + action for action in (b"start", b"stop", b"restart", b"delete")]


def test_a_list_may_leave_out_what_is_empty_but_an_error_is_no_empty_list() -> None:
    for empty in ({}, {"instances": None}, {"total": 0}, {"instances": [], "total": "0"}):
        with serving(reply(200, dict(empty))) as server:
            assert client(server.url).list(within=ENOUGH) == ()
    with serving(reply(200, {"code": 500, "message": "oops"})) as server:
        assert type(outcome(lambda: client(server.url).list(within=ENOUGH))) is NovitaForNow


def test_an_entry_that_cannot_be_read_does_not_spoil_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    entries: list[object] = [{"id": "m1"}, None, "x", {"name": "no id"}, {"id": "m2", "gpuNum": []}]
    with serving(reply(200, {"instances": entries, "total": 5})) as server:
        found = client(server.url).list(within=ENOUGH)

    assert [machine.id for machine in found] == ["m1", "m2"]
    skipped = [record for record in caplog.records if "could not be read" in record.getMessage()]
    assert {(record.__dict__["skipped"], record.__dict__["of"]) for record in skipped} == {(3, 5)}


def test_a_list_whose_pages_begin_at_one_and_refuse_zero_is_read() -> None:
    refused = reply(400, {"code": 400, "reason": "VALIDATOR_PARAM", "message": "pageNum"})
    with serving(refused, reply(200, {"instances": [{"id": "m1"}], "total": 1})) as server:
        assert [machine.id for machine in client(server.url).list(within=ENOUGH)] == ["m1"]


def test_a_slow_list_of_many_pages_ends_with_the_callers_time() -> None:
    def page(connection: socket.socket) -> None:
        time.sleep(0.2)
        reply(200, {"instances": [{"id": str(time.monotonic())}], "total": 1000})(connection)

    started = time.monotonic()
    with serving(page) as server:
        error = outcome(lambda: client(server.url).list(within=1.0))

    assert isinstance(error, NovitaForNow)
    assert time.monotonic() - started < 1.0 + PATIENCE
