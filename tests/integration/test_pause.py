"""POST /api/pause and /api/resume: nothing is bought or started meanwhile, and nothing accepted is lost."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.shared.domain.instance.status import Status
from functions.shared.domain.messages import StepMessage
from ops import keys
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.sweeps import events
from tests.integration.wire import Killed, Made

CREATE = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"}
BOUGHT = "novita POST /gpu/instance/create"
STARTED = ("novita POST /gpu/instance/start", "novita POST /gpu/instance/restart")


def turn(harness: Harness, way: str, **headers: str) -> Any:
    status, answer = harness.call("POST", f"/api/{way}", headers=headers)
    assert status == 200, answer
    return answer


def refused(harness: Harness, path: str, body: Any = None) -> None:
    status, answer = harness.call("POST", path, body)
    assert (status, answer["error"]["code"]) == (409, "PURCHASES_PAUSED")


def calls(harness: Harness, *names: str) -> int:
    return sum(made.name in names for made in harness.wire.calls)


@pytest.fixture
def running(harness: Harness) -> str:
    instance_id = harness.create()
    harness.settle()
    return instance_id


def stopped(harness: Harness, instance_id: str) -> None:
    harness.call("POST", f"/api/instances/{instance_id}/stop")
    harness.settle()
    assert harness.record(instance_id).status is Status.STOPPED


def test_new_creates_starts_and_restarts_are_refused_and_the_rest_goes_on(
    harness: Harness, running: str
) -> None:
    other = harness.create(name="other")
    harness.settle()
    stopped(harness, other)
    turn(harness, "pause")

    refused(harness, "/api/instances", CREATE)
    refused(harness, f"/api/instances/{running}/restart")
    refused(harness, f"/api/instances/{other}/start", {})
    refused(harness, "/api/instances/start", {"instanceName": "other"})
    assert harness.call("POST", "/api/quotes", CREATE)[0] == 200
    assert harness.call("DELETE", f"/api/instances/{other}")[0] == 202
    stopped(harness, running)
    harness.settle()

    assert harness.record(other).status is Status.TERMINATED


def test_a_create_that_was_accepted_before_waits_and_is_bought_when_resumed(harness: Harness) -> None:
    instance_id = harness.create()
    turn(harness, "pause")

    harness.run(300)

    _, waiting = harness.call("GET", f"/api/instances/{instance_id}")
    assert (waiting["status"], waiting["waitingFor"]["code"]) == ("creating", "PURCHASES_PAUSED")
    assert calls(harness, BOUGHT) == 0
    assert calls(harness, "novita GET /products") == 1, "nothing is looked up for what may not be bought"
    turn(harness, "resume")
    harness.settle()
    _, answer = harness.call("GET", f"/api/instances/{instance_id}")
    assert answer["status"] == "running"
    assert "waitingFor" not in answer


def test_a_purchase_reads_the_switch_right_before_its_intent(harness: Harness) -> None:
    """Paused by another process after this one last looked."""
    instance_id = harness.create()
    harness.advance(31)  # offers so old are asked for again

    def pause(made: Made) -> None:
        if made.name == "novita GET /products" and made.handler == "create":
            harness.elsewhere(lambda: turn(harness, "pause"))

    harness.wire.after = pause
    harness.deliver()
    harness.wire.after = None

    assert calls(harness, BOUGHT) == 0
    assert harness.record(instance_id).purchases.count == 0
    turn(harness, "resume")
    harness.settle()
    assert harness.record(instance_id).status is Status.RUNNING


def test_what_was_bought_already_comes_up(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=100)
    instance_id = harness.create()
    harness.deliver()
    assert harness.record(instance_id).status is Status.STARTING

    turn(harness, "pause")
    harness.settle()

    assert harness.record(instance_id).status is Status.RUNNING


@pytest.mark.parametrize("action", ["start", "restart"])
def test_a_start_that_was_accepted_before_waits_and_goes_on(
    harness: Harness, running: str, action: str
) -> None:
    if action == "start":
        stopped(harness, running)
    harness.call("POST", f"/api/instances/{running}/{action}", {})
    turn(harness, "pause")

    harness.run(300)

    assert calls(harness, *STARTED) == 0
    _, waiting = harness.call("GET", f"/api/instances/{running}")
    assert (waiting["status"], waiting["waitingFor"]["code"]) == ("starting", "PURCHASES_PAUSED")
    turn(harness, "resume")
    harness.settle()
    assert harness.record(running).status is Status.READY
    assert calls(harness, *STARTED) == 1


def test_what_waited_through_a_pause_longer_than_its_deadline_goes_on(build: Build) -> None:
    harness = build(PURCHASE_MAX_WAIT="600", BOOT_MAX_WAIT="600")
    started, restarted = (harness.create(name=name) for name in ("a", "b"))
    harness.settle()
    stopped(harness, started)
    harness.call("POST", f"/api/instances/{started}/start", {})
    harness.call("POST", f"/api/instances/{restarted}/restart", {})
    created = harness.create()
    turn(harness, "pause")

    harness.run(1300)

    assert calls(harness, *STARTED) == 0
    assert calls(harness, BOUGHT) == 2
    turn(harness, "resume")
    harness.settle()
    assert [harness.record(one).status for one in (created, started, restarted)] == [
        Status.RUNNING,
        Status.READY,
        Status.READY,
    ]


def test_what_was_left_of_a_deadline_is_left_after_a_pause(build: Build) -> None:
    harness = build(PURCHASE_MAX_WAIT="600")
    instance_id = harness.create()
    for product in harness.simulator.products():
        harness.simulator.patch_product(product["id"], available=False)
    harness.advance(31)  # offers so old are asked for again
    harness.run(370)
    turn(harness, "pause")

    harness.run(900)
    turn(harness, "resume")
    harness.run(100)
    waiting = harness.record(instance_id)
    harness.run(200)

    assert waiting.status is Status.CREATING
    assert harness.record(instance_id).status is Status.FAILED


def test_a_redrive_that_would_buy_is_refused(harness: Harness) -> None:
    instance_id = harness.create()
    harness.advance(3700)
    harness.settle()
    harness.give_up("create", StepMessage(instance_id, "t", "c").as_json())
    harness.handle_dead_letters()
    (dead,) = harness.call("GET", "/api/jobs/dead")[1]["deadLetters"]
    turn(harness, "pause")

    refused(harness, f"/api/jobs/dead/{dead['id']}/redrive")


def test_the_first_answer_to_a_create_comes_again_while_paused(harness: Harness) -> None:
    key = {"idempotency-key": "one"}
    first = harness.call("POST", "/api/instances", CREATE, key)
    turn(harness, "pause")

    assert harness.call("POST", "/api/instances", CREATE, key) == first
    turn(harness, "resume")
    harness.settle()


def test_who_did_it_is_told_once_in_status_event_and_log(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    admin = keys.new_key()
    key_id = harness.add_key(admin, "admin")

    first = turn(harness, "pause", authorization=f"Bearer {admin}")
    again = turn(harness, "pause")

    assert first == again
    assert first.items() <= harness.call("GET", "/api/status")[1].items()
    assert (first["purchasesPaused"], first["pausedBy"]) == (True, key_id)
    (told,) = events(harness, "purchases.paused")
    assert told["data"] == {"actor": key_id}
    assert "purchases paused" in caplog.text
    assert turn(harness, "resume") == {"purchasesPaused": False}
    assert len(events(harness, "purchases.resumed")) == 1
    harness.wire.news = True
    harness.deliver()
    assert "due" not in events(harness, "purchases.paused")[0]


def test_another_process_refuses_within_five_seconds(harness: Harness) -> None:
    harness.wiring.purchase_switch.is_paused()

    harness.elsewhere(lambda: turn(harness, "pause"))
    harness.advance(5)

    refused(harness, "/api/instances", CREATE)


def test_steps_that_buy_and_start_nothing_do_not_read_the_switch(harness: Harness, running: str) -> None:
    harness.wire.calls.clear()

    stopped(harness, running)
    harness.sweep()

    assert not [made for made in harness.wire.calls if "switch" in made.name]


@pytest.mark.parametrize("side", ["before", "after"])
def test_whoever_dies_while_turning_it_leaves_it_whole(harness: Harness, side: str) -> None:
    def die(made: Made) -> None:
        if made.name.startswith("TransactWriteItems switch"):
            raise Killed

    setattr(harness.wire, side, die)
    with pytest.raises(Killed):
        harness.call("POST", "/api/pause")
    harness.wire.before = harness.wire.after = None
    harness.restart()

    paused = harness.call("GET", "/api/status")[1]["purchasesPaused"]
    assert paused is (side == "after")
    assert len(events(harness, "purchases.paused")) == int(paused)
    assert turn(harness, "pause")["purchasesPaused"] is True
    assert len(events(harness, "purchases.paused")) == 1


def test_a_switch_that_cannot_be_read_buys_nothing(harness: Harness) -> None:
    instance_id = harness.create()

    def refuse(made: Made) -> None:
        if made.handler == "create" and made.name == "GetItem switch/switch":
            said: Any = {"Error": {"Code": "ProvisionedThroughputExceededException"}}
            raise ClientError(said, "GetItem")

    harness.wire.before = refuse
    harness.advance(10)
    harness.deliver_now(instance_id)
    harness.wire.before = None

    assert calls(harness, BOUGHT) == 0
    harness.settle()
    assert harness.record(instance_id).status is Status.RUNNING


def test_pausing_needs_an_admin(harness: Harness) -> None:
    writer = keys.new_key()
    harness.add_key(writer, "write")

    for way in ("pause", "resume"):
        status, _ = harness.call("POST", f"/api/{way}", headers={"authorization": f"Bearer {writer}"})
        assert status == 403
