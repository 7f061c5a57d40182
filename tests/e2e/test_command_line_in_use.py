"""`ostler` against the deployed service, in a terminal and in a pipe, with faults in between.

What it shows is kept under docs/screens; `make screens` keeps it anew.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.client.small_server import LOST, Asked, Said, SmallServer, small_server
from tests.client.terminal import Program
from tests.e2e.screens import Session
from tests.e2e.service import Service

CREATE = ("create", "first", "--product", "RTX 4090 24GB", "--template", "107672")


@pytest.fixture
def ostler(service: Service, tmp_path: Path) -> Session:
    return Session(service, tmp_path)


class Front:
    """Passes everything on to the service, but for what a test takes away."""

    def __init__(self, server: SmallServer, service: Service) -> None:
        self.url = server.url
        self._server = server
        self._service = service
        self.mend()

    def cut(self) -> None:
        self._server.otherwise = lambda _: Said(LOST)

    def mend(self) -> None:
        self._server.otherwise = self._pass_on

    def lose_answer(self, method: str, path: str) -> None:
        """Of the next such request, which is carried out all the same."""

        def pass_on(asked: Asked) -> Said:
            said = self._pass_on(asked)
            if asked.method != method or not asked.path.partition("?")[0].startswith(path):
                return said
            self.mend()
            return Said(LOST)

        self._server.otherwise = pass_on

    def _pass_on(self, asked: Asked) -> Said:
        passed = ("Authorization", "Idempotency-Key")
        headers = {name: value for name, value in asked.headers.items() if name in passed}
        url = self._service.stack.api_url + asked.path
        answer = requests.request(asked.method, url, json=asked.body, headers=headers, timeout=30)
        return Said(answer.status_code, answer.json())


@pytest.fixture
def front(service: Service) -> Iterator[Front]:
    with small_server() as server:
        yield Front(server, service)


@pytest.fixture(params=["terminal", "pipe"])
def either(request: pytest.FixtureRequest, service: Service, front: Front, tmp_path: Path) -> Session:
    """In a terminal, and then in a pipe; connections can be lost."""
    return Session(service, tmp_path, front.url, piped=request.param == "pipe")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_machines_life_in_a_terminal(ostler: Session) -> None:
    made = ostler.run(*CREATE, "--stop-after", "8h", "--wait", answer="y")
    assert re.search(r"✔ creating .* RTX 4090 24GB, CN-HK-01, \$0.18 per GPU and hour", made)
    assert "first  running" in ostler.run("ls")
    ostler.run("show", "first")
    ostler.run("events", "first")
    assert "root@127.0.0.1 nvidia-smi -L" in ostler.run("ssh", "first", "nvidia-smi", "-L", code=7)
    ostler.run("stop", "first", "--wait")
    ostler.run("start", "first", "--wait")
    assert "stops in 9 h" in ostler.run("extend", "first", "2h")
    assert "per hour now" in ostler.run("cost", "first")
    ostler.run("rm", "first", "--wait", answer="y")

    ostler.compare("round-trip")


def test_a_machines_life_in_a_pipe(ostler: Session, service: Service) -> None:
    made = ostler.pipe(*CREATE, "--wait", "--yes", "--json")
    instance_id = json.loads(made.stdout)["instanceId"]
    assert ostler.pipe("ls", kept=True).stdout.splitlines()[1].split("\t")[:2] == ["first", "running"]
    assert json.loads(ostler.pipe("show", instance_id, "--json").stdout)["status"] == "running"
    events = json.loads(ostler.pipe("events", "first", "--json").stdout)
    assert [one["type"] for one in events] == ["instance.creating", "instance.starting", "instance.running"]
    assert "root@127.0.0.1" in ostler.pipe("ssh", "first", code=7, kept=True).stdout
    assert ostler.pipe("logs", "first").stdout == "the application says hello\n"
    ostler.pipe("stop", "first", "--wait", kept=True)
    ostler.pipe("start", "first", "--wait", kept=True)
    ostler.pipe("update", "first", "--delete-after", "3d")
    before = json.loads(ostler.pipe("show", "first", "--json").stdout)["expiry"]["deleteAt"]
    extended = json.loads(ostler.pipe("extend", "first", "1d", "--json").stdout)
    assert extended["limits"] == {"deleteAfter": "4d"}
    assert _moment(extended["expiry"]["deleteAt"]) - _moment(before) == timedelta(days=1)
    cost = json.loads(ostler.pipe("cost", "first", "--json").stdout)
    assert [one["kind"] for one in cost["intervals"]] == ["running", "running"]  # stopped in between
    amounts = sum(Decimal(one["amountUsd"]) for one in cost["intervals"])
    assert Decimal(cost["totalUsd"]) == pytest.approx(amounts, abs=Decimal("0.0002"))
    assert Decimal(cost["perHourUsd"]) > 0
    service.sweep()
    by_product = json.loads(ostler.pipe("cost", "--by", "product", "--json").stdout)
    assert [one["key"] for one in by_product["groups"]] == ["RTX 4090 24GB"]
    assert Decimal(by_product["totalUsd"]) == Decimal(by_product["groups"][0]["amountUsd"])
    assert "(none)" in ostler.pipe("cost", "--by", "tag:team").stdout
    refused = ostler.pipe("rm", "first", code=2, kept=True)
    assert "--yes" in refused.stderr
    ostler.pipe("rm", "first", "--yes", "--wait", kept=True)
    ostler.pipe("wait", "first", "--for", "up", code=1, kept=True)
    ostler.pipe("show", "second", code=3, kept=True)

    ostler.compare("round-trip-in-a-pipe")


def test_no_room_and_no_longer_waiting_for_it(service: Service, either: Session) -> None:
    """Ctrl-C ends the waiting; the instance goes on, and is deleted here before anything is bought."""
    service.simulator.fault("status", "/gpu/instance/create", status=400, reason="INSUFFICIENT_RESOURCE")

    def see_and_leave(shown: Program) -> None:
        either.watched(shown.wait_for("no room in"))
        shown.press_ctrl_c()

    shown = either.run(*CREATE, "--wait", "--yes", during=see_and_leave, code=130)

    assert "first goes on" in shown
    either.compare("no-room")
    either.run("rm", "first", "--wait", "--yes")


def test_novita_is_down_and_comes_back(service: Service, either: Session) -> None:
    service.simulator.fault("status", "", status=503)

    def until_it_is_back(shown: Program) -> None:
        shown.wait_for("creating")
        either.watched(shown.wait_for("failed", after="Accepted"))
        service.simulator.clear_faults()

    either.run(*CREATE, "--wait", "--yes", during=until_it_is_back)
    either.compare("novita-down", last=6)


def test_a_pull_that_fails_ends_the_wait(either: Session) -> None:
    shown = either.run(
        "create", "bad", "--product", "RTX 4090 24GB", "--template", "107681", "--wait", "--yes", code=1
    )

    assert "manifest unknown" in shown
    either.compare("failed-pull")


def test_a_lost_connection_only_delays_the_wait(service: Service, front: Front, either: Session) -> None:
    service.simulator.settings(bootSeconds=3)

    def lose_it_for_a_while(shown: Program) -> None:
        shown.wait_for("starting")
        front.cut()
        either.watched(shown.wait_for("no answer from the service"))
        front.mend()

    shown = either.run(*CREATE, "--wait", "--yes", during=lose_it_for_a_while)

    assert "first is running" in shown
    either.compare("lost-connection")


def test_a_machines_life_with_a_fault_at_every_step(service: Service, front: Front, either: Session) -> None:
    simulator = service.simulator

    def until_novita_is_back(shown: Program) -> None:
        either.watched(shown.wait_for("Novita failed to"))
        simulator.clear_faults()

    def until_there_is_an_answer(shown: Program) -> None:
        shown.wait_for("starting")
        front.cut()
        either.watched(shown.wait_for("no answer from the service"))
        front.mend()

    front.lose_answer("POST", "/api/instances")
    either.run(*CREATE, "--stop-after", "8h", "--wait", "--yes")
    front.lose_answer("GET", "/api/instances")
    assert "running" in either.run("ls")
    either.run("show", "first")
    either.run("events", "first")
    front.lose_answer("GET", "/api/instances/")
    assert "root@127.0.0.1" in either.run("ssh", "first", code=7)
    simulator.fault("status", "/gpu/instance/stop", status=503)
    either.run("stop", "first", "--wait", during=until_novita_is_back)
    no_room: dict[str, Any] = {"status": 400, "reason": "INSUFFICIENT_RESOURCE"}
    no_room["message"] = "no such GPU is free"
    simulator.fault("status", "/gpu/instance/start", **no_room)
    assert "first is stopped, not up: " in either.run("start", "first", "--wait", code=1)
    simulator.clear_faults()
    either.run("start", "first", "--wait", during=until_there_is_an_answer)
    front.lose_answer("PATCH", "/api/instances")
    assert "stops in 9 h" in either.run("extend", "first", "2h"), "moved once, though asked twice"
    simulator.fault("status", "/gpu/instance/delete", status=503)
    assert "per hour now" in either.run("cost", "first")
    front.lose_answer("DELETE", "/api/instances")
    either.run("rm", "first", "--wait", "--yes", during=until_novita_is_back)

    assert len(simulator.calls("/gpu/instance/create")) == 1
    either.compare("faults")


def test_a_round_trip_by_curl(service: Service, ostler: Session) -> None:
    made = ostler.shell(
        """curl -H "$KEY" -H 'Idempotency-Key: demo-1' http://127.0.0.1:8080/api/instances \\
    -d '{"name": "first", "productName": "RTX 4090 24GB", "templateId": "107672"}'"""
    )
    path = f"http://127.0.0.1:8080/api/instances/{json.loads(made)['instanceId']}"
    service.wait_for(json.loads(made)["instanceId"], "running")
    assert json.loads(ostler.shell(f'curl -H "$KEY" {path}'))["status"] == "running"
    assert json.loads(ostler.shell(f'curl -X DELETE -H "$KEY" {path}'))["status"] == "deleting"
    service.wait_for(json.loads(made)["instanceId"], "terminated")

    ostler.compare("curl")


def test_what_is_not_sold_is_not_found(ostler: Session) -> None:
    made = ostler.pipe("create", "x", "--product", "RTX 9090", "--template", "107672", "--yes", code=3)

    assert "PRODUCT_NOT_FOUND" in made.stderr


def test_the_doctor_finds_the_service_well_and_says_what_is_not(service: Service, ostler: Session) -> None:
    service.sweep()

    well = json.loads(ostler.pipe("doctor", "--json").stdout)
    service.call("POST", "/api/pause")
    unwell = json.loads(ostler.pipe("doctor", "--json", code=1).stdout)
    service.call("POST", "/api/resume")

    assert all(one["ok"] for one in well), well
    assert {"address", "clock", "key", "Novita", "Novita key", "sweep", "orphans"} <= {
        one["check"] for one in well
    }
    assert [one["check"] for one in unwell if not one["ok"]] == ["purchases"]
