"""That `tests/integration/alarms.py` judges as CloudWatch does: by the examples of its documentation.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.alarms import Alarm, Point

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SAYS: dict[str, bool | None] = {"X": True, "0": False, "-": None}  # beyond the threshold, within it, no data


def alarm(of: int, among: int, missing: str, **more: Any) -> Alarm:
    return Alarm(
        {
            "Namespace": "Ostler",
            "MetricName": "Late",
            "Dimensions": [{"Name": "service", "Value": "ostler"}],
            "Period": 60,
            "Statistic": "Sum",
            "Threshold": 3,
            "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            "DatapointsToAlarm": of,
            "EvaluationPeriods": among,
            "TreatMissingData": missing,
            **more,
        }
    )


@pytest.mark.parametrize(
    ("of", "periods", "if_breaching", "if_not_breaching"),
    [
        (3, "0-X-X", False, False),
        (3, "0----", False, False),
        (3, "-----", True, False),
        (3, "0XX-X", True, True),
        (3, "--X--", True, False),
        (2, "0-X-X", True, True),
        (2, "00X0X", True, True),
        (2, "0-X--", True, False),
        (2, "----0", True, False),
        (2, "---X-", True, False),
    ],
)
def test_of_three_periods_as_the_documentation_has_it(
    of: int, periods: str, if_breaching: bool, if_not_breaching: bool
) -> None:
    verdicts = [SAYS[one] for one in periods]

    assert alarm(of, 3, "breaching").is_raised(verdicts) is if_breaching
    assert alarm(of, 3, "notBreaching").is_raised(verdicts) is if_not_breaching


def test_what_is_further_back_than_it_looks_counts_no_more() -> None:
    one = alarm(1, 1, "notBreaching")

    assert one.is_raised([True, None, None])
    assert not one.is_raised([True, None, None, None])
    assert not one.is_raised([True, False])


def test_points_are_gathered_by_period_metric_and_dimensions() -> None:
    ours = frozenset({("service", "ostler")})
    points = [
        Point(NOON, "Ostler", "Late", ours, 1),
        Point(NOON + timedelta(seconds=59), "Ostler", "Late", ours, 2),
        Point(NOON + timedelta(seconds=60), "Ostler", "Late", ours, 1),
        Point(NOON + timedelta(seconds=60), "Ostler", "Late", frozenset({("service", "other")}), 9),
        Point(NOON + timedelta(seconds=60), "Ostler", "Early", ours, 9),
    ]
    end = NOON + timedelta(minutes=2, seconds=59)

    def history(**more: Any) -> list[bool]:
        return alarm(1, 1, "notBreaching", **more).history(points, NOON, end)

    assert history() == [True, False]
    assert history(Statistic="Maximum", Threshold=2) == [True, False]
    assert history(ComparisonOperator="LessThanThreshold") == [False, True]
