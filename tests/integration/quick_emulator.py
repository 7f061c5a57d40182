"""The emulator behind a server that does only what its tests need, which takes half of the time of its own.

The application is ministack's, called as its own server calls it. Requests have a length, and an answer is
sent in one piece.
"""

import asyncio
import signal
from typing import Any, ClassVar
from urllib.parse import unquote

import hypercorn.asyncio

from local import patched_ministack
from local.emulator import Emulator


class QuickEmulator(Emulator):
    program: ClassVar[str] = "tests.integration.quick_emulator"


async def serve(app: Any, config: Any) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    asked, answered = asyncio.Queue[dict[str, Any]](), asyncio.Queue[dict[str, Any]]()
    lifespan = asyncio.create_task(app({"type": "lifespan"}, asked.get, answered.put))
    await asked.put({"type": "lifespan.startup"})
    await answered.get()
    host, _, port = config.bind[0].rpartition(":")
    server = await loop.create_server(lambda: Connection(app), host, int(port))
    await ended.wait()
    server.close()
    await asked.put({"type": "lifespan.shutdown"})
    await answered.get()
    lifespan.cancel()


class Connection(asyncio.Protocol):
    def __init__(self, app: Any) -> None:
        self._app = app
        self._received = b""
        self._answering: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        first, *lines = self._received[:end].split(b"\r\n")
        named = (line.split(b":", 1) for line in lines)
        headers = [(name.lower(), value.strip()) for name, value in named]
        length = next((int(value) for name, value in headers if name == b"content-length"), 0)
        if len(self._received) < end + 4 + length:
            return
        body, self._received = self._received[end + 4 :], b""
        self._answering = asyncio.create_task(self._answer(first.decode(), headers, body))

    async def _answer(self, first: str, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        method, target, _ = first.split(" ")
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "client": self._transport.get_extra_info("peername"),
            "server": self._transport.get_extra_info("sockname"),
        }
        head, content = b"", b""

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            nonlocal head, content
            if message["type"] == "http.response.start":
                named = b"".join(
                    name + b": " + value + b"\r\n"
                    for name, value in message["headers"]
                    if name.lower() != b"content-length"
                )
                head = b"HTTP/1.1 %d \r\n" % message["status"] + named
                return
            content += message.get("body", b"")
            if not message.get("more_body"):
                self._transport.write(head + b"content-length: %d\r\n\r\n" % len(content) + content)

        await self._app(scope, receive, send)


if __name__ == "__main__":
    hypercorn.asyncio.serve = serve  # type: ignore[assignment] # ours takes the same two
    patched_ministack.main()
