"""Writing metrics: once for each invocation, whatever becomes of it, and never in its way."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from functions.shared.platform import observability as metrics
from functions.shared.platform.observability import (
    DEAD_LETTERS,
    METRICS,
    SWEEPS,
    TIME_TO_READY,
    measure,
    metered,
)


@pytest.fixture(autouse=True)
def _nothing_measured_before() -> None:
    metrics._measured.clear()


def written(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]


def test_what_was_measured_is_written_when_the_invocation_ends(capsys: pytest.CaptureFixture[str]) -> None:
    @metered
    def handler(_event: dict[str, Any], _context: Any) -> str:
        measure(SWEEPS)
        measure(TIME_TO_READY, 1.5)
        measure(TIME_TO_READY, 2.5)
        assert written(capsys) == []
        return "done"

    assert handler({}, None) == "done"

    (line,) = written(capsys)
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Ostler"
    assert directive["Dimensions"] == [["service"]]
    assert directive["Metrics"] == [
        {"Name": "Sweeps", "Unit": "Count"},
        {"Name": "TimeToReady", "Unit": "Seconds"},
    ]
    assert (line["service"], line["Sweeps"], line["TimeToReady"]) == ("ostler", [1.0], [1.5, 2.5])


def test_metrics_carry_the_name_of_the_deployment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(metrics.COMMON, "service", "ostler")

    @metered
    def handler(_event: dict[str, Any], _context: Any) -> None:
        measure(SWEEPS)
        metrics.logger.info("swept")

    metrics.name_service("ostler-dev")
    try:
        handler({}, None)
    finally:
        metrics.logger.append_keys(service="ostler")

    assert [line["service"] for line in written(capsys)] == ["ostler-dev"]


def test_a_dimension_has_a_line_for_each_value_which_also_counts_for_the_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @metered
    def handler(_event: dict[str, Any], _context: Any) -> None:
        for queue in ("create", "webhook", "create"):
            measure(DEAD_LETTERS, by=queue)

    handler({}, None)

    lines = written(capsys)
    assert {line["queue"]: line["DeadLetters"] for line in lines} == {"create": [1, 1], "webhook": [1]}
    dimensions = [line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] for line in lines]
    assert dimensions == [[["service"], ["service", "queue"]]] * 2


def test_an_invocation_that_fails_has_told_what_it_measured(capsys: pytest.CaptureFixture[str]) -> None:
    @metered
    def handler(_event: dict[str, Any], _context: Any) -> None:
        measure(SWEEPS)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        handler({}, None)

    assert [line["Sweeps"] for line in written(capsys)] == [[1.0]]


def test_nothing_is_told_twice(capsys: pytest.CaptureFixture[str]) -> None:
    @metered
    def handler(event: dict[str, Any], _context: Any) -> None:
        if event:
            measure(SWEEPS)

    handler({"first": True}, None)
    handler({}, None)

    assert len(written(capsys)) == 1


def test_a_metric_that_cannot_be_written_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise OSError("no space left")

    monkeypatch.setattr(metrics, "_grouped", broken)

    @metered
    def handler(_event: dict[str, Any], _context: Any) -> str:
        measure(SWEEPS)
        return "done"

    assert handler({}, None) == "done"
    assert written(capsys) == []


def test_threads_of_one_invocation_are_all_counted(capsys: pytest.CaptureFixture[str]) -> None:
    @metered
    def handler(_event: dict[str, Any], _context: Any) -> None:
        with ThreadPoolExecutor(8) as pool:
            for _ in range(250):
                pool.submit(measure, SWEEPS)

    handler({}, None)

    assert sum(sum(line["Sweeps"]) for line in written(capsys)) == 250


def test_what_nobody_writes_does_not_pile_up() -> None:
    for _ in range(20_000):
        measure(SWEEPS)

    assert len(metrics._measured) == 10_000
    metrics._measured.clear()


def test_every_metric_has_a_name_of_its_own_and_a_question() -> None:
    assert len({one.name for one in METRICS}) == len(METRICS) > 20
    assert all(one.asks.endswith("?") for one in METRICS)
