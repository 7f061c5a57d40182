"""Alarms as CloudWatch would judge them: their synthesised definitions over the metrics that were written."""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from functions.shared.platform.observability import METRICS, NAMESPACE
from local.paths import CLOUD_ASSEMBLY
from local.synthesis import stack_template

Dimensions = frozenset[tuple[str, str]]

_STATISTICS: dict[str, Callable[[list[float]], float]] = {"Sum": sum, "Maximum": max}
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "GreaterThanOrEqualToThreshold": float.__ge__,
    "LessThanThreshold": float.__lt__,
}
_MISSING = {"breaching": True, "notBreaching": False}
_UNITS = {metric.name: metric.unit for metric in METRICS}
# So many periods more than it needs does CloudWatch look back where data is missing: 5 for 3, in its example.
_LOOKS_FURTHER_BACK = 2


@dataclass(frozen=True)
class Point:
    at: datetime
    namespace: str
    metric: str
    dimensions: Dimensions
    value: float


class Metrics(io.TextIOBase):
    """Standard output of functions, read as CloudWatch reads it, at the time that it is there."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.points: list[Point] = []
        self._now = now
        self._line = ""

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            if '"_aws"' in line:
                self.points += _points(json.loads(line), self._now())
        return len(text)

    def of(self, metric: str, **dimensions: str) -> list[float]:
        """Every value of it, with just these dimensions beside the common one."""
        wanted = frozenset({"service": "ostler", **dimensions}.items())
        return [one.value for one in self.points if (one.metric, one.dimensions) == (metric, wanted)]


def _points(line: dict[str, Any], now: datetime) -> Iterator[Point]:
    for directive in line["_aws"]["CloudWatchMetrics"]:
        assert directive["Namespace"] == NAMESPACE
        for metric in directive["Metrics"]:
            assert metric["Unit"] == _UNITS[metric["Name"]]
            for names in directive["Dimensions"]:
                dimensions = frozenset((name, str(line[name])) for name in names)
                for value in line[metric["Name"]]:
                    yield Point(now, NAMESPACE, metric["Name"], dimensions, value)


@dataclass(frozen=True)
class Alarm:
    properties: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.properties["AlarmName"])

    def history(self, points: list[Point], begin: datetime, end: datetime) -> list[bool]:
        """Whether it is raised at the end of each of its periods."""
        period = timedelta(seconds=self.properties["Period"])
        verdicts: list[bool | None] = []
        told = []
        while begin + period <= end:
            verdicts.append(self._verdict(points, begin, begin + period))
            told.append(self.is_raised(verdicts))
            begin += period
        return told

    def is_raised(self, verdicts: list[bool | None]) -> bool:
        """By what is known of each period until now: beyond the threshold, within it, or no data (None).

        The latest data counts, also from further back than the periods that are asked for; what is missing
        fills only what is left of these. So a point stays in view for longer than one would think.
        """
        needed: int = self.properties["DatapointsToAlarm"]
        periods: int = self.properties["EvaluationPeriods"]
        in_view = verdicts[-(periods + _LOOKS_FURTHER_BACK) :]
        known = [one for one in in_view if one is not None][-periods:]
        filled = [_MISSING[self.properties["TreatMissingData"]]] * (periods - len(known))
        return [*known, *filled].count(True) >= needed

    def _verdict(self, points: list[Point], begin: datetime, end: datetime) -> bool | None:
        given = self.properties
        dimensions = frozenset((one["Name"], str(one["Value"])) for one in given["Dimensions"])
        wanted = (given["Namespace"], given["MetricName"], dimensions)
        values = [
            one.value
            for one in points
            if (one.namespace, one.metric, one.dimensions) == wanted and begin <= one.at < end
        ]
        if not values:
            return None
        value = float(_STATISTICS[given["Statistic"]](values))
        return _COMPARISONS[given["ComparisonOperator"]](value, float(given["Threshold"]))


def synthesised(*, ours: bool) -> dict[str, Alarm]:
    """By name, without the service's: those judged by metrics of our own, or by AWS's."""
    stack_template(lambda _: None)
    resources = json.loads((CLOUD_ASSEMBLY / "OstlerWatch.template.json").read_text())["Resources"].values()
    found = [Alarm(one["Properties"]) for one in resources if one["Type"] == "AWS::CloudWatch::Alarm"]
    wanted = [alarm for alarm in found if (alarm.properties["Namespace"] == NAMESPACE) is ours]
    return {alarm.name.removeprefix("Ostler-"): alarm for alarm in wanted}
