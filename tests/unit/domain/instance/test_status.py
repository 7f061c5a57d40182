from dataclasses import replace

import pytest

from functions.shared.domain.instance.status import AT_REST, NEXT, RESTARTABLE, STARTABLE, STOPPABLE, Status
from tests.unit.builders import deciding, new_instance

# The life of an instance, sentence by sentence.
PROMISED = [
    (Status.CREATING, Status.STARTING),
    (Status.STARTING, Status.RUNNING),
    (Status.RUNNING, Status.HEALTH_CHECKING),
    (Status.HEALTH_CHECKING, Status.READY),
    (Status.EXITED, Status.STARTING),
    (Status.STOPPED, Status.STARTING),
    (Status.FAILED, Status.STARTING),
    (Status.RUNNING, Status.STARTING),
    (Status.HEALTH_CHECKING, Status.STARTING),
    (Status.READY, Status.STARTING),
    (Status.RUNNING, Status.READY),  # a start without an http endpoint
    (Status.STOPPING, Status.STOPPED),
    (Status.DELETING, Status.TERMINATED),
    (Status.RUNNING, Status.EXITED),
    (Status.READY, Status.EXITED),
    (Status.CREATING, Status.FAILED),
    (Status.STARTING, Status.FAILED),
    (Status.HEALTH_CHECKING, Status.FAILED),
    (Status.FAILED, Status.CREATING),  # a redrive
]


def test_the_table_has_a_line_for_every_status() -> None:
    assert NEXT.keys() == set(Status)


@pytest.mark.parametrize(("before", "then"), PROMISED)
def test_what_the_product_promises_is_in_the_table(before: Status, then: Status) -> None:
    assert then in NEXT[before]


def test_no_status_follows_itself() -> None:
    assert not [status for status in Status if status in NEXT[status]]


def test_nothing_follows_terminated_and_only_terminated_follows_deleting() -> None:
    assert NEXT[Status.TERMINATED] == frozenset()
    assert NEXT[Status.DELETING] == {Status.TERMINATED}


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.DELETING, Status.TERMINATED}))
def test_everything_can_be_deleted(status: Status) -> None:
    assert Status.DELETING in NEXT[status]


def test_what_may_be_started_restarted_or_stopped_is_what_the_table_lets_follow() -> None:
    assert {status for status in Status if Status.STARTING in NEXT[status]} == (
        STARTABLE | RESTARTABLE | {Status.CREATING}
    )
    assert {status for status in Status if Status.STOPPING in NEXT[status]} == (
        STOPPABLE | {Status.EXITED}  # which needs a recovery
    )


def test_every_status_can_be_reached_and_can_come_to_its_end() -> None:
    def reachable(start: Status) -> set[Status]:
        found = {start}
        while more := {then for status in found for then in NEXT[status]} - found:
            found |= more
        return found

    assert reachable(Status.CREATING) == set(Status)
    assert all(Status.TERMINATED in reachable(status) for status in Status)


def test_what_is_not_at_rest_can_come_to_rest() -> None:
    assert all(NEXT[status] & AT_REST for status in set(Status) - AT_REST - {Status.CREATING})


@pytest.mark.parametrize("before", Status)
@pytest.mark.parametrize("then", Status)
def test_a_move_is_made_with_its_event_or_changes_nothing(before: Status, then: Status) -> None:
    decision = deciding(new_instance(before))

    moved = decision.move(then, "why", health=None, deadline_at=decision.now)

    if then in NEXT[before]:
        assert moved.record.status is then
        assert [event.type for event in moved.events] == [f"instance.{then}"]
        assert moved.record.sequence == decision.record.sequence + 1 == moved.events[0].sequence
    else:
        assert replace(moved, illegal_moves=()) == decision
    assert moved.illegal_moves == (() if then in NEXT[before] else ((before, then),))
