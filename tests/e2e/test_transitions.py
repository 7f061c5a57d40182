"""Every transition that the table allows happens on the deployed template, and no other."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from functions.shared.domain.instance.status import NEXT
from tests.e2e import courses
from tests.e2e.courses import SILENT, TCP, Step, take
from tests.e2e.service import Service

AT_ONCE = 4  # more would only wait for the processor

Course = Callable[[Service], str]


def imported(status: str, *steps: Step, ports: str = TCP) -> Course:
    return lambda service: take(service, service.take_over(status, ports=ports), *steps)


def checking(*steps: Step) -> Course:
    """Started, while the application inside does not answer."""
    return imported("exited", ("start", "health_checking"), *steps, ports=SILENT)


def created_and_reclaimed(service: Service) -> str:
    instance_id = service.create()
    service.wait_for(instance_id, "running")
    take(service, instance_id, ("restart", "ready"), ("reclaimed", "exited"))
    assert service.events(instance_id)[-1]["reason"] == "reclaimed by Novita"
    return take(service, instance_id, ("start", "ready"))


def taken_away(service: Service, on_reclaim: object) -> str:
    """With no room to start it again."""
    instance_id = service.create(onReclaim=on_reclaim)
    shown = service.wait_for(instance_id, "running")
    service.simulator.reclaim(shown["novitaInstanceId"], notice=False, noRoomSeconds=600)
    return instance_id


def replaced(service: Service) -> str:
    instance_id = taken_away(service, {"action": "replace", "replaceAfter": 1})
    assert service.wait(lambda: service.statuses(instance_id)[3:] == REPLACED, seconds=120)
    return instance_id


def stopped_while_it_was_to_be_brought_back(service: Service) -> str:
    instance_id = taken_away(service, "restart")
    service.wait_for(instance_id, "exited")
    return take(service, instance_id, ("stop", "stopping"), ("delete", "terminated"))


def checked_and_restarted(service: Service) -> str:
    instance_id = courses.checked_create(service)
    return take(service, instance_id, ("restart", "health_checking"), ("delete", "terminated"))


def refused_and_redriven(service: Service) -> str:
    """Its message is among the dead letters, as SQS would put it there after the last retry."""
    instance_id = courses.refused_create(service, "redriven")
    path = f"/api/jobs/dead/{service.add_dead_letter(instance_id)}/redrive"
    # Failed is said a moment before the purchase that failed is settled, and only then it can be redriven.
    assert service.wait(lambda: service.call("POST", path).status_code == 202)
    service.wait_for(instance_id, "running")
    return instance_id


def refused_and_started(service: Service) -> str:
    return take(service, courses.refused_start(service), ("start", "ready"))


def refused_and_stopped(service: Service) -> str:
    return take(service, courses.refused_start(service), ("stop", "stopped"))


def stopped_and_refused_for_room(service: Service) -> str:
    instance_id = take(service, service.take_over("running", ports=TCP), ("stop", "stopped"))
    courses.refuse(service, instance_id, "start", reason="INSUFFICIENT_RESOURCE", times=1)
    service.operate(instance_id, "start")
    assert service.wait(lambda: service.statuses(instance_id)[-2:] == ["starting", "stopped"])
    return instance_id


def refused_and_removed(service: Service) -> str:
    return take(service, courses.refused_start(service), ("removed", "terminated"))


def deleted_while_it_is_bought(service: Service) -> str:
    service.simulator.fault("slow", "/gpu/instance/create", match_body="too-slow", delayMs=1500)
    return take(service, service.create(name="too-slow"), ("delete", "terminated"))


REPLACED = ["exited", "creating", "starting", "running"]
COURSES: list[Course] = [
    # On its way up. Novita refuses to stop what does not run yet, so that a stop waits.
    imported("pulling", ("running", "running")),
    imported("pulling", ("exited", "exited"), ("delete", "terminated")),
    imported("pulling", ("migrating", "migrating"), ("removed", "failed"), ("delete", "terminated")),
    imported("pulling", ("removed", "failed")),
    imported("pulling", ("stop", "stopping"), ("removed", "terminated")),
    imported("pulling", ("stop", "stopping"), ("delete", "terminated")),
    imported("pulling", ("delete", "terminated")),
    # Up.
    imported("running", ("migrating", "migrating"), ("running", "running"), ("exited", "exited")),
    imported("running", ("migrating", "migrating"), ("removed", "terminated")),
    imported("running", ("removed", "terminated")),
    imported("running", ("delete", "terminated")),
    # Being checked, by a start.
    checking(("exited", "exited")),
    checking(("migrating", "migrating"), ("running", "health_checking"), ("stop", "stopped")),
    checking(("removed", "failed")),
    # Ready.
    imported("exited", ("start", "ready"), ("restart", "ready"), ("exited", "exited")),
    imported("exited", ("start", "ready"), ("migrating", "migrating"), ("delete", "terminated")),
    imported(
        "exited", ("start", "ready"), ("stop", "stopped"), ("start", "ready"), ("removed", "terminated")
    ),
    imported("exited", ("start", "ready"), ("delete", "terminated")),
    # Off.
    imported("exited", ("running", "running"), ("stop", "stopped"), ("running", "running")),
    imported("exited", ("removed", "terminated")),
    imported("exited", ("migrating", "migrating"), ("stop", "stopping"), ("exited", "stopped")),
    imported("exited", ("migrating", "migrating"), ("exited", "exited")),
    imported("running", ("stop", "stopped"), ("migrating", "migrating"), ("running", "running")),
    imported("running", ("stop", "stopped"), ("removed", "terminated")),
    imported("running", ("stop", "stopped"), ("delete", "terminated")),
    refused_and_started,
    refused_and_stopped,
    refused_and_removed,
    stopped_and_refused_for_room,
    # Bought here; last, since a purchase has a short deadline and functions begin slowly.
    created_and_reclaimed,
    replaced,
    stopped_while_it_was_to_be_brought_back,
    checked_and_restarted,
    refused_and_redriven,
    deleted_while_it_is_bought,
]


def test_every_transition_of_the_table_happens_and_no_other(service: Service) -> None:
    courses.prepare(service)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        ids = list(pool.map(lambda course: course(service), COURSES))

    allowed = {(before, then) for before, following in NEXT.items() for then in following}
    seen = {pair for instance_id in ids for pair in pairwise(service.statuses(instance_id))}
    assert seen == allowed
