"""Every handler killed at every call it makes: the calls come from recordings, so a new call is a new point.

Many instances share a harness, each with one crash, so that all of them come to rest in the same
virtual time.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from functions.api.use_cases import create_instance
from functions.shared.domain.instance.health import HealthReport, ProbeFault
from functions.shared.domain.instance.machine import Endpoint
from functions.shared.domain.instance.status import Status
from functions.shared.outbound.probes import Probes
from tests.integration.conftest import Build
from tests.integration.crash_points import (
    AROUND,
    EVERY_SIDE,
    FORGETFUL,
    Crashes,
    Point,
    is_one,
    lives,
    points,
)
from tests.integration.harness import Harness
from tests.integration.wire import Killed

PER_INSTANCE = ("api", "create", "monitor", "startup")


@pytest.fixture
def harness(build: Build, monkeypatch: pytest.MonkeyPatch) -> Harness:
    # One look-up after the other, so that every run makes the same calls in the same order.
    monkeypatch.setattr(create_instance, "ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))
    made = build(**FORGETFUL)
    made.announcing = False
    return made


@dataclass(frozen=True)
class Flow:
    """One thing that a caller asks for, and how it ends well."""

    ends: Status
    history: tuple[str, ...]  # of this flow alone
    ask: Callable[[Harness, str, str], tuple[int, Any]]  # harness, instance id (or a name to be), key


def _create(harness: Harness, name: str, key: str, **more: Any) -> tuple[int, Any]:
    body = {"name": name, "productName": "RTX 4090 24GB", "templateId": "107672", **more}
    return harness.call("POST", "/api/instances", body, {"idempotency-key": key})


def _operate(what: str) -> Callable[[Harness, str, str], tuple[int, Any]]:
    def ask(harness: Harness, instance_id: str, key: str) -> tuple[int, Any]:
        return harness.call("POST", f"/api/instances/{instance_id}/{what}", None, {"idempotency-key": key})

    return ask


def _delete(harness: Harness, instance_id: str, _: str) -> tuple[int, Any]:
    return harness.call("DELETE", f"/api/instances/{instance_id}")


_UP = ("instance.starting", "startup.initiated", "instance.running", "instance.health_checking")
_READY = (*_UP, "instance.ready", "startup.completed")
CREATE = Flow(Status.RUNNING, ("instance.creating", "instance.starting", "instance.running"), _create)
STOP = Flow(Status.STOPPED, ("instance.stopping", "instance.stopped"), _operate("stop"))
START = Flow(Status.READY, _READY, _operate("start"))
RESTART = Flow(Status.READY, _READY, _operate("restart"))
DELETE = Flow(Status.TERMINATED, ("instance.deleting", "instance.terminated"), _delete)

OPERATIONS = {"stop": STOP, "start": START, "restart": RESTART, "delete": DELETE}


def _ask(harness: Harness, flow: Flow, about: str, key: str) -> str:
    """As a caller does who repeats what got no answer; the instance's id."""
    for _ in range(50):
        try:
            with harness.wire.handling("api", about):
                status, answer = flow.ask(harness, about, key)
        except Killed:
            continue
        assert status in (201, 202), answer
        return str(answer["instanceId"])
    raise AssertionError(f"{about} was killed again and again")


def _recorded(harness: Harness, flow: Flow, about: str, key: str) -> tuple[str, list[Point]]:
    harness.wire.calls.clear()
    harness.cold = lambda _: True
    instance_id = _ask(harness, flow, about, key)
    harness.settle(schedule=False)
    made = [call for call in harness.wire.calls if call.handler in PER_INSTANCE]
    assert harness.record(instance_id).status is flow.ends
    return instance_id, points(made)


def _died_everywhere(harness: Harness, flow: Flow, subjects: list[str], found: list[Point]) -> list[str]:
    """Ask for it for each subject, with other crashes each time; then all must be well."""
    crashes = Crashes(harness)
    ids: dict[str, str] = {}
    planned = [*lives(found), *([] for _ in subjects)]
    for subject, some in zip(subjects, planned, strict=False):
        crashes.plan(subject, some)
        instance_id = _ask(harness, flow, subject, f"{flow.history}-{subject}")
        crashes.rename(subject, instance_id)
        ids[instance_id] = ", ".join(map(str, some))
    harness.settle(4000 if EVERY_SIDE else 400, schedule=False)  # many more share the rate limit then
    crashes.end()
    _assert_all_is_well(harness, flow, ids)
    return list(ids)


def _assert_all_is_well(harness: Harness, flow: Flow, ids: dict[str, str]) -> None:
    machines = [machine["name"] for machine in harness.simulator.instances()]
    records = {record.id: record for record in harness.records()}
    events = _events(harness)
    for instance_id, point in ids.items():
        assert records[instance_id].status is flow.ends, f"{point}: {records[instance_id].status}"
        numbers, types = zip(*events[instance_id], strict=True)
        assert numbers == tuple(range(1, len(numbers) + 1)), f"{point}: {numbers}"
        assert types[-len(flow.history) :] == flow.history, f"{point}: {types}"
        mark = instance_id.removeprefix("inst_").lower()
        assert sum(mark in name for name in machines) == 1, f"{point}: not exactly one machine was bought"
    harness.assert_books_balance()


def _events(harness: Harness) -> dict[str, list[tuple[int, str]]]:
    found: dict[str, list[tuple[int, str]]] = {}
    for item in sorted(harness.items(), key=lambda item: str(item["sk"])):
        if item["sk"]["S"].startswith("event#") and item["pk"]["S"].startswith("inst_"):
            event = item["event"]["M"]
            found.setdefault(item["pk"]["S"], []).append((int(event["sequence"]["N"]), event["type"]["S"]))
    return found


