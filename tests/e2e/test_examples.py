"""The examples of /openapi.json against what `make run` runs, as somebody tries them in /docs."""

import pytest

from tests.e2e.service import Service
from tests.integration.test_described_examples import IN_ORDER, example, with_a_body

# What is waited for before the next one.
THEN = {"stop": "stopped", "start": "ready", "restart": "ready", "delete": "terminated"}


@pytest.mark.soak
def test_each_example_succeeds_against_the_deployed_service(service: Service) -> None:
    theirs = service.simulator.put_instance(status="running", name="theirs", ports="80/http")["id"]
    made = ""
    for route in IN_ORDER:
        method, _, path = route.partition(" ")
        body = example(with_a_body()[route])
        if "novitaInstanceId" in body:  # of a machine that somebody bought elsewhere
            body = {**body, "novitaInstanceId": theirs}
        answer = service.call(method, path.format(instance_id=made, budget_name="research"), body)
        assert answer.ok, (route, answer.text)
        if route == "POST /api/instances":
            made = answer.json()["instanceId"]
            service.wait_for(made, "running")
        elif (what := path.rpartition("/")[2]) in THEN:
            service.wait_for(made, THEN[what])
