"""The rules for "gone" as they were when a gateway without routes ended the live fleet (fault 1 of Part J).

Injected into the explorer, they show that it would have found the fault: any 404 was a not-found, two of them
ended whatever they were about, and what then came back was deleted.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from unittest.mock import patch

from functions.shared.domain.errors import Fault, MachineNotFound, OstlerError
from functions.shared.domain.instance import purchases, sightings
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.machine import Machine
from functions.shared.domain.instance.observations import NotFoundById
from functions.shared.domain.instance.progress import fail
from functions.shared.domain.instance.record import Action
from functions.shared.domain.instance.status import OVER, Status
from functions.shared.novita import calls
from functions.shared.novita.calls import ABSENT, NovitaCall, NovitaResponse
from functions.shared.stores.machines import KeyTrust

_refusal = calls.refusal


@contextmanager
def in_force() -> Iterator[None]:
    with ExitStack() as stack:
        for where, name, rule in (
            (calls, "refusal", _refused),
            (KeyTrust, "believes", lambda *_: True),
            (KeyTrust, "proven", lambda *_: True),
            (sightings, "not_found", _not_found),
            (purchases, "reappeared", _reappeared),
        ):
            stack.enter_context(patch.object(where, name, rule))
        yield


def _refused(call: NovitaCall, answer: NovitaResponse) -> OstlerError:
    absent = answer.status in ABSENT and call.machine_id
    return MachineNotFound(call.machine_id) if absent else _refusal(call, answer)


def _not_found(decision: Decision, missed: NotFoundById) -> Decision:
    record, began = decision.record, missed.began
    if task := record.cleanup.task(missed.machine_id):
        if task.missing_at and began - task.missing_at >= decision.policy.gone_after:
            return _gone(decision, missed.machine_id)
        noted = replace(task, missing_at=task.missing_at or began, checked_at=decision.step)
        return decision.with_task(noted).change_machine(looked_at=decision.step)
    if missed.machine_id != record.live_machine_id:
        return decision
    decision = decision.change_machine(looked_at=decision.step)
    first = record.machine.first_missed_at
    if first and began - first >= decision.policy.gone_after:
        return _gone(decision, missed.machine_id)
    return decision.change_machine(first_missed_at=first or began, needs_look=True)


def _gone(decision: Decision, machine_id: str) -> Decision:
    decision = decision.without_task(machine_id)
    decision = decision.change_cleanup(gone=(*decision.record.cleanup.gone, machine_id))
    if machine_id != decision.record.machine.id:
        return decision
    decision = decision.change_machine(first_missed_at=None, needs_look=False, novita_status="removed")
    record = decision.record
    if record.coming_up:
        return fail(decision, Fault("STARTUP_FAILED", "The machine vanished at Novita before it was ready"))
    if record.status in OVER:
        return decision
    fault = Fault("INSTANCE_NOT_FOUND", "The machine is gone at Novita")
    unfinished = record.cleanup.tasks or record.purchases.unsettled
    after = Status.DELETING if unfinished else Status.TERMINATED
    return decision.move_operation("failed", fault).move(after, fault.message, deadline_at=None)


def _reappeared(decision: Decision, machine: Machine, _: datetime) -> Decision:
    gone, machine_id = decision.record.cleanup.gone, machine.id
    if machine_id not in gone:
        return decision
    decision = decision.change_cleanup(gone=tuple(one for one in gone if one != machine_id))
    return decision.add_cleanup(machine_id, Action.DELETE)
