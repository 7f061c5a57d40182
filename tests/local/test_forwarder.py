"""The forwarder: what comes in goes out as it came, and the answer the same way back."""

import asyncio
import http.client
import socket
import threading
from collections.abc import Iterator

import pytest
from aiohttp import web

from local.forwarder import MAX_BODY_BYTES, Forwarder
from local.ports import HOST, Ports


class Echo:
    """Answers with what it was asked."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()
        self._up.wait(10)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.run_forever()

    async def _serve(self) -> None:
        runner = web.ServerRunner(web.Server(_echo))
        await runner.setup()
        await web.TCPSite(runner, HOST, self._port).start()
        self._up.set()


async def _echo(request: web.BaseRequest) -> web.Response:
    body = await request.content.read()
    answer = web.Response(status=418, body=body[::-1])
    answer.headers["X-Asked"] = f"{request.method} {request.raw_path} {request.headers.get('X-Mine', '-')}"
    answer.headers["X-Host"] = request.headers["Host"]
    answer.headers["X-Agent"] = request.headers.get("User-Agent", "none")
    answer.headers.add("Set-Cookie", "a=1")
    answer.headers.add("Set-Cookie", "b=2")
    return answer


@pytest.fixture(scope="module")
def ports() -> Iterator[Ports]:
    ports = Ports.free()
    Echo(ports.emulator)
    forwarder = Forwarder(ports.api, f"http://{HOST}:{ports.emulator}/_aws/execute-api/abc/$default")
    forwarder.start()
    yield ports
    forwarder.stop()


def _ask(
    port: int, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    return answer, answer.read()


def test_path_query_headers_and_body_pass_unchanged(ports: Ports) -> None:
    answer, body = _ask(ports.api, "PUT", "/api/a%2Fb/%C3%A9?x=1&x=%20+2&y", b"\0abc", {"X-Mine": "yes"})

    prefix = "/_aws/execute-api/abc/$default"
    assert answer.status == 418
    assert answer.headers["X-Asked"] == f"PUT {prefix}/api/a%2Fb/%C3%A9?x=1&x=%20+2&y yes"
    assert answer.headers["X-Host"] == f"{HOST}:{ports.api}"
    assert answer.headers["X-Agent"] == "none"
    assert answer.headers.get_all("Set-Cookie") == ["a=1", "b=2"]
    assert body == b"cba\0"


def test_a_body_may_be_as_large_as_the_gateway_takes(ports: Ports) -> None:
    answer, body = _ask(ports.api, "POST", "/", bytes(MAX_BODY_BYTES))

    assert (answer.status, len(body)) == (418, MAX_BODY_BYTES)

    answer, body = _ask(ports.api, "POST", "/", bytes(MAX_BODY_BYTES + 1))

    assert (answer.status, body) == (413, b'{"message": "Request Entity Too Large"}')


def test_a_caller_who_waits_for_leave_to_send_gets_it(ports: Ports) -> None:
    with socket.create_connection((HOST, ports.api), timeout=10) as caller:
        caller.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        leave = caller.recv(1000)
        caller.sendall(b"ab")
        answer = caller.recv(10000)

    assert leave.startswith(b"HTTP/1.1 100 Continue")
    assert answer.startswith(b"HTTP/1.1 418")


def test_head_has_the_length_and_no_body(ports: Ports) -> None:
    answer, body = _ask(ports.api, "HEAD", "/health")

    assert (answer.status, body) == (418, b"")


def test_an_emulator_that_is_gone_is_a_bad_gateway() -> None:
    ports = Ports.free()
    forwarder = Forwarder(ports.api, f"http://{HOST}:{ports.emulator}/api")
    forwarder.start()

    answer, body = _ask(ports.api, "GET", "/health")
    forwarder.stop()

    assert answer.status == 502
    assert answer.headers["Content-Type"].startswith("application/json")
    assert b"cannot be reached" in body
