"""Webhook receivers: inboxes that keep whatever is sent to them and answer as they are told."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from local.novita.canned_response import CannedResponse


@dataclass
class Message:
    id: int
    time: float
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: str
    encoding: str

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass
class Planned:
    answer: CannedResponse
    left: int | None


@dataclass
class Inbox:
    messages: list[Message] = field(default_factory=list)
    planned: list[Planned] = field(default_factory=list)
    received: int = 0

    def keep(self, request: web.Request, body: bytes, now: float) -> None:
        self.received += 1
        text, encoding = decode_body(body)
        self.messages.append(
            Message(
                id=self.received,
                time=now,
                method=request.method,
                path="/" + request.match_info.get("tail", ""),
                query=request.query_string,
                headers=join_headers(request.headers.items()),
                body=text,
                encoding=encoding,
            )
        )

    def plan(self, answers: list[CannedResponse], sequence: bool) -> None:
        """One answer holds for ever unless `times` says how often; in a sequence each is given once."""
        self.planned = [Planned(answer, answer.times or (1 if sequence else None)) for answer in answers]

    def next_response(self) -> CannedResponse:
        while self.planned:
            first = self.planned[0]
            if first.left is None:
                return first.answer
            if first.left > 0:
                first.left -= 1
                return first.answer
            self.planned.pop(0)
        return CannedResponse()


def join_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Names in lower case, values of a repeated name together."""
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.lower(), []).append(value)
    return {name: ", ".join(values) for name, values in found.items()}


def decode_body(body: bytes) -> tuple[str, str]:
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"
