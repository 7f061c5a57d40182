"""What Novita says is wrong with a machine: shown at once, the end of a boot where nothing can mend it, and
never the end of anything else."""

from datetime import datetime
from typing import Any

import pytest

from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.machine import ShownError
from functions.shared.domain.instance.observations import Act, Look, Seen, Tick
from functions.shared.domain.instance.record import Action, Instance
from functions.shared.domain.instance.status import Status
from tests.unit.builders import (
    NOW,
    OWN,
    POLICY,
    after,
    ago,
    changed,
    new_instance,
    new_machine,
    new_operation,
    new_spec,
)
from tests.unit.domain.instance.promises import call_once_stored

GONE = "pulling: failed to pull image ghcr.io/acme/app:1: manifest unknown"
BUSY = "pulling: failed to pull image ghcr.io/acme/app:1: toomanyrequests"

FOR_GOOD = [
    GONE,
    "ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image: not found",
    'pullFailed: pull access denied for acme/app, repository does not exist or may require "docker login"',
    "failed to pull image: unauthorized: authentication required",
    "IMAGE_NOT_FOUND",
    "imageNotFound: ghcr.io/acme/app:1",
    "InvalidImageName",
    "Back-off pulling image: no matching manifest for linux/amd64 in the manifest list entries",
    "ImagePullBackOff: failed to fetch anonymous token from the registry: unexpected status 403 Forbidden",
    "pull image: no basic auth credentials",
]
MAY_MEND = [
    BUSY,
    "oom",
    "oom: container was killed",
    "ImagePullBackOff",
    "ErrImagePull: dial tcp: lookup ghcr.io: no such host",
    "failed to pull image: net/http: TLS handshake timeout",
    "failed to pull image: unexpected status 503 Service Unavailable",
    "failed to pull image: unauthorized: too many requests, try again",
    "Back-off pulling image ghcr.io/acme/forbidden:denied",
    "failed to pull image: open /var/lib/image: permission denied",
    "failed to pull image: no space left on device",
    "libcuda.so not found",
    "something that nobody has seen before",
    "冇咗",
]


def show(record: Instance, status: str, error: str, at: datetime = NOW, **machine: Any) -> Decision:
    return decide(record, Seen(new_machine(status, error=error, **machine), at), at, POLICY)


def starting(**changes: Any) -> Instance:
    return new_instance(Status.STARTING, deadline_at=after(600), **changes)


@pytest.mark.parametrize("said", FOR_GOOD)
def test_an_image_that_is_not_there_or_not_ours_to_pull_cannot_mend_itself(said: str) -> None:
    assert ShownError(said, NOW).for_good
    assert ShownError(said, NOW).fault.code == "IMAGE_PULL_FAILED"


@pytest.mark.parametrize("said", MAY_MEND)
def test_whatever_else_is_wrong_is_waited_for(said: str) -> None:
    assert not ShownError(said, NOW).for_good

    decision = show(starting(), "pulling", said, NOW)
    later = show(decision.record, "pulling", said, after(30))

    assert later.record.status is Status.STARTING
    assert later.record.waiting is not None
    assert later.record.waiting.code == "MACHINE_ERROR"
    assert said in later.record.waiting.message


def test_an_error_is_shown_and_told_when_it_is_first_seen() -> None:
    decision = show(starting(), "pulling", BUSY)

    assert decision.record.waiting == ShownError(BUSY, NOW).fault
    assert [(event.type, event.error) for event in decision.events] == [
        ("instance.machine_error", decision.record.waiting)
    ]


def test_an_error_that_lasts_or_only_counts_on_is_told_once() -> None:
    first = show(starting(), "pulling", f"{BUSY}, attempt 1")
    second = show(first.record, "pulling", f"{BUSY}, attempt 2", after(30))
    gone = show(second.record, "pulling", "", after(60))
    back = show(gone.record, "pulling", f"{BUSY}, attempt 3", after(90))

    assert [len(one.events) for one in (first, second, gone, back)] == [1, 0, 0, 0]
    assert gone.record.waiting is None
    assert back.record.waiting is not None


def test_a_machine_that_shows_another_error_at_every_look_does_not_fill_the_events() -> None:
    record, told = starting(), 0
    for number in range(50):
        decision = show(record, "pulling", f"error {'x' * number}", after(number * 30))
        record, told = decision.record, told + len(decision.events)

    assert told == 5


def test_an_error_for_good_is_looked_at_again_at_once_and_then_fails_the_boot() -> None:
    first = show(starting(), "pulling", GONE)
    second = show(first.record, "pulling", GONE, after(0.1))

    assert first.record.status is Status.STARTING
    assert first.call == Look(OWN)
    assert first.record.machine.needs_look  # by its id: a list may be wrong
    assert second.record.status is Status.FAILED
    assert second.record.error is not None
    assert second.record.error.code == "IMAGE_PULL_FAILED"
    assert GONE in second.record.error.message
    assert call_once_stored(second) == Act(Action.DELETE, OWN)


