"""A proxy in front of the emulator that lets calls go wrong as they do on a network, by chance from a seed.

It sits in the process of whoever calls, behind the SDK: see `quick_http`. It also keeps the delays of
messages in virtual time: a delayed message is taken at once and sent on when its time has come. Nothing
random is drawn elsewhere, so that the same calls in the same order meet the same faults.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from random import Random
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID, uuid4

from tests.integration.answers_of_aws import refused, throttled
from tests.integration.quick_http import Exchanged, exchange, stands_in

UNSEEN_SECONDS = 43_200  # the longest that SQS hides a message: it comes back when virtual time says so


class Kind(StrEnum):
    DROP = "connection dropped"  # nothing was forwarded
    LOST_ANSWER = "answer lost"  # done, and nobody was told
    DOUBLE = "call doubled"  # forwarded twice; the second answer is given
    HOLD = "message held back"  # taken, and sent on later, behind others
    LOSE = "message lost"  # taken, and never seen again
    SLOW = "answer slow"
    THROTTLE = "throttled"
    REFUSE = "refused"


@dataclass(frozen=True)
class Fault:
    """Strikes calls of these actions at this rate, and then perhaps several in a row, so that the SDK's own
    attempts do not always get through."""

    kind: Kind
    actions: frozenset[str]
    rate: float
    most_in_a_row: int = 1


@dataclass(frozen=True)
class Call:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def service(self) -> str:
        target = self.headers.get("X-Amz-Target", "")
        return {"DynamoDB_20120810": "dynamodb", "AmazonSQS": "sqs"}.get(target.partition(".")[0], "other")

    @cached_property
    def action(self) -> str:
        if target := self.headers.get("X-Amz-Target"):
            return target.rpartition(".")[2]
        return parse_qs(self.body.decode()).get("Action", [""])[0]

    @cached_property
    def content(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.body) if self.headers.get("X-Amz-Target") else {}
        return read

    def having(self, **changes: Any) -> "Call":
        return replace(self, body=json.dumps(self.content | changes).encode())


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class FaultProxy:
    """`with FaultProxy(emulator.url) as proxy: … proxy.url`; without faults it passes everything on."""

    target: str
    random: Random = field(default_factory=lambda: Random(0))
    now: Callable[[], datetime] | None = None  # of the harness that uses it
    faults: Sequence[Fault] = ()
    hold_seconds: float = 90.0  # the longest that a message is held back
    injected: Counter[str] = field(default_factory=Counter)
    filled: set[str] = field(default_factory=set)  # queues in which something can be seen now
    _held: list[tuple[datetime, int, Call]] = field(default_factory=list)
    _in_a_row: dict[Fault, int] = field(default_factory=dict)
    _numbers: int = 0

    def __enter__(self) -> "FaultProxy":
        self._place = f"proxy-{uuid4().hex}"
        self._ended = ExitStack()
        self._ended.enter_context(stands_in(self._place, self._exchange))
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.close()

    @property
    def url(self) -> str:
        return f"http://{self._place}"

    def forget(self) -> None:
        """Of the world that was in front of it, so that the next one meets what its own seed says."""
        self.now, self.faults, self._numbers = None, (), 0
        self.filled.clear()
        self._held.clear()
        self._in_a_row.clear()

    # Virtual time

    def release(self) -> int:
        """Send on what was held back and is due; how many messages that were."""
        now = self._now()
        due = sorted(one for one in self._held if one[0] <= now)
        self._held = [one for one in self._held if one[0] > now]
        for _, _, call in due:
            self._forward(call)
        return len(due)

    def next_release(self) -> datetime | None:
        return min((at for at, _, _ in self._held), default=None)

    def hides(self, receipt_handle: str) -> bool:
        """Whether a message that failed comes back by itself."""
        return any(call.content.get("ReceiptHandle") == receipt_handle for _, _, call in self._held)

    def _now(self) -> datetime:
        assert self.now, "no harness uses this proxy"
        return self.now()

    def _hold(self, call: Call, seconds: float) -> None:
        self._numbers += 1
        self._held.append((self._now() + timedelta(seconds=seconds), self._numbers, call))

    # Calls

    def _exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Exchanged:
        answer = self.answer(Call(method, path, headers, body or b""))
        if answer is None:
            raise ConnectionResetError
        return answer.status, answer.headers, answer.body

    def answer(self, call: Call) -> Answer | None:
        """None where the caller gets no answer."""
        fault = self._struck(call.action)
        if fault is None:
            return self._passed_on(call)
        self.injected[fault.kind] += 1
        match fault.kind:
            case Kind.DROP:
                return None
            case Kind.LOST_ANSWER:
                self._passed_on(call)
                return None
            case Kind.DOUBLE:
                self._passed_on(call)
                return self._passed_on(call)
            case Kind.HOLD:
                delay = float(call.content.get("DelaySeconds", 0))
                self._hold(call.having(DelaySeconds=0), delay + self.random.uniform(1, self.hold_seconds))
                return self._taken(call)
            case Kind.LOSE:
                return self._taken(call)
            case Kind.SLOW:
                time.sleep(0.01)
                return self._passed_on(call)
            case Kind.THROTTLE:
                items = len(call.content.get("TransactItems", []))
                return Answer(*throttled(call.service, items, cancelled=self.random.random() < 0.5))
            case Kind.REFUSE:
                return Answer(*refused(call.service))

    def _struck(self, action: str) -> Fault | None:
        for fault in self.faults:
            if action not in fault.actions:
                continue
            if self._in_a_row.get(fault, 0) > 0:
                self._in_a_row[fault] -= 1
                return fault
            if self.random.random() < fault.rate:
                self._in_a_row[fault] = self.random.randint(1, fault.most_in_a_row) - 1
                return fault
        return None

    def _passed_on(self, call: Call) -> Answer:
        if self.now and call.action == "SendMessage" and (delay := call.content.get("DelaySeconds")):
            self._hold(call.having(DelaySeconds=0), delay)
            return self._taken(call)
        if self.now and (wait := call.content.get("VisibilityTimeout")):
            self._hold(call.having(VisibilityTimeout=0), wait)
            return self._forward(call.having(VisibilityTimeout=UNSEEN_SECONDS))
        return self._forward(call)

    def _forward(self, call: Call) -> Answer:
        if call.action == "SendMessage" or call.content.get("VisibilityTimeout") == 0:
            self.filled.add(call.content["QueueUrl"].rpartition("-")[2])
        headers = call.headers | {"Content-Length": str(len(call.body))}
        return Answer(*exchange(self.target, call.method, call.path, call.body, headers))

    def _taken(self, call: Call) -> Answer:
        """What SQS says to a message that it takes."""
        self._numbers += 1
        digest = hashlib.md5(call.content["MessageBody"].encode()).hexdigest()
        body = {"MessageId": str(UUID(int=self._numbers)), "MD5OfMessageBody": digest}
        return Answer(200, {"Content-Type": "application/x-amz-json-1.0"}, json.dumps(body).encode())
