"""Servers that misbehave in every way a server can, and a client that leaves each of them in time."""

import gzip
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal

import pytest

from bench.gate import OpenGate
from functions.shared.domain.errors import (
    MachineNotFound,
    NovitaForNow,
    NovitaRefused,
    OstlerError,
    OutcomeUnclear,
)
from functions.shared.domain.market import Offer, Order, Template
from functions.shared.domain.resilience import Permit
from functions.shared.novita.attempts import CallTimeouts
from functions.shared.novita.calls import NovitaKey
from functions.shared.novita.client import Novita

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
QUICK = CallTimeouts(connect_seconds=0.3, answer_seconds=0.3, purchase_seconds=0.3)
ENOUGH = 5.0
PATIENCE = 2.0  # of this test with the machine it runs on; whatever drips, drips for 10 s
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
def serving(*script: Answer, host: str = "127.0.0.1") -> Iterator[Server]:
    with socket.create_server((host, 0)) as listener:
        server = Server(list(script), url=f"http://{host}:{listener.getsockname()[1]}/v1")
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

    def succeeded(self, permit: Permit) -> None:  # noqa: ARG002  # the protocol's name
        self.reports.append("succeeded")

    def failed(self, permit: Permit) -> None:  # noqa: ARG002  # the protocol's name
        self.reports.append("failed")

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


def client(url: str, gate: Gate | None = None, **over: object) -> Novita:
    gate = gate or Gate()
    given: dict[str, object] = {
        "key": lambda: NovitaKey(KEY),
        "correlation": lambda: "corr-1",
        "circuits": gate,
        "limiter": gate,
        "wait": lambda _: None,
        "limits": QUICK,
    }
    return Novita(url, **{**given, **over})  # type: ignore[arg-type]  # a test's own table of arguments


def outcome(call: Callable[[], object]) -> OstlerError:
    with pytest.raises(OstlerError) as caught:
        call()
    error = caught.value
    told = f"{error!r} {error.message} {error.details} {error.__cause__!r} {error.__context__!r}"
    assert not [secret for secret in SECRETS if secret in told]
    return error


def logged_secrets(caplog: pytest.LogCaptureFixture) -> list[str]:
    logged = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    return [secret for secret in SECRETS if secret in logged]


@pytest.fixture(autouse=True)
def no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert not logged_secrets(caplog)


def within_the_time_out(started: float, attempts: int = 1) -> bool:
    return time.monotonic() - started < attempts * (QUICK.connect_seconds + QUICK.answer_seconds) + PATIENCE


ERRORS_IN_NO_FORM = {
    "empty": b"",
    "html": b"<html><h1>502 Bad Gateway</h1></html>",
    "truncated": b'{"code": 400, "reason": "RESOU',
    "a list": b'[{"code": 400, "reason": "RESOURCE_NOT_FOUND"}]',
    "not text": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
    "a number": b"7",
}


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
    assert set(gate.reports) == {"succeeded" if status == 400 else "failed"}
    assert within_the_time_out(started, attempts=3)


@pytest.mark.parametrize("body", [*ERRORS_IN_NO_FORM.values()], ids=ERRORS_IN_NO_FORM.keys())
def test_a_good_status_with_a_body_in_no_form_is_not_believed(body: bytes) -> None:
    with serving(reply(200, body)) as server:
        novita = client(server.url)
        for call in (novita.clusters, novita.list, novita.registry_auths):
            assert type(outcome(lambda call=call: call(within=ENOUGH))) is NovitaForNow  # type: ignore[misc]  # a default in a lambda
        assert type(outcome(lambda: novita.get("m1", within=ENOUGH))) is NovitaForNow
        assert type(outcome(lambda: novita.create(ORDER, within=ENOUGH))) is OutcomeUnclear


@pytest.mark.parametrize("status", [200, 400, 500])
def test_fifty_megabytes_are_not_read_to_the_end(status: int) -> None:
    started = time.monotonic()
    with serving(flood(50, status)) as server:
        novita = client(server.url, limits=CallTimeouts(1, 2, 2))
        error = outcome(lambda: novita.get("m1", within=2.5))

    assert isinstance(error, NovitaRefused if status == 400 else NovitaForNow)
    assert time.monotonic() - started < 2.5 + PATIENCE


def test_a_small_body_that_unpacks_to_a_large_one_is_not_read_to_the_end() -> None:
    bomb = gzip.compress(b'{"data": []' + b" " * (50 << 20) + b"}")
    with serving(reply(200, bomb, "Content-Encoding: gzip")) as server:
        error = outcome(lambda: client(server.url, limits=CallTimeouts(1, 3, 3)).clusters(within=4))

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
        error = outcome(lambda: client(server.url, for_reads).clusters(within=0.7))
        assert within_the_time_out(started)
        started = time.monotonic()
        unclear = outcome(lambda: client(server.url, for_purchases).create(ORDER, within=ENOUGH))
        assert within_the_time_out(started)

    assert (type(error), error.code) == (NovitaForNow, "NOVITA_TIMEOUT")
    assert (type(unclear), unclear.code) == (OutcomeUnclear, "NOVITA_TIMEOUT")
    assert for_reads.reports[0] == "failed"
    assert for_purchases.reports == ["failed"]
