"""Servers on loopback that answer well, badly or never; shared by the tests of requests and of probes."""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

Script = Callable[[socket.socket], None]


class Receiver:
    """Runs a script for each connection; remembers who came, what was asked, how many were open at once."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"
        self.connections = 0
        self.open_now = 0
        self.most_open = 0
        self.asked: list[bytes] = []

    def __enter__(self) -> "Receiver":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                with self._lock:
                    self.connections += 1
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.closing(peer):
            if self._tls:
                peer = self._tls.wrap_socket(peer, server_side=True)
            asked = b""
            while b"\r\n\r\n" not in asked:
                part = peer.recv(65536)
                if not part:
                    return
                asked += part
            with self._lock:
                self.asked.append(asked)
                self.open_now += 1
                self.most_open = max(self.most_open, self.open_now)
            try:
                self._script(peer)
            finally:
                with self._lock:
                    self.open_now -= 1
                peer.close()


def reply(status: int = 200, body: bytes = b"ok", headers: str = "") -> Script:
    head = f"HTTP/1.1 {status} Because\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode()
    return lambda peer: peer.sendall(head + body)


def say(*parts: bytes) -> Script:
    """Exactly these bytes, then the end."""
    return lambda peer: peer.sendall(b"".join(parts))


def forever(start: bytes, part: bytes, pause: float = 0.0) -> Script:
    """The start, then the part again and again for as long as anybody listens."""

    def script(peer: socket.socket) -> None:
        peer.sendall(start)
        never = threading.Event()
        while not never.wait(pause):
            peer.sendall(part)

    return script


def hang(peer: socket.socket) -> None:
    peer.recv(1)


def reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


class Disguised(socket.socket):
    """A connection to loopback that says it leads elsewhere: a public server without leaving the machine."""

    peer: str

    def getpeername(self) -> Any:
        return (self.peer, 443)


def disguised(port: int) -> Callable[[tuple[str, int], float], socket.socket]:
    """Dials the given port of loopback for whatever address it is told to."""

    def dial(address: tuple[str, int], timeout: float) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", port), timeout)
        sock = Disguised(plain.family, plain.type, fileno=plain.detach())
        sock.settimeout(timeout)
        sock.peer = address[0]
        return sock

    return dial


def loopback_only(address: tuple[str, int], timeout: float) -> socket.socket:
    """Keeps a broken guard from really dialling out."""
    assert address[0].startswith("127.")
    return socket.create_connection(address, timeout)


def answers(*addresses: str) -> Callable[..., list[tuple[Any, ...]]]:
    """A resolver that has one answer to everything."""
    return lambda _host, port, *_: [(0, 0, 0, "", (address, port)) for address in addresses]
