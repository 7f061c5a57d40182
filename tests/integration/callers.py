"""Callers that ask for instances and operations, and ask again under the same key when no answer came."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from tests.integration.harness import Harness
from tests.integration.wire import Killed

OPERATIONS = ("start", "stop", "restart", "delete")


@dataclass
class Caller:
    """One instance: its create, and then one operation after another."""

    name: str
    body: dict[str, Any]
    steps: list[tuple[float, str]]  # seconds after the one before, and what
    next_at: datetime
    instance_id: str = ""
    accepted: list[str] = field(default_factory=list)  # operations that were, in order
    ids: set[str] = field(default_factory=set)  # that its create was ever answered with
    wrong: list[str] = field(default_factory=list)  # answers that should not be
    _step: int = 0

    @property
    def done(self) -> bool:
        return self._step >= len(self.steps)

    def act(self, harness: Harness, random: Random) -> None:
        what = self.steps[self._step][1]
        self.next_at = harness.now() + timedelta(seconds=random.uniform(1, 20))  # unless it is answered
        step = self._step
        try:
            with harness.wire.handling("api", self.instance_id):
                status, answer = self._ask(harness, what)
        except Killed:
            harness.restart()
            return
        if self._step != step:
            return
        self._note(what, status, answer)
        if status < 500 and status != 429 and random.random() > 0.1:  # else once more, under the same key
            self._go_on(harness)

    def _go_on(self, harness: Harness) -> None:
        self._step += 1
        if not self.done:
            self.next_at = harness.now() + timedelta(seconds=self.steps[self._step][0])

    def _ask(self, harness: Harness, what: str) -> tuple[int, Any]:
        key = {"idempotency-key": f"{self.name}-{self._step}"}
        if what == "create":
            return harness.call("POST", "/api/instances", self.body, key)
        if what == "delete":
            return harness.call("DELETE", f"/api/instances/{self.instance_id}", None, key)
        if what == "sync":
            return harness.call("POST", "/api/sync", {})
        if what == "read":
            return harness.call("GET", f"/api/instances/{self.instance_id}")
        if what == "extend":
            body = {"limits": {"stopAfter": "20m"}}
            return harness.call("PATCH", f"/api/instances/{self.instance_id}", body, key)
        if what == "use":
            return harness.call("PUT", f"/api/instances/{self.instance_id}/last-used", {})
        return harness.call("POST", f"/api/instances/{self.instance_id}/{what}", None, key)

    def _note(self, what: str, status: int, answer: Any) -> None:
        if what == "create" and status == 201:
            self.instance_id = answer["instanceId"]
            self.ids.add(self.instance_id)
        elif status == 202 and what in OPERATIONS:
            self.accepted.append(what)
        elif status not in (200, 409, 429) and status < 500:
            self.wrong.append(f"{what} of {self.name}: {status} {answer}")


def plan(number: int, begin: datetime, over_seconds: float, random: Random, hook: str) -> Caller:
    """One of many, some with health checks, webhooks or limits, most with operations to follow."""
    body: dict[str, Any] = {"name": f"c{number}", "productName": "RTX 4090 24GB", "templateId": "107672"}
    if random.random() < 0.3:
        body["healthCheck"] = {"retryAttempts": 1}
    if random.random() < 0.4:
        body["webhookUrl"] = f"{hook}-{number}"
    steps = [(0.0, "create")]
    for _ in range(random.randint(0, 4)):
        what = random.choice((*OPERATIONS, "stop", "start", "read", "sync"))
        steps.append((random.choice((1.0, 20.0, 120.0)) * random.random(), what))
    clock = Random(number)  # a draw of its own: all else of a seed stays as it is
    if clock.random() < 0.25:
        stop = clock.choice(({"stopAfter": "3m"}, {"stopAfter": "10m"}, {"idleStopAfter": "5m"}))
        body["limits"] = {**stop, "deleteAfterStopped": clock.choice(("2m", "10m"))}
        steps.append((clock.uniform(60, 300), clock.choice(("extend", "use"))))
    return Caller(f"c{number}", body, steps, begin + timedelta(seconds=over_seconds * random.random()))


def crowding_read(number: int, instance_id: str) -> tuple[str, str, dict[str, Any] | None]:
    """One after the other of all that a key may ask for that can only read, and that Novita may be asked
    for: no two the same, so that no cache answers by luck."""
    quote = {"productName": f"none-{number}", "templateId": f"9{number}"}
    reads: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
        ("GET", f"/api/products?name=none-{number}", None),
        ("GET", f"/api/templates/9{number}", None),
        ("GET", f"/api/instances/{instance_id}", None),
        ("POST", "/api/quotes", quote),
        ("GET", f"/api/products?name=none-{number}&billingMode=onDemand", None),
        ("GET", "/api/instances/comprehensive?syncLocalState=true", None),
        ("POST", "/api/quotes", {"productName": "RTX 4090 24GB", "billingMode": "onDemand"}),
        ("GET", "/api/status", None),
    )
    return reads[number % len(reads)]
