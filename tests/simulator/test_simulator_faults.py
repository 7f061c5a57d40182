"""Faults: which calls they meet, what they do, and whether the work behind them is done."""

import contextlib
import time

import pytest
import requests

from local.novita.client import Simulator
from local.novita.faults import FaultBody, Faults, Match
from tests.simulator.bare_api import Api, reason

CREATE = "/gpu/instance/create"


def test_a_match_looks_at_the_end_of_the_path_and_inside_query_and_body() -> None:
    match = Match(method="post", path="/gpu/instance/create", query="a=1", body="-2")

    assert match.matches("POST", "/v1/gpu/instance/create", "x=0&a=1", '{"name": "m-2"}')
    assert not match.matches("GET", "/v1/gpu/instance/create", "a=1", "-2")
    assert not match.matches("POST", "/v1/gpu/instance", "a=1", "-2")
    assert not match.matches("POST", "/v1/gpu/instance/create", "", "-2")
    assert not match.matches("POST", "/v1/gpu/instance/create", "a=1", "-3")
    assert Match().matches("GET", "/anything", "", "")


def test_a_rate_strikes_the_same_calls_for_the_same_seed() -> None:
    def struck(seed: int) -> list[bool]:
        faults = Faults()
        faults.add(FaultBody(kind="status", rate=0.3, seed=seed))
        return [faults.next_for("GET", "/x", "", "") is not None for _ in range(1000)]

    assert struck(1) == struck(1) != struck(2)
    assert 250 < sum(struck(1)) < 350


def test_the_first_fault_that_is_left_strikes() -> None:
    faults = Faults()
    first = faults.add(FaultBody(kind="status", times=1))
    second = faults.add(FaultBody(kind="slow"))

    struck = [faults.next_for("GET", "/x", "", "") for _ in range(3)]

    assert struck == [first, second, second]


@pytest.mark.parametrize(
    ("status", "why"),
    [(500, "UNKNOWN"), (503, "UNKNOWN"), (429, "RATE_LIMIT_EXCEEDED"), (403, "FORBIDDEN"), (400, "REQUEST")],
)
def test_a_status_fault_has_a_reason_that_fits(api: Api, sim: Simulator, status: int, why: str) -> None:
    sim.fault("status", status=status, times=1)

    assert reason(api.get("/clusters")) == (status, why)
    assert api.get("/clusters").status_code == 200


def test_a_status_fault_says_what_it_is_told(api: Api, sim: Simulator) -> None:
    sim.fault("status", status=400, reason="INSUFFICIENT_RESOURCE", message="none left", retryAfter=7)

    response = api.get("/clusters")

    assert reason(response) == (400, "INSUFFICIENT_RESOURCE")
    assert response.json()["message"] == "none left"
    assert response.headers["Retry-After"] == "7"


@pytest.mark.parametrize(("commit", "bought"), [(False, 0), (True, 1)])
@pytest.mark.parametrize("kind", ["status", "disconnect", "garbage", "timeout"])
def test_commit_decides_whether_the_machine_is_bought(
    api: Api, sim: Simulator, kind: str, commit: bool, bought: int
) -> None:
    sim.fault(kind, CREATE, commit=commit, delayMs=10, status=502)  # type: ignore[arg-type]  # kind is one of them

    with contextlib.suppress(requests.ConnectionError):
        api.try_create()

    assert len(sim.live()) == bought


def test_a_fault_elsewhere_does_not_strike(api: Api, sim: Simulator) -> None:
    sim.fault("status", CREATE, method="POST", match_body="other-name")

    assert api.try_create().status_code == 200
    assert reason(api.try_create(name="other-name")) == (500, "UNKNOWN")


def test_a_timeout_holds_the_connection_until_the_client_goes(api: Api, sim: Simulator) -> None:
    fault = sim.fault("timeout", CREATE, commit=True)

    with pytest.raises(requests.ReadTimeout):
        api.try_create(timeout=0.2)

    assert len(sim.live()) == 1
    assert [(call["status"], call["fault"]) for call in sim.calls(CREATE)] == [(None, fault["id"])]


