"""The application inside a machine, reached by the endpoint that get shows."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from local.novita.client import Simulator
from tests.simulator.bare_api import Api


def ask(sim: Simulator, id_: str, path: str = "/", timeout: float = 5) -> requests.Response:
    return requests.get(sim.app_url(id_, 8188) + path, timeout=timeout)


@pytest.fixture
def machine(sim: Simulator) -> str:
    return str(sim.put_instance(status="running", ports="8188/http")["id"])


def test_it_answers_once_the_machine_runs(api: Api, sim: Simulator) -> None:
    id_ = api.create()
    booting = ask(sim, id_)
    sim.advance(10)
    endpoint = api.instance(id_)["portMappings"][0]["endpoint"]

    running = requests.get(endpoint + "/any/path", timeout=5)
    api.act("stop", id_)

    assert (booting.status_code, "Bad Gateway" in booting.text) == (502, True)
    assert (running.status_code, running.text) == (200, "ok")
    assert ask(sim, id_).status_code == 502


def test_it_may_listen_later_than_the_machine_runs(sim: Simulator, machine: str) -> None:
    sim.app(machine, 8188, afterSeconds=30, body="up")

    early = ask(sim, machine)
    sim.advance(30)

    assert early.status_code == 502
    assert ask(sim, machine).text == "up"


def test_a_restart_begins_the_wait_anew(api: Api, sim: Simulator, machine: str) -> None:
    sim.app(machine, 8188, afterSeconds=30)
    sim.advance(30)
    before = ask(sim, machine)
    api.act("restart", machine)
    sim.advance(5)

    assert before.status_code == 200
    assert ask(sim, machine).status_code == 502


def test_the_nearest_answer_counts(sim: Simulator, machine: str) -> None:
    sim.app("*", "*", status=503)
    everywhere = ask(sim, machine).status_code
    sim.app("*", 8188, status=204)
    this_port = ask(sim, machine).status_code
    sim.app(machine, 8188, status=418, body={"tea": True}, headers={"X-Pot": "1"})
    this_machine = ask(sim, machine)

    assert (everywhere, this_port, this_machine.status_code) == (503, 204, 418)
    assert this_machine.json() == {"tea": True}
    assert this_machine.headers["X-Pot"] == "1"


def test_a_port_that_is_not_open_or_a_machine_that_is_not_there_is_a_502(
    sim: Simulator, machine: str
) -> None:
    assert requests.get(sim.app_url(machine, 81), timeout=5).status_code == 502
    assert ask(sim, "0123456789abcdef").status_code == 502


def test_it_can_hang_be_reset_or_never_end(sim: Simulator, machine: str) -> None:
    sim.app(machine, 8188, delayMs=-1)
    with pytest.raises(requests.ReadTimeout):
        ask(sim, machine, timeout=0.1)
    sim.app(machine, 8188, reset=True)
    with pytest.raises(requests.ConnectionError, match="reset"):
        ask(sim, machine)
    sim.app(machine, 8188, endless=True)

    with requests.get(sim.app_url(machine, 8188), stream=True, timeout=5) as response:
        assert len(response.raw.read(300_000)) == 300_000


def test_open_requests_are_counted(sim: Simulator, machine: str) -> None:
    sim.app(machine, 8188, delayMs=200)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: ask(sim, machine), range(4)))
    stats = sim.app_stats()
    sim.clear_app_stats()

    assert (stats["open"], stats["maxOpen"], stats["total"]) == (0, 4, 4)
    assert stats["byPort"] == {f"{machine}/8188": 4}
    assert sim.app_stats()["total"] == 0
