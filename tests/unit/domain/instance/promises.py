"""What must hold of every decision, whatever led to it."""

from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.expiry import next_due
from functions.shared.domain.instance.observations import Act, Call, Tick
from functions.shared.domain.instance.record import Action, Instance
from functions.shared.domain.instance.status import NEXT, Status

_NO_MOVES = frozenset(
    {
        "instance.missing",
        "instance.found",
        "instance.updated",
        "instance.expiring",
        "instance.reclaim_notified",
    }
)


def assert_follows(before: Instance, decision: Decision) -> None:
    """Only steps that the table allows, each with its event; numbers without gaps; readyAt set once."""
    record = decision.record
    status = before.status
    for number, event in enumerate(decision.events, before.sequence + 1):
        assert event.sequence == number, "a gap in the numbers of events"
        if event.type in _NO_MOVES:
            assert event.status is status, f"{event.type} is no change of status"
        elif event.type.startswith("instance."):
            assert event.status in NEXT[status], f"{status} cannot become {event.status}"
            assert event.type == f"instance.{event.status}"
            status = event.status
    assert decision.illegal_moves == (), "a rule asked for what the table does not allow"
    assert record.status is status, "a status changed without its event"
    assert record.sequence == before.sequence + len(decision.events)
    bought_anew = status is Status.CREATING and before.status is not status
    assert bought_anew or before.ready_at in (None, record.ready_at), "readyAt was set twice"


def assert_ends_are_stored_first(before: Instance, decision: Decision) -> None:
    """Whoever is overtaken by another writer, or dies, has ended nothing that the record knows nothing of."""
    call = decision.call
    if isinstance(call, Act) and call.action is Action.DELETE:
        stored = before.cleanup.task(call.machine_id)
        assert stored is not None, "a delete that is not stored yet"
        assert stored.action is Action.DELETE, "a delete of what is only to be stopped"


def call_once_stored(decision: Decision) -> Call | None:
    """What the step makes that follows at once."""
    assert decision.call is None
    return decide(decision.record, Tick(), decision.now, decision.policy).call


def assert_due_unless_at_rest(decision: Decision) -> None:
    if decision.call is None:
        record = decision.record
        limit = next_due(record, decision.policy.expiry_notice)
        assert (record.next_check_at is None) == (record.at_rest and limit is None)
        if record.at_rest:
            assert record.next_check_at == limit, "at rest, and something else than a limit is due"


def assert_nothing_forgotten(record: Instance, told: set[str]) -> None:
    known = {record.machine.id, *record.cleanup.gone, *(task.machine_id for task in record.cleanup.tasks)}
    assert told <= known, f"forgotten: {told - known}"
