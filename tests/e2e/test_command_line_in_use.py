"""`ostler` against the deployed service, in a terminal and in a pipe, with faults in between.

What it shows is kept under docs/screens; `make screens` keeps it anew.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
import requests

from tests.client.small_server import LOST, Asked, Said, SmallServer, small_server
from tests.client.terminal import Terminal
from tests.e2e.screens import Session
from tests.e2e.service import Service

CREATE = ("create", "first", "--product", "RTX 4090 24GB", "--template", "107672")


@pytest.fixture
def ostler(service: Service, tmp_path: Path) -> Session:
    return Session(service, tmp_path)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_machines_life_in_a_terminal(ostler: Session) -> None:
    ostler.terminal(*CREATE, "--stop-after", "8h", "--wait", answer="y")
    assert "first  running" in ostler.terminal("ls")
    ostler.terminal("show", "first")
    ostler.terminal("events", "first")
    assert "root@127.0.0.1 nvidia-smi -L" in ostler.terminal("ssh", "first", "nvidia-smi", "-L", code=7)
    ostler.terminal("stop", "first", "--wait")
    ostler.terminal("start", "first", "--wait")
    assert "stops in 9 h" in ostler.terminal("extend", "first", "2h")
    assert "per hour now" in ostler.terminal("cost", "first")
    ostler.terminal("rm", "first", "--wait", answer="y")

    ostler.compare("round-trip")


def test_a_machines_life_in_a_pipe(ostler: Session, service: Service) -> None:
    made = ostler.pipe(*CREATE, "--wait", "--yes", "--json")
    instance_id = json.loads(made.stdout)["instanceId"]
    assert ostler.pipe("ls").stdout.splitlines()[1].split("\t")[:2] == ["first", "running"]
    assert json.loads(ostler.pipe("show", instance_id, "--json").stdout)["status"] == "running"
    events = json.loads(ostler.pipe("events", "first", "--json").stdout)
    assert [one["type"] for one in events] == ["instance.creating", "instance.starting", "instance.running"]
    assert "root@127.0.0.1" in ostler.pipe("ssh", "first", code=7).stdout
    assert ostler.pipe("logs", "first").stdout == "the application says hello\n"
    ostler.pipe("stop", "first", "--wait")
    ostler.pipe("start", "first", "--wait")
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
    refused = ostler.pipe("rm", "first", code=2)
    assert "--yes" in refused.stderr
    ostler.pipe("rm", "first", "--yes", "--wait")
    ostler.pipe("wait", "first", "--for", "up", code=1)
    ostler.pipe("show", "second", code=3)


def test_no_room_and_no_longer_waiting_for_it(service: Service, ostler: Session) -> None:
    """Ctrl-C ends the waiting; the instance goes on, and is deleted here before anything is bought."""
    service.simulator.fault("status", "/gpu/instance/create", status=400, reason="INSUFFICIENT_RESOURCE")

    def see_and_leave(terminal: Terminal) -> None:
        terminal.wait_for("no room in")
        ostler.watched(terminal.screen())
        terminal.press_ctrl_c()

    shown = ostler.terminal(*CREATE, "--wait", "--yes", during=see_and_leave, code=130)

    assert "first goes on" in shown
    ostler.compare("no-room")
    ostler.terminal("rm", "first", "--wait", "--yes")


def test_novita_is_down_and_comes_back(service: Service, ostler: Session) -> None:
    service.simulator.fault("status", "", status=503)

    def until_it_is_back(terminal: Terminal) -> None:
        terminal.wait_for("creating")
        terminal.wait_for("Novita", after="Accepted")
        ostler.watched(terminal.screen())
        service.simulator.clear_faults()

    ostler.terminal(*CREATE, "--wait", "--yes", during=until_it_is_back)
    ostler.compare("novita-down", last=5)
    ostler.terminal("rm", "first", "--wait", "--yes")


def test_a_pull_that_fails_ends_the_wait(ostler: Session) -> None:
    shown = ostler.terminal(
        "create", "bad", "--product", "RTX 4090 24GB", "--template", "107681", "--wait", "--yes", code=1
    )

    assert "manifest unknown" in shown
    ostler.compare("failed-pull")


@pytest.fixture
def front(service: Service) -> Iterator[SmallServer]:
    """Passes everything on to the service; a test puts something else in its place."""
    with small_server() as front:

        def pass_on(asked: Asked) -> Said:
            passed = ("Authorization", "Idempotency-Key")
            headers = {name: value for name, value in asked.headers.items() if name in passed}
            url = service.stack.api_url + asked.path
            answer = requests.request(asked.method, url, json=asked.body, headers=headers, timeout=30)
            return Said(answer.status_code, answer.json())

        front.otherwise = pass_on
        yield front


def test_a_lost_connection_only_delays_the_wait(service: Service, front: SmallServer, tmp_path: Path) -> None:
    service.simulator.settings(bootSeconds=6)
    ostler = Session(service, tmp_path, front.url)
    whole = front.otherwise

    def lose_it_for_a_while(terminal: Terminal) -> None:
        terminal.wait_for("starting")
        front.otherwise = lambda _: Said(LOST)
        terminal.wait_for("no answer from the service")
        ostler.watched(terminal.screen())
        front.otherwise = whole

    shown = ostler.terminal(*CREATE, "--wait", "--yes", during=lose_it_for_a_while)

    assert "first is running" in shown
    ostler.compare("lost-connection")
    ostler.terminal("rm", "first", "--wait", "--yes")


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
