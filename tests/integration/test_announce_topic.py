"""What subscribers of the topic get: each event at least once, and by a filter policy only what is theirs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from functions.announce.handler import handler as announce
from functions.shared.platform.wiring import Wiring
from functions.shared.stores.table import Write
from tests.integration.harness import Context, Harness
from tests.integration.subscriber import Subscriber
from tests.integration.wire import Made

SERVICE_EVENTS: list[dict[str, Any]] = [
    {
        "pk": "circuit#reads",
        "sk": "event#0000000001",
        "id": "evt_circuit",
        "type": "circuit.opened",
        "timestamp": "2030-01-01T12:00:00.000Z",
        "circuit": "reads",
        "state": "OPEN",
    },
    {
        "pk": "orphan#m-1",
        "sk": "event#0000000001",
        "id": "evt_orphan",
        "type": "orphan.detected",
        "timestamp": "2030-01-01T12:00:00.000Z",
        "data": {"novitaInstanceId": "m-1", "instanceId": "inst_gone"},
    },
]


@contextmanager
def failing(harness: Harness, name: str) -> Iterator[list[Made]]:
    """Calls of the announcer of this name are not answered."""
    failed: list[Made] = []

    def fail(made: Made) -> None:
        if made.handler == "announce" and made.name.startswith(name):
            failed.append(made)
            raise EndpointConnectionError(endpoint_url="http://127.0.0.1:9")

    harness.wire.before = fail
    yield failed
    harness.wire.before = None


def store(harness: Harness, *events: dict[str, Any]) -> None:
    due = {"kind": "event", "due": "event", "dueAt": int(harness.now().timestamp() * 1000)}
    for event in events:
        harness.wiring.table.put(Write({**event, **due}))


def test_subscribers_get_only_what_their_filter_policy_names(harness: Harness) -> None:
    running = Subscriber(harness, {"eventType": ["instance.running"]})
    service = Subscriber(harness, {"eventType": [{"prefix": "circuit."}, "orphan.detected"]})
    region = Subscriber(harness, {"region": ["CN-HK-01"], "status": ["starting"]})
    everything = Subscriber(harness, None)
    store(harness, *SERVICE_EVENTS)

    instance_id = harness.create()
    harness.settle()
    other_id = harness.create()
    harness.settle()

    assert [(one["type"], one["instanceId"]) for one in running.received()] == [
        ("instance.running", instance_id),
        ("instance.running", other_id),
    ]
    assert sorted(one["id"] for one in service.received()) == ["evt_circuit", "evt_orphan"]
    assert {one["type"] for one in region.received()} == {"instance.starting"}
    assert len(everything.received()) == 3 + 3 + 2


def test_a_message_carries_the_attributes_that_policies_may_name(harness: Harness) -> None:
    everything = Subscriber(harness, None)

    instance_id = harness.create()
    harness.settle()

    by_type = {one["type"]: one for one in everything.received()}
    assert by_type["instance.running"]["attributes"] == {
        "eventType": "instance.running",
        "status": "running",
        "instanceId": instance_id,
        "region": "CN-HK-01",
    }
    assert by_type["instance.running"]["id"] == f"evt_{instance_id.removeprefix('inst_')}_3"


def test_events_of_the_service_itself_are_announced_too(harness: Harness) -> None:
    everything = Subscriber(harness, None)
    store(harness, *SERVICE_EVENTS)

    harness.announce()

    by_type = {one["type"]: one for one in everything.received()}
    assert by_type["circuit.opened"]["data"] == {"circuit": "reads", "state": "OPEN"}
    assert by_type["circuit.opened"]["attributes"] == {"eventType": "circuit.opened"}
    assert by_type["orphan.detected"]["data"]["novitaInstanceId"] == "m-1"
    assert harness.announce() == 0


@pytest.mark.parametrize("call", ["Publish", "PutItem inst/delivery"])
def test_an_event_that_could_not_be_told_stays_due_and_comes_again(harness: Harness, call: str) -> None:
    everything = Subscriber(harness, None)
    box = harness.simulator.inbox_url("again")
    with failing(harness, call) as failed:
        instance_id = harness.create(webhookUrl=box)
        assert harness.announce() == 1
    assert failed

    harness.settle()
    harness.run(120)

    sent = [one["id"] for one in everything.received()]
    ids = [f"evt_{instance_id.removeprefix('inst_')}_{number}" for number in (1, 2, 3)]
    assert sorted(set(sent)) == ids  # at least once, with the same id
    assert sorted(one["headers"]["webhook-id"] for one in harness.simulator.inbox("again")) == ids


def test_an_event_is_due_until_its_webhook_was_sent_and_the_topic_has_it_once(harness: Harness) -> None:
    everything = Subscriber(harness, None)

    harness.create(webhookUrl=harness.simulator.inbox_url("told"))
    harness.announce()
    published, (event,) = everything.received(), harness._due("event")
    covered = harness._due("delivery")
    harness.settle()

    assert (len(published), covered) == (1, [])
    assert event["sk"] == {"S": "event#0000000001"}
    assert harness._due("event") == harness._due("delivery") == []
    assert len(everything.received()) == 2
    assert len(harness.simulator.inbox("told")) == 3


def test_an_event_whose_webhook_has_to_wait_is_not_published_again_and_again(harness: Harness) -> None:
    """A receiver that refuses is tried again by the delivery's own time."""
    everything = Subscriber(harness, None)
    harness.simulator.answer("refuses", {"status": 500})

    harness.create(webhookUrl=harness.simulator.inbox_url("refuses"))
    harness.run(150)

    published = [one["sequence"] for one in everything.received()]
    assert sorted(published) == [1, 2, 3]
    assert (len(harness._due("event")), len(harness._due("delivery"))) == (0, 3)


