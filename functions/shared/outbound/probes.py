"""Asks the application inside a machine whether it answers: every endpoint once, all at the same time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from functions.shared.domain.delivery.targets import HttpResponse, OutboundFailed
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


class HttpClient(Protocol):
    def request(self, method: str, url: str, *, timeout_total: float, cap_bytes: int) -> HttpResponse: ...

    def connect(self, host: str, port: int, timeout: float) -> None: ...


class Probes:
    def __init__(self, outbound: HttpClient, clock: Callable[[], datetime]) -> None:
        self._outbound = outbound
        self._clock = clock

    def check(self, endpoints: Sequence[Endpoint], check: HealthCheck, within: float) -> HealthReport:
        """One round: each endpoint is asked once, all at the same time, and has `within` seconds."""
        chosen = probe_targets(endpoints, check)
        if not chosen:
            return HealthReport(())
        with ThreadPoolExecutor(max_workers=len(chosen)) as pool:
            return HealthReport(tuple(pool.map(lambda target: self._ask(target, within), chosen)))

    def _ask(self, target: ProbeTarget, seconds: float) -> ProbeResult:
        began = self._clock()
        try:
            fault = self._fault(target, seconds)
        except OutboundFailed as failed:
            # A place that is closed to us is not the application's doing, and has no category of its own.
            refused = failed.category == "refused_target"
            category = "network_unreachable" if refused else failed.category
            fault = ProbeFault(category, failed.message, failed.timed_out)
        now = self._clock()
        return ProbeResult(target, round((now - began).total_seconds() * 1000), now, fault)

    def _fault(self, target: ProbeTarget, seconds: float) -> ProbeFault | None:
        if not target.endpoint:
            return ProbeFault("network_unreachable", f"no address is known for port {target.port}")
        if target.type == "tcp":
            host, _, port = target.endpoint.rpartition(":")
            if not (port.isascii() and port.isdigit()):
                return ProbeFault("network_unreachable", f"no port is known for port {target.port}")
            self._outbound.connect(host, int(port), seconds)
            return None
        answer = self._outbound.request(
            "GET", target.endpoint, timeout_total=seconds, cap_bytes=BODY_CAP_BYTES
        )
        fault = response_fault(answer.status, answer.body_prefix)
        if fault is None and answer.cut:
            return ProbeFault(answer.cut, "the answer began and did not end", answer.timed_out)
        return replace(fault, timed_out=answer.timed_out) if fault else None
