"""Webhook receivers."""

import base64

import pytest
import requests

from local.novita.client import Simulator
from tests.simulator.bare_api import NOON


def send(sim: Simulator, box: str, body: bytes = b"{}", timeout: float = 5) -> requests.Response:
    headers = {"webhook-id": "msg_1", "Content-Type": "application/json"}
    return requests.post(
        sim.inbox_url(box), data=body, headers=headers, timeout=timeout, allow_redirects=False
    )


def test_a_box_keeps_what_it_gets_and_answers_200(sim: Simulator) -> None:
    response = send(sim, "a", b'{"n": 1}')
    send(sim, "b")

    (message,) = sim.inbox("a")

    assert response.status_code == 200
    assert (message["method"], message["body"], message["encoding"]) == ("POST", '{"n": 1}', "utf-8")
    assert (message["headers"]["webhook-id"], message["time"]) == ("msg_1", NOON)


def test_deeper_paths_and_other_methods_belong_to_the_box(sim: Simulator) -> None:
    requests.get(sim.inbox_url("a/deep/path"), params={"q": "1"}, timeout=5)
    requests.post(sim.inbox_url("a/messages"), timeout=5)

    assert [(one["method"], one["path"], one["query"]) for one in sim.inbox("a")] == [
        ("GET", "/deep/path", "q=1"),
        ("POST", "/messages", ""),
    ]


def test_bytes_that_are_no_text_are_kept_too(sim: Simulator) -> None:
    send(sim, "a", b"\xff\x00")

    (message,) = sim.inbox("a")

    assert message["encoding"] == "base64"
    assert base64.b64decode(message["body"]) == b"\xff\x00"


def test_messages_can_be_cleared(sim: Simulator) -> None:
    send(sim, "a")

    sim.clear_inbox("a")

    assert sim.inbox("a") == []


def test_one_answer_holds_for_ever(sim: Simulator) -> None:
    sim.answer("a", status=302, headers={"Location": "http://127.0.0.1:9/"}, body={"x": 1})

    responses = [send(sim, "a") for _ in range(3)]

    assert {one.status_code for one in responses} == {302}
    assert responses[0].headers["Location"] == "http://127.0.0.1:9/"
    assert responses[0].json() == {"x": 1}


def test_an_answer_can_be_given_a_number_of_times(sim: Simulator) -> None:
    sim.answer("a", status=503, headers={"Retry-After": "9"}, times=2)

    assert [send(sim, "a").status_code for _ in range(4)] == [503, 503, 200, 200]


def test_answers_can_come_in_a_row(sim: Simulator) -> None:
    sim.answer("a", {"status": 500}, {"status": 410, "times": 2}, {"status": 204})

    assert [send(sim, "a").status_code for _ in range(6)] == [500, 410, 410, 204, 200, 200]


def test_an_answer_can_be_late_or_never_come(sim: Simulator) -> None:
    sim.answer("a", {"delayMs": 60}, {"delayMs": -1}, {"reset": True})

    late = send(sim, "a")
    with pytest.raises(requests.ReadTimeout):
        send(sim, "a", timeout=0.1)
    with pytest.raises(requests.ConnectionError, match="reset"):
        send(sim, "a")

    assert late.elapsed.total_seconds() >= 0.06
    assert len(sim.inbox("a")) == 3


def test_an_answer_can_be_without_end(sim: Simulator) -> None:
    sim.answer("a", endless=True)

    with requests.post(sim.inbox_url("a"), stream=True, timeout=5) as response:
        some = response.raw.read(1_000_000)

    assert len(some) == 1_000_000
    sim.answer("a", status=200)
    assert send(sim, "a").status_code == 200
