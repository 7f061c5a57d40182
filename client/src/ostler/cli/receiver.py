"""A small receiver of webhooks that prints what is genuine."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

from ostler.cli.session import Session, say
from ostler.cli.words import clock_time, happened
from ostler.webhooks import NotGenuine, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LARGEST_BODY = 1_000_000


def receive(
    session: Session, host: str, port: int, count: int | None, begun: Callable[[str], Sequence[str]]
) -> None:
    """Until so many genuine ones have come, or Ctrl-C; `begun` is told the address, and gives the secrets."""
    secrets: Sequence[str] = ()
    left = count or -1

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            nonlocal left
            left -= _take(self, session, secrets)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # http.server's own name
            pass

    with HTTPServer((host, port), Receiver) as server:
        secrets = begun(f"http://{host}:{server.server_address[1]}/")
        try:
            while left:
                server.handle_request()
        except KeyboardInterrupt:
            return


def _take(request: BaseHTTPRequestHandler, session: Session, secrets: Sequence[str]) -> int:
    """How many events that was: one, or none if it was not genuine."""
    size = int(request.headers.get("Content-Length") or 0)
    body = request.rfile.read(size) if size <= _LARGEST_BODY else b""
    try:
        event = verify(secrets, dict(request.headers.items()), body)
    except (NotGenuine, json.JSONDecodeError) as error:
        say(f"refused: {error}")
        request.send_error(401)
        return 0
    session.show_next(event, _line(event))
    request.send_response(204)
    request.end_headers()
    return 1


def _line(event: dict[str, Any]) -> str:
    when, whose = clock_time(event["timestamp"]), event.get("instanceId", "-")
    return f"{when}  {event['type']:26}  {whose}  {happened(event)}".rstrip()
