"""Webhook receivers: boxes that keep whatever is sent to them and answer as they are told."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from local.novita.answers import Answer


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

    def shown(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass
class Planned:
    answer: Answer
    left: int | None


@dataclass
class Box:
    messages: list[Message] = field(default_factory=list)
    planned: list[Planned] = field(default_factory=list)
    received: int = 0

    def keep(self, request: web.Request, body: bytes, now: float) -> None:
        self.received += 1
        text, encoding = as_text(body)
        self.messages.append(
            Message(
                id=self.received,
                time=now,
                method=request.method,
                path="/" + request.match_info.get("tail", ""),
                query=request.query_string,
                headers=joined(request.headers.items()),
                body=text,
                encoding=encoding,
            )
        )

    def plan(self, answers: list[Answer], sequence: bool) -> None:
        """One answer holds for ever unless `times` says how often; in a sequence each is given once."""
        self.planned = [Planned(answer, answer.times or (1 if sequence else None)) for answer in answers]

    def next_answer(self) -> Answer:
        while self.planned:
            first = self.planned[0]
            if first.left is None:
                return first.answer
            if first.left > 0:
                first.left -= 1
                return first.answer
            self.planned.pop(0)
        return Answer()


def joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Names in lower case, values of a repeated name together."""
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.lower(), []).append(value)
    return {name: ", ".join(values) for name, values in found.items()}


def as_text(body: bytes) -> tuple[str, str]:
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"
