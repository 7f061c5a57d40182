"""A receiver that dedupes on `webhook-id` and orders by `sequence` rebuilds an instance's history exactly."""

import json
from collections import Counter
from datetime import UTC, datetime
from random import Random
from typing import Any

from functions.announce.handler import handler as announce
from functions.shared.engine.sweep import Sweep
from functions.shared.stores.table import unmarshal
from local.emulator import Emulator
from tests.integration.harness import MASTER, Context, Harness
from tests.unit.webhook.harness import Received

BOX = "history"
ROUNDS = 500


class Trouble:
    """Loses, doubles, holds back and mixes up messages, and announces events twice or not at all."""

    def __init__(self, harness: Harness, random: Random) -> None:
        self._harness = harness
        self._random = random
        self._held: list[tuple[str, dict[str, Any]]] = []
        self._fates: dict[str, list[int]] = {}
        self.seen: Counter[str] = Counter()

    def run_to_rest(self) -> None:
        """Until nothing is due: no step, no announcement, no attempt."""
        for _ in range(ROUNDS):
            self._announce()
            self._messages()
            items = map(unmarshal, self._harness.items())
            due = [one["dueAt"] for one in items if one.get("due") in ("instance", "event", "delivery")]
            if not due:
                return
            wait = min(due) / 1000 - self._harness.now().timestamp()
            self._harness.advance(max(wait, self._random.uniform(0, 20)) + 0.001)
            self._harness.wiring.invocation(Context()).compose(Sweep)()
        raise AssertionError(f"not at rest after {ROUNDS} rounds")

    def _announce(self) -> None:
        images = [one for one in self._harness.items() if one.get("due") == {"S": "event"}]
        chosen = [image for image in images for _ in range(self._times("announced"))]
        self._random.shuffle(chosen)
        records = [{"dynamodb": {"NewImage": image}} for image in chosen]
        announce({"Records": records}, Context())

    def _messages(self) -> None:
        waiting, self._held = self._held, []
        for queue in self._harness.queues:
            waiting += [(queue, self._taken(queue, record)) for record in self._harness.receive(queue)]
        self._random.shuffle(waiting)
        for queue, record in waiting:
            if self._random.random() < 0.2:
                self.seen["held back"] += 1
                self._held.append((queue, record))
                continue
            for _ in range(self._times("message")):
                self._harness.handle(queue, record)

    def _taken(self, queue: str, record: dict[str, Any]) -> dict[str, Any]:
        """Out of the queue, for us to hand over as we like."""
        url = self._harness.queues[queue]
        self._harness.sqs.delete_message(QueueUrl=url, ReceiptHandle=record["receiptHandle"])
        return record | {"receiptHandle": ""}

    def _times(self, what: str) -> int:
        """Each fate once in five, in any order, so that a short run meets all of them, too."""
        fates = self._fates.setdefault(what, [])
        if not fates:
            fates += self._random.sample((0, 1, 1, 1, 2), 5)
        times = fates.pop()
        self.seen[f"{what} {('lost', 'as it should be', 'twice')[times]}"] += 1
        return times


def told(harness: Harness, secret: str) -> list[dict[str, Any]]:
    """What came, each message verified with the package that receivers use."""
    return [
        Received(
            datetime.fromtimestamp(message["time"], UTC), message["headers"], message["body"].encode()
        ).verified(secret)
        | {"webhook-id": message["headers"]["webhook-id"]}
        for message in harness.simulator.inbox(BOX)
    ]


