"""Requests made up from /openapi.json: none breaks the service, and every answer is as it is described."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings, strategies
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from functions.api.handler import _app as app
from functions.api.openapi import _description
from functions.api.responses import STATUS_OF
from tests.e2e.service import Service

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
LONGEST_QUERY = 8000  # beyond it the gateway answers by itself
EXAMPLES = [4, pytest.param(50, marks=pytest.mark.soak)]  # for each route
CHANGES = ("start", "restart", "stop", "delete")
# Routes that nobody here has a valid id for.
NOTHING_THERE = ("/api/webhooks/deliveries/{delivery_id}/replay", "/api/jobs/dead/{letter_id}/redrive")
BOUNDED = settings(
    derandomize=True,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

DESCRIPTION = json.loads(_description(app))
OPERATIONS = {
    found.ok().label: found.ok()
    for found in schemathesis.openapi.from_dict(DESCRIPTION).get_all_operations()
    if isinstance(found, Ok)
}
# Last, as what is paused refuses others for some seconds more.
LAST = ("POST /api/pause", "POST /api/resume")
LABELS = sorted(OPERATIONS, key=lambda label: (label in LAST, LAST.index(label) if label in LAST else 0))


class Known:
    """What there is, for every other request: one that names nothing gets no further than a 404.

    Each change has an instance of its own, which is as the change wants it.
    """

    def __init__(self, service: Service) -> None:
        self.inbox = service.simulator.inbox_url("generated")
        self.theirs = service.simulator.put_instance(status="running", name="not-ours", ports="80/http")["id"]
        self.seen = service.take_over()
        self.by_change = {what: _taken_over(service, what, f"by-id-{what}") for what in CHANGES}
        for what in CHANGES:
            _taken_over(service, what, f"by-name-{what}")
        service.call("PUT", "/api/budgets/generated", {"limitUsd": "500", "period": "month"})
        self.operation = service.operate(_taken_over(service, "stop", "operated"), "stop")

    def put_into(self, case: Case[Any], number: int) -> None:
        if isinstance(case.body, dict) and str(case.body.get("webhookUrl", "")).lower().startswith("http"):
            case.body["webhookUrl"] = self.inbox  # nothing is sent to whoever has that address
        if number % 2:
            return
        change = "delete" if case.method == "DELETE" else case.operation.path.rpartition("/")[2]
        _replace(
            case.path_parameters,
            instance_id=self.by_change.get(change, self.seen),
            operation_id=self.operation,
            template_id="107672",
            budget_name="generated",
        )
        _replace(case.query, instanceId=self.seen, url=self.inbox)
        _replace(case.body, instanceName=f"by-name-{change}", novitaInstanceId=self.theirs)
        if number < 6:  # each is bought
            _replace(case.body, productName="RTX 4090 24GB", templateId="107672")


def _taken_over(service: Service, what: str, name: str) -> str:
    return service.take_over("exited" if what == "start" else "running", name=name)


def _replace(given: Any, **known: str) -> None:
    if isinstance(given, dict):
        given.update({name: value for name, value in known.items() if name in given})


@pytest.fixture(scope="module")
def known(deployed: Service) -> Iterator[Known]:
    deployed.clean_slate()
    yield Known(deployed)
    for record in deployed.get("/api/instances?limit=100")["instances"]:
        deployed.call("DELETE", f"/api/instances/{record['instanceId']}")
    deployed.assert_books_balance()
    deployed.clean_slate()


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("label", LABELS)
def test_the_answer_is_as_described(label: str, examples: int, deployed: Service, known: Known) -> None:
    operation, statuses = OPERATIONS[label], list[int]()

    @settings(BOUNDED, max_examples=examples)
    @given(strategies.one_of(*(operation.as_strategy(mode) for mode in GenerationMode)))
    def ask(case: Case[Any]) -> None:
        known.put_into(case, len(statuses))
        assume(len(urlencode(case.query or {})) < LONGEST_QUERY)
        answer = case.call_and_validate(deployed.stack.api_url, deployed.session, checks=CHECKS, timeout=60)
        statuses.append(answer.status_code)
        if answer.status_code >= 400:
            error = answer.json()["error"]
            assert STATUS_OF[error["code"]] == answer.status_code
            assert error["requestId"] == answer.headers["x-request-id"][0]

    ask()

    assert operation.path in NOTHING_THERE or min(statuses) < 300


def test_what_is_asked_is_what_the_running_service_describes(deployed: Service) -> None:
    assert requests.get(f"{deployed.stack.api_url}/openapi.json", timeout=30).json() == DESCRIPTION