def test_when_the_webhook_queue_refuses_the_sweep_sends_the_first_attempt(harness: Harness) -> None:
    with failing(harness, "SendMessage webhook") as failed:
        harness.create(webhookUrl=harness.simulator.inbox_url("later"))
        harness.announce()
    assert failed
    assert harness.simulator.inbox("later") == []

    harness.advance(121)
    harness.sweep()
    harness.settle()

    assert len(harness.simulator.inbox("later")) == 3


def test_an_event_that_makes_no_sense_holds_up_nobody(harness: Harness) -> None:
    everything = Subscriber(harness, None)
    store(harness, {"pk": "a", "sk": "event#1"}, {"pk": "b", "sk": "event#1", "event": {"type": 7}})
    store(harness, *SERVICE_EVENTS)

    harness.announce()

    assert len(everything.received()) == 2
    assert harness.announce() == 2  # still due, for whoever reads the log


class Running(Context):
    """The time that is left goes by with the harness's."""

    def __init__(self, harness: Harness, seconds: float) -> None:
        self._harness = harness
        self._end = harness.now().timestamp() + seconds

    def get_remaining_time_in_millis(self) -> int:  # type: ignore[override]  # the other never ends
        return int(1000 * (self._end - self._harness.now().timestamp()))


def announce_batch(harness: Harness) -> None:
    """All events that are due in one invocation, as the stream brings them, with what the template gives."""
    images = [harness._item(key) for key in harness._due("event")]
    with harness.wire.handling("announce"):
        announce({"Records": [{"dynamodb": {"NewImage": one}} for one in images]}, Running(harness, 60))


def hanging(harness: Harness, seconds: float, *, answers: bool) -> list[Made]:
    """Every publish takes so long, and is answered then or never."""
    asked: list[Made] = []

    def hang(made: Made) -> None:
        if made.name.startswith("Publish"):
            asked.append(made)
            harness.advance(seconds)
            if not answers:
                raise ReadTimeoutError(endpoint_url="https://sns")

    harness.wire.before = hang
    return asked


@pytest.mark.parametrize(("seconds", "answers", "most"), [(8, False, 1), (7, True, 5)])
def test_a_topic_that_hangs_holds_up_neither_webhooks_nor_the_batch(
    harness: Harness, seconds: float, answers: bool, most: int
) -> None:
    everything = Subscriber(harness, None)
    harness.announcing = False
    for number in range(12):
        harness.create(webhookUrl=harness.simulator.inbox_url(f"box{number}"))
    began, asked = harness.now(), hanging(harness, seconds, answers=answers)

    announce_batch(harness)

    harness.wire.before = None
    assert 1 <= len(asked) <= most
    assert (harness.now() - began).total_seconds() < 60
    while harness.deliver():
        pass
    assert all(harness.simulator.inbox(f"box{number}") for number in range(12))

    harness.announcing = True
    harness.settle()
    harness.run(300)
    ids = {one["id"] for one in everything.received()}
    assert len(ids) == 12 * 3


def test_one_event_of_a_batch_that_cannot_be_told_holds_up_no_other(harness: Harness) -> None:
    everything = Subscriber(harness, None)
    store(harness, {"pk": "a", "sk": "event#1"}, {"pk": "b", "sk": "event#1", "event": {"type": 7}})
    store(harness, *SERVICE_EVENTS)

    announce_batch(harness)

    assert sorted(one["id"] for one in everything.received()) == ["evt_circuit", "evt_orphan"]


def test_the_topic_is_given_less_time_than_one_event_may_take(harness: Harness) -> None:
    config = Wiring.client(harness.wiring, "sns").meta.config

    longest = (config.connect_timeout + config.read_timeout) * config.retries["total_max_attempts"]
    assert longest <= 8
