"""Metrics of the deployed functions: lines of their own in the log, whole and readable."""

import json
from typing import Any

from tests.e2e.service import Service

# The emulator hands out what a function printed late only with the next invocation of the same process.
_LIVES = 4


def test_a_sweep_leaves_its_metrics_in_the_log(service: Service) -> None:
    already = len(_lines(service))

    def told() -> set[str]:
        new = _lines(service)[already:]
        return {metric["Name"] for one in new for metric in one["_aws"]["CloudWatchMetrics"][0]["Metrics"]}

    wanted = {"Sweeps", "Compared"}  # that an alarm judges; the others are written with `watch=full`
    for _ in range(_LIVES):
        service.wait_for(service.create(), "running")
        service.sweep()
        if service.wait(lambda: wanted <= told(), seconds=10):
            break

    assert told() >= wanted


def _lines(service: Service) -> list[dict[str, Any]]:
    """What CloudWatch would take for metrics: whole lines of JSON, here behind the function's name."""
    logged = (line.partition(" ")[2] for line in service.log().splitlines())
    return [json.loads(line) for line in logged if line.startswith('{"_aws"')]
