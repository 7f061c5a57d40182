"""Whether the application inside a machine answers: what to ask, what counts as healthy, what to report."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functions.shared.domain.ids import timestamp
from functions.shared.domain.instance.machine import Endpoint

BODY_CAP_BYTES = 65_536
BOUNDS = {
    "timeout_ms": (1_000, 60_000),
    "retry_attempts": (0, 10),
    "retry_delay_ms": (100, 30_000),
    "max_wait_time_ms": (30_000, 1_800_000),
    "target_port": (1, 65_535),
}
ROUND_SECONDS = 15.0  # no application keeps a worker longer than this with one round
# What proxies and frameworks print when they answer for an application that is not there, each with the
# category of the status that it would have been sent with.
_MARKERS = {
    "bad gateway": "bad_gateway",
    "gateway error": "bad_gateway",
    "upstream error": "bad_gateway",
    "proxy error": "bad_gateway",
    "service unavailable": "service_unavailable",
    "service temporarily unavailable": "service_unavailable",
    "maintenance mode": "service_unavailable",
    "internal server error": "server_error",
    "application error": "server_error",
    "gateway timeout": "server_error",
    "gateway time-out": "server_error",
}
_MARKER = re.compile(
    r"(?<!\w)(?:" + "|".join(re.escape(marker).replace(r"\ ", r"\s+") for marker in _MARKERS) + r")(?!\w)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class HealthCheck:
    timeout_ms: int = 10_000
    retry_attempts: int = 3
    retry_delay_ms: int = 2_000
    max_wait_time_ms: int = 300_000
    target_port: int | None = None
    path: str = "/"

    def __post_init__(self) -> None:
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ValueError(f"{name} must be between {low} and {high}")
        if not self.path.startswith("/"):
            raise ValueError("path must begin with /")

    @property
    def round_seconds(self) -> float:
        return min(self.timeout_ms / 1000, ROUND_SECONDS)

    def pause_seconds(self, rounds: int, chance: float) -> float:
        """The wait after so many rounds (from 1): doubled each time, between half and whole of it."""
        high = BOUNDS["retry_delay_ms"][1]
        return float(min(self.retry_delay_ms * 2 ** (rounds - 1), high) * (0.5 + chance / 2) / 1000)


@dataclass(frozen=True)
class ProbeTarget:
    port: int
    type: str  # "http": a GET; "tcp": a connect
    endpoint: str  # the URL with its path, or host:port; empty while no address is known


@dataclass(frozen=True)
class ProbeFault:
    category: str
    message: str
    timed_out: bool = False  # it took all the time that it was given


@dataclass(frozen=True)
class ProbeResult:
    target: ProbeTarget
    response_time_ms: int
    checked_at: datetime
    fault: ProbeFault | None = None

    @property
    def healthy(self) -> bool:
        return self.fault is None

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "port": self.target.port,
            "endpoint": self.target.endpoint,
            "type": self.target.type,
            "status": "healthy" if self.healthy else "unhealthy",
            "responseTime": self.response_time_ms,
            "lastChecked": timestamp(self.checked_at),
        }
        if self.fault:
            shown["error"] = {"category": self.fault.category, "message": self.fault.message}
        return shown


@dataclass(frozen=True)
class HealthReport:
    results: tuple[ProbeResult, ...]

    @property
    def overall(self) -> str:
        healthy = sum(result.healthy for result in self.results)
        if healthy == len(self.results):
            return "healthy"
        return "partial" if healthy else "unhealthy"

    @property
    def timed_out(self) -> bool:
        return any(result.fault is not None and result.fault.timed_out for result in self.results)

    def as_json(self) -> dict[str, Any]:
        return {"overall": self.overall, "endpoints": [result.as_json() for result in self.results]}


def probe_targets(endpoints: Sequence[Endpoint], check: HealthCheck) -> tuple[ProbeTarget, ...]:
    """Every http endpoint, or only the port that is named. A named port that the machine lacks stays a
    target without an address, so that it is unhealthy rather than nothing to check."""
    if check.target_port is None:
        chosen = [endpoint for endpoint in endpoints if endpoint.type == "http"]
    else:
        chosen = [endpoint for endpoint in endpoints if endpoint.port == check.target_port]
        chosen = chosen or [Endpoint(check.target_port, "http", "")]
    return tuple(ProbeTarget(one.port, one.type, _asked(one, check.path)) for one in chosen)


def _asked(endpoint: Endpoint, path: str) -> str:
    if endpoint.type != "http" or not endpoint.address:
        return endpoint.address
    return endpoint.address.rstrip("/") + path


def response_fault(status: int, body: bytes) -> ProbeFault | None:
    """None is healthy: a 2xx or 3xx whose first 64 kB hold no error page. A redirect is an answer, and is not
    followed: it may lead to a log-in page."""
    if 200 <= status < 400:
        found = _MARKER.search(body[:BODY_CAP_BYTES].decode("utf-8", "replace"))
        if found is None:
            return None
        marker = " ".join(found[0].lower().split())
        return ProbeFault(_MARKERS[marker], f'answered {status} with "{marker}"')
    return ProbeFault(_category(status), f"answered {status}")


def _category(status: int) -> str:
    if status == 502:  # Novita's gateway, while the application is not listening yet
        return "bad_gateway"
    if status == 503:
        return "service_unavailable"
    if 500 <= status < 600:
        return "server_error"
    return "client_error" if 400 <= status < 500 else "invalid_response"
