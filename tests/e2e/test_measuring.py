"""Metrics of the deployed functions: lines of their own in the log, whole and readable."""

import json
from typing import Any

from tests.e2e.service import Service


def test_a_create_leaves_its_metrics_in_the_log(service: Service) -> None:
    already = len(_lines(service))

    service.wait_for(service.create(), "running")
    service.sweep()

    def told() -> set[str]:
        new = _lines(service)[already:]
        return {metric["Name"] for one in new for metric in one["_aws"]["CloudWatchMetrics"][0]["Metrics"]}

    wanted = {
        "InstancesAccepted",
        "Purchases",
        "TimeToReady",
        "NovitaCalls",
        "NovitaLatency",
        "Sweeps",
        "Machines",
    }
    assert service.wait(lambda: wanted <= told()), told()


def _lines(service: Service) -> list[dict[str, Any]]:
    """What CloudWatch would take for metrics: whole lines of JSON, here behind the function's name."""
    logged = (line.partition(" ")[2] for line in service.log().splitlines())
    return [json.loads(line) for line in logged if line.startswith('{"_aws"')]