def test_a_receiver_rebuilds_the_history_from_doubled_lost_and_mixed_up_messages(harness: Harness) -> None:
    random = Random(7)
    trouble = Trouble(harness, random)
    url = harness.simulator.inbox_url(BOX)
    statuses = [random.choice((200, 200, 500, 503, 302, 429)) for _ in range(30)]
    harness.simulator.answer(BOX, *({"status": one, "headers": {"Retry-After": "30"}} for one in statuses))

    instance_id = harness.create(webhookUrl=url)
    trouble.run_to_rest()
    for method, operation in (("POST", "/stop"), ("POST", "/start"), ("DELETE", "")):
        status, answer = harness.call(method, f"/api/instances/{instance_id}{operation}")
        assert status == 202, answer
        trouble.run_to_rest()

    _, shown = harness.call("GET", f"/api/webhooks/secret?url={url}")
    received = told(harness, shown["secrets"][0])
    by_id = {one["webhook-id"]: one for one in received}
    rebuilt = sorted(by_id.values(), key=lambda one: one["sequence"])
    _, answer = harness.call("GET", f"/api/instances/{instance_id}/events")
    fields = ("id", "type", "sequence", "timestamp", "status")
    assert [[one[name] for name in fields] for one in rebuilt] == [
        [one[name] for name in fields] for one in answer["events"]
    ]
    assert [one["sequence"] for one in rebuilt] == list(range(1, len(rebuilt) + 1))
    assert len({json.dumps(one, sort_keys=True) for one in received}) == len(rebuilt)  # the same every time
    assert len(received) > len(rebuilt)
    assert {"message lost", "message twice", "held back", "announced lost"} <= trouble.seen.keys()


def test_every_delivery_is_listed_with_what_became_of_it(harness: Harness) -> None:
    harness.simulator.answer(BOX, {"status": 500}, {"status": 410, "body": "no more"})
    instance_id = harness.create(webhookUrl=harness.simulator.inbox_url(BOX))
    Trouble(harness, Random(1)).run_to_rest()

    _, answer = harness.call("GET", f"/api/webhooks/deliveries?instanceId={instance_id}")

    shown = answer["deliveries"]
    assert [one["eventType"] for one in shown] == [
        "instance.running",
        "instance.starting",
        "instance.creating",
    ]
    outcomes = sorted(attempt["status"] for one in shown for attempt in one["attempts"])
    assert outcomes == [200, 200, 410, 500]
    assert {one["state"] for one in shown} == {"delivered", "ended"}


def test_an_ended_delivery_is_replayed_under_the_same_id(harness: Harness) -> None:
    harness.simulator.answer(BOX, {"status": 410})
    instance_id = harness.create(webhookUrl=harness.simulator.inbox_url(BOX))
    harness.settle()
    _, answer = harness.call("GET", f"/api/webhooks/deliveries?instanceId={instance_id}")
    ended = next(one for one in answer["deliveries"] if one["state"] == "ended")

    status, again = harness.call("POST", f"/api/webhooks/deliveries/{ended['id']}/replay")
    harness.settle()

    assert (status, again["state"]) == (202, "pending")
    same = [one for one in harness.simulator.inbox(BOX) if one["headers"]["webhook-id"] == ended["eventId"]]
    assert len(same) == 2
    assert same[0]["body"] == same[1]["body"]
    _, answer = harness.call("GET", f"/api/webhooks/deliveries?instanceId={instance_id}")
    assert {one["state"] for one in answer["deliveries"]} == {"delivered"}


def test_while_masters_are_changed_receivers_verify_with_either_secret(
    harness: Harness, emulator: Emulator
) -> None:
    url = harness.simulator.inbox_url(BOX)
    _, before = harness.call("GET", f"/api/webhooks/secret?url={url}")
    masters = {"current": "the next master secret, long enough", "previous": MASTER}
    emulator.client("secretsmanager").put_secret_value(
        SecretId=harness.environment["WEBHOOK_SECRET_ID"], SecretString=json.dumps(masters)
    )
    harness.restart()

    harness.create(webhookUrl=url)
    harness.settle()

    _, after = harness.call("GET", f"/api/webhooks/secret?url={url}")
    assert after["secrets"][1:] == before["secrets"]
    assert after["secrets"][0] != before["secrets"][0]
    first, second = (told(harness, secret) for secret in after["secrets"])
    assert len(first) == 3
    assert first == second
