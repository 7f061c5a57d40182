"""Alarms on what AWS measures: what it would count is brought about and counted, and the alarm judges it.

The names of AWS's metrics are compared with its documentation in tests/infra; here they are taken from the
alarm itself.
"""

from collections.abc import Callable

import pytest
from botocore.exceptions import ClientError

from tests.integration.alarms import Alarm, Point, synthesised
from tests.integration.harness import Harness
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
    assert alarms.keys() == {"GatewayErrors", "WebhooksLate"}


def test_a_webhook_that_nobody_sends_raises_an_alarm(harness: Harness, alarms: Alarms) -> None:
    url = harness.queues["webhook"]
    harness.sqs.send_message(QueueUrl=url, MessageBody="x")

    sent_at = harness.now()

    def age(_: int) -> float:
        return visible(harness, url) and (harness.now() - sent_at).total_seconds()

    raised = history(harness, alarms["WebhooksLate"], 50, age)

    assert raised[-1]
    assert not any(raised[:5]), "a delay and its retries are no reason"


def test_answers_of_5xx_raise_an_alarm(harness: Harness, alarms: Alarms) -> None:
    def refuse(made: Made) -> None:
        if made.name.startswith("Query"):
            raise ClientError({"Error": {"Code": "ThrottlingException"}}, "Query")

    def answered(_: int) -> float:
        return float(sum(harness.call("GET", "/api/instances")[0] >= 500 for _ in range(2)))

    assert not any(history(harness, alarms["GatewayErrors"], 15, answered))
    harness.wire.before = refuse
    assert history(harness, alarms["GatewayErrors"], 15, answered)[-1]
