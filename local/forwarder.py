"""Plain addresses for the API: passes requests on to where the emulator serves it, and answers back."""

import asyncio
import json
import threading
from concurrent.futures import Future

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from local.ports import HOST

MAX_BODY_BYTES = 10 * 1024 * 1024  # what the real gateway takes
# They belong to one connection, and are made anew for the next one.
HOP_BY_HOP = frozenset(
    (
        "connection",
        "expect",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
AUTOMATIC = ["Accept", "Accept-Encoding", "Content-Type", "User-Agent"]


class Forwarder:
    """Serves on a thread of its own, so that its port is gone the moment the process is."""

    def __init__(self, port: int, target: str) -> None:
        self._port = port
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="forwarder")
        self._listening: Future[None] = Future()

    def start(self) -> None:
        self._thread.start()
        self._listening.result(timeout=10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(timeout=10)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        session = ClientSession(
            auto_decompress=False,
            skip_auto_headers=AUTOMATIC,
            cookie_jar=DummyCookieJar(),
            timeout=ClientTimeout(total=None, sock_connect=5, sock_read=60),
        )
        server = web.Server(lambda request: _pass_on(session, self._target, request))
        runner = web.ServerRunner(server, shutdown_timeout=2)
        async with session:
            await runner.setup()
            try:
                await web.TCPSite(runner, HOST, self._port).start()
            except OSError as error:
                self._listening.set_exception(error)
            else:
                self._listening.set_result(None)
                await self._stopping.wait()
            await runner.cleanup()


async def _pass_on(session: ClientSession, target: str, request: web.BaseRequest) -> web.StreamResponse:
    body = await _body(request)
    if body is None:
        return _answer(413, "Request Entity Too Large")
    address = URL(target + request.raw_path, encoded=True)  # as it was sent, percent signs and all
    try:
        async with session.request(
            request.method, address, headers=_kept(request.headers), data=body, allow_redirects=False
        ) as answer:
            content = await answer.read()
            return web.Response(status=answer.status, headers=_kept(answer.headers), body=content)
    except (ClientError, TimeoutError) as error:
        return _answer(502, f"The AWS emulator cannot be reached: {type(error).__name__}")


async def _body(request: web.BaseRequest) -> bytes | None:
    """None if there is more of it than may be."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


def _kept(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in HOP_BY_HOP)


def _answer(status: int, message: str) -> web.Response:
    text = json.dumps({"message": message})
    return web.Response(status=status, text=text, content_type="application/json")
