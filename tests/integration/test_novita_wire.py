"""The client over real HTTP against servers that misbehave in every way a server can."""

import gzip
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import format_datetime

import pytest

from functions.shared.adapters.novita.attempts import TimeLimits
from functions.shared.adapters.novita.client import Novita
from functions.shared.adapters.novita.gate import OpenGate
from functions.shared.domain.circuit import Permit
from functions.shared.domain.errors import (
    MachineNotFound,
    NotNow,
    NovitaForNow,
    NovitaRefused,
    OstlerError,
    OutcomeUnclear,
)
from functions.shared.domain.machine import Offer, Order, RegistryAuth, Template

KEY = "sk_hunter2-hunter2-hunter2"
SECRETS = (KEY, "hunter3", "hunter4", "hunter2")
ORDER = Order(
    name="comfy-dep1-01J",
    offer=Offer("p", "RTX", "CN-HK-01", "cn-hongkong-1", Decimal("0.18")),
    template=Template(id="1", name="t", image="img", envs=(("HF_TOKEN", "hunter3"),)),
    gpu_num=1,
    rootfs_size=60,
    billing_mode="spot",
)
AUTH = RegistryAuth("auth-id", "bob", "hunter4")
QUICK = TimeLimits(connect_seconds=0.5, answer_seconds=0.5, purchase_seconds=0.5)
ENOUGH = 5.0
Answer = Callable[[socket.socket], None]


