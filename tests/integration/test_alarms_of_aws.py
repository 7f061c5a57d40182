"""Alarms on what AWS measures: what it would count is brought about and counted, and the alarm judges it.

The names of AWS's metrics are compared with its documentation in tests/infra; here they are taken from the
alarm itself.
"""

import importlib
from collections.abc import Callable, Iterator

import pytest
from botocore.exceptions import ClientError

from functions.shared.platform import wiring
from tests.infra.template import NAMES, QUEUES
from tests.integration.alarms import Alarm, Point, synthesised
from tests.integration.harness import Context, Harness
from tests.integration.wire import Made

MINUTE = 60.0
Alarms = dict[str, Alarm]


@pytest.fixture(scope="session")
def alarms() -> Alarms:
    return synthesised(ours=False)


def history(
    harness: Harness, alarm: Alarm, minutes: int, measure: Callable[[int], float | None]
) -> list[bool]:
    """Each minute AWS measures; whether the alarm is raised at the end of each of its periods."""
    since, points = harness.now(), []
    given = alarm.properties
    dimensions = frozenset((one["Name"], str(one["Value"])) for one in given["Dimensions"])
    for minute in range(minutes):
        value = measure(minute)
        if value is not None:
            points.append(Point(harness.now(), given["Namespace"], given["MetricName"], dimensions, value))
        harness.advance(MINUTE)
    return alarm.history(points, since, harness.now())


def visible(harness: Harness, url: str) -> float:
    wanted = "ApproximateNumberOfMessages"
    found = harness.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[wanted])
    return float(found["Attributes"][wanted])


def test_every_alarm_on_what_aws_measures_is_made_to_fire_here(alarms: Alarms) -> None:
    of_queues = {f"OldestMessage-{queue}" for queue in QUEUES}
    of_functions = {f"FunctionErrors-{name}" for name in NAMES}

    assert alarms.keys() == of_queues | of_functions | {
        "GatewayErrors",
        "Throttles-api",
        "Throttles-reconcile",
    }


@pytest.mark.parametrize("queue", QUEUES)
def test_a_message_that_nobody_takes_raises_an_alarm(harness: Harness, alarms: Alarms, queue: str) -> None:
    url = harness.queues[queue]
    harness.sqs.send_message(QueueUrl=url, MessageBody="x")

    (message,) = harness.sqs.receive_message(
        QueueUrl=url, VisibilityTimeout=0, AttributeNames=["SentTimestamp"]
    )["Messages"]
    sent_at = int(message["Attributes"]["SentTimestamp"]) / 1000

    def age(_: int) -> float:
        return visible(harness, url) and harness.now().timestamp() - sent_at

    raised = history(harness, alarms[f"OldestMessage-{queue}"], 50, age)

    assert raised[-1]
    assert not any(raised[:5]), "a delay and its retries are no reason"


@pytest.fixture
def misconfigured(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    """As after a deploy with a bad setting: every function stops, and names it."""
    mended = harness.wiring
    for name, value in {**harness.environment, "LOG_LEVEL": "loud"}.items():
        monkeypatch.setenv(name, value)
    wiring.use(None)
    yield harness
    wiring.use(mended)


@pytest.mark.parametrize("name", NAMES)
def test_a_function_that_crashes_again_and_again_raises_an_alarm(
    misconfigured: Harness, alarms: Alarms, name: str
) -> None:
    handler = importlib.import_module(f"functions.{name}.handler").handler

    def crashed(_: int) -> float:
        with pytest.raises(Exception, match="LOG_LEVEL"):
            handler({"Records": [], "headers": {}}, Context())
        return 1.0

    alarm = alarms[f"FunctionErrors-{name}"]
    assert history(misconfigured, alarm, 15, crashed) == [True]
    assert history(misconfigured, alarm, 15, lambda minute: crashed(minute) if minute < 2 else 0.0) == [False]


def test_answers_of_5xx_raise_an_alarm(harness: Harness, alarms: Alarms) -> None:
    def refuse(made: Made) -> None:
        if made.name.startswith("Query"):
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "Query")

    def answered(_: int) -> float:
        return float(sum(harness.call("GET", "/api/instances")[0] >= 500 for _ in range(2)))

    assert not any(history(harness, alarms["GatewayErrors"], 15, answered))
    harness.wire.before = refuse
    assert history(harness, alarms["GatewayErrors"], 15, answered)[-1]


@pytest.mark.parametrize("name", ["api", "reconcile"])
def test_a_function_that_lambda_refuses_to_run_raises_an_alarm(
    harness: Harness, alarms: Alarms, name: str
) -> None:
    """No emulator refuses any: only the count is given."""
    alarm = alarms[f"Throttles-{name}"]

    assert history(harness, alarm, 5, lambda _: 1.0) == [True]
    assert history(harness, alarm, 5, lambda minute: 1.0 if minute < 2 else None) == [False]