def _without_repeats(found: dict[str, list[Point]]) -> dict[str, list[Point]]:
    """Each handler dies once, in the first of the flows, at what is around every call alike."""
    died: set[tuple[str, str]] = set()
    kept: dict[str, list[Point]] = {}
    for name, some in found.items():
        kept[name] = [one for one in some if EVERY_SIDE or (one.handler, one.call) not in died]
        died |= {(one.handler, one.call) for one in some if is_one(one.call, AROUND)}
    return kept


def test_a_function_that_dies_at_any_call_loses_nothing_and_buys_nothing_twice(harness: Harness) -> None:
    harness.wiring.deployment.id()
    recorded, creating = _recorded(harness, CREATE, "recorded", "c")
    found = {"create": creating}
    for name, flow in OPERATIONS.items():
        _, found[name] = _recorded(harness, flow, recorded, name)
    found = _without_repeats(found)

    needed = {name: len(lives(some)) for name, some in found.items()}
    ids = _died_everywhere(harness, CREATE, [f"i{n}" for n in range(max(needed.values()))], found["create"])
    for name, flow in OPERATIONS.items():
        enough = max(needed["stop"], needed["start"]) if name == "stop" else needed[name]
        _died_everywhere(harness, flow, ids[:enough], found[name])


def _from(call: str, found: list[Point]) -> list[Point]:
    """What comes from there on, without what is around every call alike."""
    first = next(number for number, point in enumerate(found) if call in point.call)
    return [point for point in found[first:] if EVERY_SIDE or not is_one(point.call, AROUND)]


@pytest.mark.parametrize("commit", [True, False])
def test_whoever_dies_while_a_purchase_is_unclear_buys_exactly_one(harness: Harness, commit: bool) -> None:
    harness.wiring.deployment.id()
    harness.simulator.settings(listLagSeconds=0)
    create = "/gpu/instance/create"
    for name in ("recorded", *(f"i{number}" for number in range(400 if EVERY_SIDE else 40))):
        harness.simulator.fault("disconnect", create, match_body=f'"{name}-', commit=commit, times=1)
    _, all_of_it = _recorded(harness, CREATE, "recorded", "recorded")
    found = _from(create, all_of_it)

    _died_everywhere(harness, CREATE, [f"i{number}" for number in range(len(lives(found)))], found)


def test_whoever_dies_while_a_machine_that_never_boots_is_given_back_leaves_none(harness: Harness) -> None:
    harness.simulator.settings(bootSeconds=100_000)
    history = ("instance.creating", "instance.starting", "instance.failed")
    failing = Flow(Status.FAILED, history, partial(_create, maxWaitTime=30_000))
    _, all_of_it = _recorded(harness, failing, "recorded", "recorded")
    found = _from("/gpu/instance/delete", all_of_it)

    _died_everywhere(harness, failing, [f"i{number}" for number in range(len(lives(found)))], found)

    assert harness.simulator.live() == []


def test_whoever_dies_while_asking_a_slow_application_is_followed_by_another(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first round times out, so that the second needs a slot of those for slow ones."""
    ask, asked = Probes.check, set[str]()

    def time_out_once(probes: Probes, endpoints: Sequence[Endpoint], *more: Any) -> HealthReport:
        report, first = ask(probes, endpoints, *more), endpoints[0].address not in asked
        asked.add(endpoints[0].address)
        late = [
            replace(one, fault=ProbeFault("timeout", "timeout", timed_out=True)) for one in report.results
        ]
        return HealthReport(tuple(late)) if first else report

    monkeypatch.setattr(Probes, "check", time_out_once)
    history = (*CREATE.history, "instance.health_checking", "instance.ready")
    checked = Flow(Status.READY, history, partial(_create, healthCheck={}))
    _, all_of_it = _recorded(harness, checked, "recorded", "recorded")
    found = [one for one in all_of_it if one.handler == "startup" and not is_one(one.call, AROUND)]

    _died_everywhere(harness, checked, [f"i{number}" for number in range(len(lives(found)))], found)

    assert {"GetItem slow/slots", "UpdateItem slow/slots"} <= {point.call for point in found}


def test_a_request_that_died_and_is_not_repeated_leaves_an_instance_or_nothing(harness: Harness) -> None:
    harness.cold = lambda _: True
    _ask(harness, CREATE, "recorded", "recorded")
    found = points(call for call in harness.wire.calls if call.handler == "api")
    harness.wire.calls.clear()
    crashes = Crashes(harness)

    for number, point in enumerate(found):
        crashes.plan(f"i{number}", [point])
        with pytest.raises(Killed), harness.wire.handling("api", f"i{number}"):
            _create(harness, f"i{number}", f"i{number}")
        harness.restart()
    crashes.end()
    harness.settle()

    stored = {f"i{number}" for number, point in enumerate(found) if _after_the_write(point)} | {"recorded"}
    assert {record.name for record in harness.records()} == stored
    assert {record.status for record in harness.records()} == {Status.RUNNING}
    assert len(harness.simulator.instances()) == len(stored)


def _after_the_write(point: Point) -> bool:
    return point.after if "TransactWriteItems" in point.call else "SendMessage" in point.call


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", ["GetItem deployment/deployment", "PutItem deployment/deployment"])
def test_the_first_purchase_of_a_deployment_may_die_while_its_id_is_made(
    harness: Harness, call: str, after: bool
) -> None:
    instance_id = _ask(harness, CREATE, "first", "key")
    crashes = Crashes(harness)
    crashes.plan(instance_id, [Point("create", call, 1, after)])

    harness.settle()

    crashes.end()
    (machine,) = harness.simulator.instances()
    assert harness.record(instance_id).status is Status.RUNNING
    assert harness.wiring.deployment.id() in machine["name"]
