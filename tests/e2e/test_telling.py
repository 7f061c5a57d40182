"""Who is told of events, and what happens when they do not listen."""

import json

from tests.e2e.service import Json, Service


def test_a_receiver_that_was_down_gets_every_event_in_the_end_under_the_same_id(service: Service) -> None:
    hook = service.simulator.inbox_url("down")
    service.simulator.answer(
        "down", {"status": 500, "times": 3}, {"status": 302, "times": 1}, {"delayMs": -1}
    )

    instance_id = service.create(webhookUrl=hook)

    service.wait_for(instance_id, "running")
    events = service.events(instance_id)
    assert service.wait(lambda: len(service.simulator.inbox("down")) == 5 + len(events))
    messages = service.simulator.inbox("down")
    told = [service.opened(message, hook) for message in messages]
    assert [one["id"] for one in told] == [message["headers"]["webhook-id"] for message in messages]
    assert {one["id"] for one in told} == {event["id"] for event in events}
    for event in events:
        attempts = [message for message in messages if message["headers"]["webhook-id"] == event["id"]]
        stamps = [int(message["headers"]["webhook-timestamp"]) for message in attempts]
        assert stamps == sorted(stamps)
        assert len({message["body"] for message in attempts}) == 1


def test_a_receiver_that_is_gone_is_not_asked_again(service: Service) -> None:
    hook = service.simulator.inbox_url("gone")
    service.simulator.answer("gone", status=410)

    instance_id = service.create(webhookUrl=hook)

    service.wait_for(instance_id, "running")
    assert service.wait(lambda: len(service.simulator.inbox("gone")) == 3)
    assert service.wait(lambda: set(_states(service)) == {"ended"})
    assert len(service.simulator.inbox("gone")) == 3


def _states(service: Service) -> list[str]:
    return [item["state"]["S"] for item in service.items() if item.get("kind") == {"S": "delivery"}]


def test_a_subscriber_gets_only_the_events_that_its_filter_lets_through(service: Service) -> None:
    everything = service.subscribed()
    some = service.subscribed({"eventType": ["instance.running", "instance.failed"]})

    instance_id = service.create()

    service.wait_for(instance_id, "running")
    told: list[Json] = []

    def all_told() -> bool:
        told.extend(map(json.loads, service.received(everything)))
        return len(told) == 3

    assert service.wait(all_told)
    assert {one["type"] for one in told} == {"instance.creating", "instance.starting", "instance.running"}
    let_through = [json.loads(text) for text in service.received(some)]
    assert [(one["type"], one["instanceId"]) for one in let_through] == [("instance.running", instance_id)]
    assert {one["id"] for one in told} == {event["id"] for event in service.events(instance_id)}