@dataclass
class Server:
    """Reads a request, then does with the connection whatever the script says; the last entry is repeated."""

    script: list[Answer]
    url: str = ""
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection:
            try:
                while request := _request(connection):
                    self.requests.append(request)
                    (self.script.pop(0) if len(self.script) > 1 else self.script[0])(connection)
            except OSError:
                return


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    length = int(lengths[0].split(b":")[1]) if lengths else 0
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def serving(*script: Answer) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(list(script), url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        thread = threading.Thread(target=server.serve, args=(listener,), daemon=True)
        thread.start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(2)


def reply(status: int, body: bytes | dict[str, object] = b"", *headers: str) -> Answer:
    raw = json.dumps(body).encode() if isinstance(body, dict) else body
    head = "\r\n".join([f"HTTP/1.1 {status} X", f"Content-Length: {len(raw)}", *headers])
    return lambda connection: connection.sendall(head.encode() + b"\r\n\r\n" + raw)


def hang_up(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_RDWR)


def say_nothing(connection: socket.socket) -> None:
    connection.recv(1)


def drip(head: bytes, byte: bytes) -> Answer:
    """One byte every 20 ms for 10 s: each of them in time, all of them too late."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        for _ in range(500):
            connection.sendall(byte)
            time.sleep(0.02)

    return answer


def flood(megabytes: int, status: int = 200) -> Answer:
    def answer(connection: socket.socket) -> None:
        connection.sendall(f"HTTP/1.1 {status} X\r\nContent-Length: {megabytes << 20}\r\n\r\n".encode())
        for _ in range(megabytes):
            connection.sendall(b'{"data": [' + b" " * ((1 << 20) - 10))

    return answer


def cut_off(status: int) -> Answer:
    def answer(connection: socket.socket) -> None:
        connection.sendall(f'HTTP/1.1 {status} X\r\nContent-Length: 99\r\n\r\n{{"id":'.encode())
        connection.shutdown(socket.SHUT_RDWR)

    return answer


@dataclass
class Gate(OpenGate):
    reports: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def succeeded(self, permit: Permit) -> None:
        self.reports.append("succeeded")

    def failed(self, permit: Permit) -> None:
        self.reports.append("failed")

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


def client(url: str, gate: Gate | None = None, **over: object) -> Novita:
    gate = gate or Gate()
    given: dict[str, object] = {
        "key": lambda: KEY,
        "correlation": lambda: "corr-1",
        "circuits": gate,
        "limiter": gate,
        "wait": lambda _: None,
        "limits": QUICK,
    }
    return Novita(url, **{**given, **over})  # type: ignore[arg-type] # a test's own table of arguments


def outcome(call: Callable[[], object]) -> OstlerError:
    with pytest.raises(OstlerError) as caught:
        call()
    error = caught.value
    told = f"{error!r} {error.message} {error.details} {error.__cause__!r} {error.__context__!r}"
    assert not [secret for secret in SECRETS if secret in told]
    return error


@pytest.fixture(autouse=True)
def no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    logged = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert not [secret for secret in SECRETS if secret in logged]


def within_the_time_out(started: float, attempts: int = 1) -> bool:
    return time.monotonic() - started < attempts * (QUICK.connect_seconds + QUICK.answer_seconds) + 0.3


ERRORS_IN_NO_FORM = {
    "empty": b"",
    "html": b"<html><h1>502 Bad Gateway</h1></html>",
    "truncated": b'{"code": 400, "reason": "RESOU',
    "a list": b'[{"code": 400, "reason": "RESOURCE_NOT_FOUND"}]',
    "not text": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
    "a number": b"7",
}


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


@pytest.mark.parametrize("status", [400, 404, 500, 503])
@pytest.mark.parametrize("body", ERRORS_IN_NO_FORM.values(), ids=ERRORS_IN_NO_FORM.keys())
def test_an_error_body_in_no_form_is_survived_and_is_no_absence(status: int, body: bytes) -> None:
    started = time.monotonic()
    gate = Gate()
    with serving(reply(status, body)) as server:
        error = outcome(lambda: client(server.url, gate).get("m1", within=ENOUGH))

    expected = NovitaRefused if status == 400 else NovitaForNow
    assert isinstance(error, expected)
    assert not isinstance(error, MachineNotFound)
    assert set(gate.reports) == {"failed" if status >= 500 else "succeeded"}
    assert within_the_time_out(started, attempts=3)


@pytest.mark.parametrize("body", [*ERRORS_IN_NO_FORM.values()], ids=ERRORS_IN_NO_FORM.keys())
def test_a_good_status_with_a_body_in_no_form_is_not_believed(body: bytes) -> None:
    with serving(reply(200, body)) as server:
        novita = client(server.url)
        for call in (novita.clusters, novita.list, novita.registry_auths):
            assert type(outcome(lambda call=call: call(within=ENOUGH))) is NovitaForNow  # type: ignore[misc]
        assert type(outcome(lambda: novita.get("m1", within=ENOUGH))) is NovitaForNow
        assert type(outcome(lambda: novita.create(ORDER, within=ENOUGH))) is OutcomeUnclear


@pytest.mark.parametrize("status", [200, 400, 500])
def test_fifty_megabytes_are_not_read_to_the_end(status: int) -> None:
    started = time.monotonic()
    with serving(flood(50, status)) as server:
        novita = client(server.url, limits=TimeLimits(1, 2, 2))
        error = outcome(lambda: novita.get("m1", within=2.5))

    assert isinstance(error, NovitaRefused if status == 400 else NovitaForNow)
    assert time.monotonic() - started < 3


def test_a_small_body_that_unpacks_to_a_large_one_is_not_read_to_the_end() -> None:
    bomb = gzip.compress(b'{"data": []' + b" " * (50 << 20) + b"}")
    with serving(reply(200, bomb, "Content-Encoding: gzip")) as server:
        error = outcome(lambda: client(server.url, limits=TimeLimits(1, 3, 3)).clusters(within=4))

    assert type(error) is NovitaForNow


@pytest.mark.parametrize(
    "slow",
    [
        drip(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", b" "),
        drip(b"HTTP/1.1 200 OK\r\n\r\n", b" "),
        drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x"),
        drip(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
        drip(b"", b"H"),
        say_nothing,
    ],
    ids=["body", "endless body", "chunks", "chunk header", "header", "status line", "nothing"],
)
def test_a_server_that_drips_is_left_in_time(slow: Answer) -> None:
    for_reads, for_purchases = Gate(), Gate()
    with serving(slow) as server:
        started = time.monotonic()
        error = outcome(lambda: client(server.url, for_reads).clusters(within=1.0))
        assert within_the_time_out(started)
        started = time.monotonic()
        unclear = outcome(lambda: client(server.url, for_purchases).create(ORDER, within=ENOUGH))
        assert within_the_time_out(started)

    assert (type(error), error.code) == (NovitaForNow, "NOVITA_TIMEOUT")
    assert (type(unclear), unclear.code) == (OutcomeUnclear, "NOVITA_TIMEOUT")
    assert for_reads.reports[0] == "failed"
    assert for_purchases.reports == ["failed"]


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


@pytest.mark.parametrize("url", [nobody_listens(), "http://no-such-host.invalid/v1"])
def test_a_purchase_that_never_connected_is_surely_none(url: str) -> None:
    gate = Gate()

    error = outcome(lambda: client(url, gate).create(ORDER, within=ENOUGH))

    assert type(error) is NotNow
    assert error.code == "NOVITA_UNAVAILABLE"
    assert gate.reports == ["failed"]


def test_a_connect_that_times_out_is_surely_no_purchase() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:  # until the backlog is full, and the next must wait
            one.setblocking(False)
            one.connect_ex(address)
        error = outcome(lambda: client(f"http://127.0.0.1:{address[1]}").create(ORDER, within=ENOUGH))
        for one in waiting:
            one.close()

    assert type(error) is NotNow


def test_a_server_without_tls_where_tls_is_expected_was_sent_nothing() -> None:
    with serving(reply(200, {"id": "x"})) as server:
        url = server.url.replace("http:", "https:")
        error = outcome(lambda: client(url, limits=TimeLimits(0.3, 0.3, 0.3)).create(ORDER, within=ENOUGH))

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
        error = outcome(lambda: client(server.url, key=lambda: key).clusters(within=ENOUGH))

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


@pytest.mark.parametrize("body", [b"", b"{}", b'{"instanceId": "m1", "state": "toStop"}'])
def test_an_action_is_taken_whatever_small_thing_is_answered(body: bytes) -> None:
    with serving(reply(200, body)) as server:
        novita = client(server.url)
        for act in (novita.start, novita.stop, novita.restart, novita.delete):
            act("m1", within=ENOUGH)

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
    with serving(reply(200, {"instances": entries, "total": 2})) as server:
        found = client(server.url).list(within=ENOUGH)

    assert [machine.id for machine in found] == ["m1", "m2"]
    skipped = [record for record in caplog.records if "could not be read" in record.getMessage()]
    assert [(record.__dict__["skipped"], record.__dict__["of"]) for record in skipped] == [(3, 5)]


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
    assert time.monotonic() - started < 1.3