def test_a_disconnect_is_a_reset_without_an_answer(api: Api, sim: Simulator) -> None:
    sim.fault("disconnect")

    with pytest.raises(requests.ConnectionError, match="reset"):
        api.get("/clusters")


def test_a_slow_call_is_carried_out_even_if_the_client_has_gone(api: Api, sim: Simulator) -> None:
    sim.fault("slow", CREATE, delayMs=1000)

    with pytest.raises(requests.ReadTimeout):
        api.try_create(timeout=0.1)
    at_once = len(sim.live())
    until = time.monotonic() + 10
    while not sim.live() and time.monotonic() < until:
        time.sleep(0.05)

    assert (at_once, len(sim.live())) == (0, 1)


def test_a_slow_call_with_commit_is_carried_out_first(api: Api, sim: Simulator) -> None:
    sim.fault("slow", CREATE, delayMs=200, commit=True)

    with pytest.raises(requests.ReadTimeout):
        api.try_create(timeout=0.1)

    assert len(sim.live()) == 1


def test_a_slow_answer_is_the_normal_one(api: Api, sim: Simulator) -> None:
    sim.fault("slow", delayMs=50)

    response = api.get("/clusters")

    assert len(response.json()["data"]) == 4
    assert response.elapsed.total_seconds() >= 0.05


@pytest.mark.parametrize(
    ("body", "content"),
    [
        ("html", b"<html>"),
        ("list", b"["),
        ("empty", b""),
        ("truncated", b'{"id": "8097'),
        ("null", b"null"),
        ("any text", b"any text"),
    ],
)
def test_garbage_comes_in_kinds(api: Api, sim: Simulator, body: str, content: bytes) -> None:
    sim.fault("garbage", body=body)

    response = api.get("/clusters")

    assert response.status_code == 200
    assert response.content.startswith(content)
    assert "code" not in response.text


def test_truncated_garbage_after_a_commit_is_half_of_the_real_answer(api: Api, sim: Simulator) -> None:
    sim.fault("garbage", CREATE, body="truncated", commit=True)

    text = api.try_create().text

    assert text == ('{"id": "' + sim.live()[0]["id"] + '"}')[: len(text)]
    assert not text.endswith("}")


def test_an_answer_can_be_cut_off(api: Api, sim: Simulator) -> None:
    sim.fault("garbage", body="cut")

    with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
        api.get("/clusters")


def test_an_answer_can_be_huge(api: Api, sim: Simulator) -> None:
    sim.fault("garbage", bytes=52_428_800)

    with api.session.get(api.url + "/clusters", stream=True, timeout=10) as response:
        some = response.raw.read(100_000)

    assert response.headers["Content-Length"] == "52428800"
    assert len(some) == 100_000
    sim.clear_faults()
    assert api.get("/clusters").status_code == 200


def test_latency_is_for_every_call(api: Api, sim: Simulator) -> None:
    sim.settings(latencyMs=50)

    assert api.get("/clusters").elapsed.total_seconds() >= 0.05


def test_faults_can_be_seen_and_taken_away(api: Api, sim: Simulator) -> None:
    fault = sim.fault("status", "/clusters", status=503)
    api.get("/clusters")
    api.get("/products")
    seen = sim.faults()
    gone = requests.delete(f"{sim.base_url}/_sim/faults/{fault['id']}", timeout=5)

    assert [(one["id"], one["met"], one["applied"]) for one in seen] == [(fault["id"], 1, 1)]
    assert gone.status_code == 200
    assert sim.faults() == []
    assert api.get("/clusters").status_code == 200


def test_work_of_a_call_from_before_a_reset_stays_before_it(api: Api, sim: Simulator) -> None:
    sim.fault("slow", CREATE, delayMs=200)
    with pytest.raises(requests.ReadTimeout):
        api.try_create(timeout=0.1)

    sim.reset()
    time.sleep(0.3)

    assert sim.instances() == []
