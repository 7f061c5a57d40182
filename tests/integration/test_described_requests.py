"""What /openapi.json describes, asked by schemathesis: no failure and no warning, in any of its phases."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.api_server import serving
from tests.integration.conftest import Build
from tests.integration.dead_letters import failed_create
from tests.integration.harness import Harness

CHANGES = ("start", "restart", "stop", "delete")
CONFIG = """
[warnings]
fail-on = true

[checks]
# Another method than those described is no route here (404 ROUTE_NOT_FOUND), as the README says.
unsupported_method.enabled = false
# 422 is about what can be had now, and not about the form of the request.
positive_data_acceptance.expected-statuses = ["2xx", 404, 409, 422]
"""


def known(harness: Harness) -> dict[str, object]:
    """What there is: each change has an instance of its own, which is as the change wants it."""
    inbox = harness.simulator.inbox_url("described")
    _, dead_letter = failed_create(harness)
    seen = harness.create(name="seen", webhookUrl=inbox)
    by_change = {what: harness.create(name=f"by-id-{what}") for what in CHANGES}
    for what in CHANGES:
        harness.create(name=f"by-name-{what}")
    harness.settle()
    for name in ("by-id-start", "by-name-start"):
        harness.call("POST", "/api/instances/stop", {"instanceName": name})
    operation = harness.call("POST", f"/api/instances/{seen}/stop")[1]["operationId"]
    harness.settle()
    _, delivered = harness.call("GET", f"/api/webhooks/deliveries?instanceId={seen}")
    machine = harness.simulator.put_instance(status="running", name="not-ours", ports="80/http")
    ids = {
        "instance_id": seen,
        "operation_id": operation,
        "template_id": "107672",
        "delivery_id": delivered["deliveries"][0]["id"],
        "letter_id": dead_letter["id"],
    }
    return {
        "ids": ids,
        "by_change": by_change,
        "theirs": machine["id"],
        "url": inbox,
    }


def give_back(harness: Harness) -> None:
    """All that was made: some of it has limits of years, or looks for a use for ever."""
    harness.call("POST", "/api/resume")
    for record in harness.records():
        harness.call("PATCH", f"/api/instances/{record.id}", {"protected": False})
        harness.call("DELETE", f"/api/instances/{record.id}")
    harness.settle()


SMALL = ["--max-examples", "1", "--include-tag", "instances"]
WHOLE = ["--max-examples", "30"]


@pytest.mark.parametrize("much", [SMALL, pytest.param(WHOLE, marks=pytest.mark.soak)], ids=["small", "whole"])
def test_no_failure_and_no_warning(build: Build, tmp_path: Path, much: list[str]) -> None:
    harness = build(NOVITA_RATE_LIMIT="10000", REQUESTS_PER_CALLER="1000000", RETRY_BASE_SECONDS="0")
    there = known(harness)
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    environment = {
        **os.environ,
        "OSTLER_KNOWN": json.dumps(there),
        "SCHEMATHESIS_HOOKS": "tests.integration.schemathesis_hooks",
    }
    with serving(harness) as url:
        command = [str(Path(sys.executable).parent / "st"), "--config-file", str(config), "run"]
        command += [f"{url}/openapi.json", "-H", f"Authorization: Bearer {harness.key}"]
        command += [*much, "--seed", "1", "--continue-on-failure"]
        ran = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=3000, check=False
        )
    if much is WHOLE:
        give_back(harness)
    else:  # it is about the answers
        harness.wipe()
        harness.simulator.reset()

    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]
    assert "WARNINGS" not in ran.stdout
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert f"✅ {phase}" in ran.stdout
