"""What log lines carry: the ids of what is being dealt with, and of nothing that came before."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from functions.shared.platform.observability import correlated, correlation_id, logger


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """Filled when the test has logged something."""
    found: list[dict[str, Any]] = []

    class Kept(logging.StreamHandler[io.StringIO]):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(self.format(record)))

    handler = Kept(io.StringIO())
    handler.setFormatter(logger.registered_formatter)
    logging.getLogger("ostler").addHandler(handler)
    yield found
    logging.getLogger("ostler").removeHandler(handler)


def test_within_another_id_the_inner_one_counts_and_afterwards_the_outer_one_again(
    lines: list[dict[str, Any]],
) -> None:
    with correlated("request", request_id="r"):
        with correlated("instance", instance_id="i"):
            inner = correlation_id()
            logger.info("inside")
        outer = correlation_id()
        logger.info("after")
    logger.info("outside")

    assert (inner, outer, correlation_id()) == ("instance", "request", "")
    carried = [
        {name: line[name] for name in ("correlation_id", "request_id", "instance_id") if name in line}
        for line in lines
    ]
    assert carried == [
        {"correlation_id": "instance", "request_id": "r", "instance_id": "i"},
        {"correlation_id": "request", "request_id": "r"},
        {},
    ]


def test_an_error_on_the_way_out_changes_nothing_of_that(lines: list[dict[str, Any]]) -> None:
    with correlated("request"):
        with pytest.raises(ValueError, match="x"), correlated("instance", instance_id="i"):
            raise ValueError("x")
        logger.info("after")

    assert lines[0]["correlation_id"] == "request"
    assert "instance_id" not in lines[0]