def test_an_error_for_good_whose_words_differ_at_every_look_fails_the_boot_at_the_second() -> None:
    first = show(starting(), "pulling", f"{GONE}, trace a81f")
    second = show(first.record, "pulling", f"{GONE}, trace c0de", after(0.1))

    assert first.call == Look(OWN)
    assert second.record.status is Status.FAILED
    assert second.record.error is not None
    assert "trace c0de" in second.record.error.message


def test_an_error_that_may_mend_and_becomes_one_for_good_is_looked_at_once_more() -> None:
    busy = show(starting(), "pulling", "pull image: unexpected status 503")
    first = show(busy.record, "pulling", "pull image: unexpected status 404", after(30))
    second = show(first.record, "pulling", "pull image: unexpected status 404", after(30.1))

    assert (first.record.status, first.call) == (Status.STARTING, Look(OWN))
    assert second.record.status is Status.FAILED


def test_an_error_for_good_that_is_gone_at_the_second_look_ends_nothing() -> None:
    first = show(starting(), "pulling", GONE)
    second = show(first.record, "pulling", "", after(0.1))
    third = show(second.record, "running", "", after(60))

    assert second.record.status is Status.STARTING
    assert second.record.waiting is None
    assert third.record.status is Status.RUNNING


def test_the_same_list_twice_is_no_second_look() -> None:
    first = show(starting(), "pulling", GONE)

    again = decide(first.record, Seen(new_machine("pulling", error=GONE), NOW), after(5), POLICY)

    assert again.record.status is Status.STARTING


@pytest.mark.parametrize("status", [Status.RUNNING, Status.READY, Status.HEALTH_CHECKING])
def test_what_runs_is_never_ended_for_an_error(status: Status) -> None:
    record = new_instance(status, ready_at=ago(30), deadline_at=after(600))

    first = show(record, "running", GONE)
    second = show(first.record, "running", GONE, after(30))

    assert second.record.status is status
    assert not second.record.cleanup.tasks
    assert [event.type for event in first.events] == ["instance.machine_error"]
    assert not second.events


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("word", ["running", "exited", "pulling", "migrating", "toRemove", "who knows"])
def test_only_a_boot_fails_for_an_error(status: Status, word: str) -> None:
    record = new_instance(status, machine_id=OWN, ready_at=ago(30))
    record = show(record, word, GONE).record

    later = show(record, word, GONE, after(30)).record

    # With ready_at set, what migrates was in use.
    booting = status is Status.STARTING and word in ("pulling", "who knows")
    assert (later.status is Status.FAILED) == (booting or status is Status.FAILED)


def test_one_that_is_moved_while_it_is_used_is_not_ended_for_an_error() -> None:
    record = new_instance(Status.MIGRATING, ready_at=ago(3600))
    record = show(record, "pulling", GONE).record

    assert show(record, "pulling", GONE, after(30)).record.status is Status.MIGRATING


def test_a_start_that_cannot_pull_its_image_fails_and_the_machine_is_stopped() -> None:
    start = new_operation(Action.START, began_at=ago(90))
    record = starting(operation=start, ready_at=ago(3600))
    record = show(record, "starting", GONE).record

    decision = show(record, "starting", GONE, after(0.1))

    assert decision.record.status is Status.FAILED
    assert call_once_stored(decision) == Act(Action.STOP, OWN)
    assert [event.type for event in decision.events] == ["instance.failed", "startup.failed"]
    assert decision.record.operation is not None
    assert decision.record.operation.error == decision.record.error


def test_an_error_left_over_from_before_the_start_is_not_believed_for_a_while() -> None:
    start = new_operation(Action.START, began_at=ago(30))
    known = ShownError(GONE, ago(7200))
    record = starting(operation=start, ready_at=ago(3600), acted_at=ago(20), shown_error=known)

    soon = show(record, "toStart", GONE, after(30))
    still = show(soon.record, "starting", GONE, after(110))

    assert soon.record.status is Status.STARTING
    assert not soon.events
    assert still.record.status is Status.FAILED


def test_what_was_to_be_kept_is_kept_when_its_image_cannot_be_pulled() -> None:
    record = starting(spec=new_spec(keep_on_failure=True))
    record = show(record, "pulling", GONE).record

    decision = show(record, "pulling", GONE, after(30))

    assert decision.record.status is Status.FAILED
    assert not decision.record.cleanup.tasks


def test_the_deadline_says_what_novita_said() -> None:
    record = show(starting(), "pulling", BUSY).record
    record = changed(record, deadline_at=after(10))
    record = show(record, "pulling", BUSY, after(11)).record

    decision = decide(record, Tick(), after(12), POLICY)

    assert decision.record.status is Status.FAILED
    assert decision.record.error is not None
    assert decision.record.error.code == "STARTUP_TIMEOUT"
    assert "toomanyrequests" in decision.record.error.message


def test_a_machine_that_exits_with_an_error_says_so() -> None:
    record = new_instance(Status.RUNNING, ready_at=ago(3600))

    decision = show(record, "exited", "oom: out of memory")

    assert decision.record.status is Status.EXITED
    assert decision.events[-1].reason == "stopped at Novita: oom: out of memory"
