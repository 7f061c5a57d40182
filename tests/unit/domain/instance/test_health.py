"""What is asked of an application, and what counts as healthy."""

from datetime import UTC, datetime
from typing import Any

import pytest

from functions.shared.domain.instance.health import (
    BODY_CAP_BYTES,
    HealthCheck,
    HealthReport,
    ProbeFault,
    ProbeResult,
    ProbeTarget,
    probe_targets,
    response_fault,
)
from functions.shared.domain.instance.machine import Endpoint

WEB = Endpoint(8188, "http", "https://abc-8188.us-ca-6.gpu-instance.novita.ai")
UI = Endpoint(80, "http", "https://abc-80.us-ca-6.gpu-instance.novita.ai/")
SSH = Endpoint(22, "tcp", "proxy.us-ca-6.gpu-instance.novita.ai:62248")


def test_every_http_endpoint_is_asked_and_no_tcp_port() -> None:
    chosen = probe_targets([WEB, SSH, UI], HealthCheck(path="/health"))

    assert [one.endpoint for one in chosen] == [WEB.address + "/health", UI.address + "health"]


def test_a_named_port_is_the_only_one_asked_whatever_its_type() -> None:
    assert probe_targets([WEB, SSH, UI], HealthCheck(target_port=80)) == (
        ProbeTarget(80, "http", UI.address),
    )
    assert probe_targets([WEB, SSH, UI], HealthCheck(target_port=22)) == (
        ProbeTarget(22, "tcp", SSH.address),
    )


def test_a_named_port_that_the_machine_lacks_is_still_something_to_check() -> None:
    assert probe_targets([WEB], HealthCheck(target_port=9000)) == (ProbeTarget(9000, "http", ""),)


def test_without_http_endpoints_there_is_nothing_to_check_and_all_is_well() -> None:
    assert probe_targets([SSH], HealthCheck()) == ()
    assert HealthReport(()).overall == "healthy"


@pytest.mark.parametrize("status", [200, 201, 204, 299, 300, 301, 302, 304, 308, 399])
def test_a_2xx_or_a_redirect_is_healthy(status: int) -> None:
    assert response_fault(status, b"<h1>Welcome</h1>") is None


@pytest.mark.parametrize(
    ("status", "category"),
    [
        (502, "bad_gateway"),
        (503, "service_unavailable"),
        (500, "server_error"),
        (504, "server_error"),
        (599, "server_error"),
        (400, "client_error"),
        (404, "client_error"),
        (101, "invalid_response"),
        (999, "invalid_response"),
    ],
)
def test_any_other_status_has_its_category(status: int, category: str) -> None:
    assert response_fault(status, b"") == ProbeFault(category, f"answered {status}")


@pytest.mark.parametrize(
    ("body", "category"),
    [
        (b"<h1>502 Bad Gateway</h1>", "bad_gateway"),
        (b"BAD GATEWAY", "bad_gateway"),
        (b"Gateway Error", "bad_gateway"),
        (b"upstream error: connection failure", "bad_gateway"),
        (b"<title>Proxy Error</title>", "bad_gateway"),
        (b'{"error":"Service Unavailable"}', "service_unavailable"),
        (b"503 Service Temporarily Unavailable", "service_unavailable"),
        (b"We are in maintenance mode.", "service_unavailable"),
        (b"Internal\n   Server Error", "server_error"),
        (b"Application Error", "server_error"),
        (b"504 Gateway Time-out", "server_error"),
        (b"gateway timeout.", "server_error"),
        (b"\xff\xfe bad gateway", "bad_gateway"),
        (b"x" * (BODY_CAP_BYTES - 12) + b" bad gateway", "bad_gateway"),
    ],
)
@pytest.mark.parametrize("status", [200, 302])
def test_an_error_page_is_unhealthy_whatever_its_status_and_has_the_category_it_names(
    status: int, body: bytes, category: str
) -> None:
    fault = response_fault(status, body)

    assert fault is not None
    assert fault.category == category
    assert fault.message.startswith(f'answered {status} with "')


@pytest.mark.parametrize(
    "body",
    [
        b"a badgateway",
        b"not-so-bad gateways",
        b"bad_gateway",
        b"the gateway is not bad",
        b"service unavailability",
        b"upstream errors: 0",
        b"applications error out",
    ],
)
def test_only_whole_phrases_count(body: bytes) -> None:
    assert response_fault(200, body) is None


def test_only_the_first_64_kb_are_read() -> None:
    assert response_fault(200, b"x" * BODY_CAP_BYTES + b" bad gateway") is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout_ms": 999},
        {"timeout_ms": 60_001},
        {"retry_attempts": -1},
        {"retry_attempts": 11},
        {"retry_delay_ms": 99},
        {"max_wait_time_ms": 29_999},
        {"max_wait_time_ms": 1_800_001},
        {"target_port": 0},
        {"path": "health"},
    ],
)
def test_a_value_out_of_bounds_names_itself(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        HealthCheck(**wrong)


def test_pauses_double_up_to_half_a_minute_and_never_fall_below_half_of_that() -> None:
    check = HealthCheck(retry_delay_ms=2_000)

    assert [check.pause_seconds(attempt, 1) for attempt in (1, 2, 3, 4, 5, 9)] == [2, 4, 8, 16, 30, 30]
    assert check.pause_seconds(1, 0) == 1


@pytest.mark.parametrize(("timeout_ms", "seconds"), [(1_000, 1), (10_000, 10), (15_000, 15), (60_000, 15)])
def test_a_round_takes_15_seconds_at_most(timeout_ms: int, seconds: float) -> None:
    assert HealthCheck(timeout_ms=timeout_ms).round_seconds == seconds


def test_a_report_is_healthy_partial_or_unhealthy_and_has_its_json_form() -> None:
    at = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
    well = ProbeResult(ProbeTarget(80, "http", "http://a/"), 12, at)
    ill = ProbeResult(ProbeTarget(81, "http", "http://b/"), 34, at, ProbeFault("timeout", "timeout"))

    assert [HealthReport(of).overall for of in [(well, well), (well, ill), (ill, ill)]] == [
        "healthy",
        "partial",
        "unhealthy",
    ]
    assert HealthReport((well, ill)).as_json() == {
        "overall": "partial",
        "endpoints": [
            {
                "port": 80,
                "endpoint": "http://a/",
                "type": "http",
                "status": "healthy",
                "responseTime": 12,
                "lastChecked": "2026-03-01T12:00:00.123Z",
            },
            {
                "port": 81,
                "endpoint": "http://b/",
                "type": "http",
                "status": "unhealthy",
                "responseTime": 34,
                "lastChecked": "2026-03-01T12:00:00.123Z",
                "error": {"category": "timeout", "message": "timeout"},
            },
        ],
    }
