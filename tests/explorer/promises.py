"""What must hold of every state, every write and every call to Novita, and of every end."""

from dataclasses import replace

from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.limits import EndedBy
from functions.shared.domain.instance.record import Action, Instance, Purchase, PurchaseOutcome
from functions.shared.domain.instance.status import Status
from tests.explorer.world import OURS, POLICY, Call, HeldKey, ModelMachine, World
from tests.unit.domain.instance.promises import assert_due_unless_at_rest, assert_follows

_BY_CLOCK = (EndedBy.LIFETIME, EndedBy.IDLE, EndedBy.STOPPED_TOO_LONG)
_ASKED = {Status.STOPPING: "stop", Status.DELETING: "delete"}


class Broken(Exception):
    """A promise that does not hold."""


def require(holds: object, promise: str) -> None:
    if not holds:
        raise Broken(promise)


def check_still_wanted(read_again: Instance | None) -> None:
    wanted = read_again is not None and read_again.status is Status.CREATING
    require(wanted, "bought, though it was no longer to be when that was last read")


def check_purchase(world: World, bought: ModelMachine, key: HeldKey) -> None:
    """None with a key that is not proven; a second one only where Novita had denied the first."""
    believed = world.key.proven or world.terms.of_another_account
    proven = key.state.version != world.key.version or believed
    require(bought.account == OURS or proven, f"{bought.id} is bought with a key that is not proven")
    for other in _ours(world):
        require(
            _was_denied(world, other),
            f"{bought.id} is bought while {other.id} lives, which Novita had not denied",
        )


def check_action(world: World, machine: ModelMachine, call: Call) -> None:
    """Nothing ends that nobody asked to end. What is stored counts: a step that has decided on an end may be
    overtaken before it says so."""
    record = world.record
    surplus = record.machine.id not in (None, machine.id)
    failed = "failure" in world.asked or record.status is Status.FAILED
    may = {
        "delete": "delete" in world.asked
        or surplus
        or (failed and not record.was_ready)
        or _given_back(machine) in world.asked,
        "stop": failed or bool({"stop", "delete"} & world.asked) or _too_slow(machine) in world.asked,
        "start": "start" in world.asked or record.recovery is not None,
        "restart": "restart" in world.asked,
    }
    require(may[call.kind], f"{call.kind} of {machine.id}, and nobody asked for it")


def _given_back(machine: ModelMachine) -> str:
    """It was taken away, and another is to take its place."""
    return f"replace {machine.id}"


def _too_slow(machine: ModelMachine) -> str:
    """It was to be brought back, and did not come up in time."""
    return f"stop {machine.id}"


def check_settled(world: World, purchase: Purchase) -> None:
    machine = world.named(purchase.name)
    if machine is None or not machine.lives or purchase.outcome is PurchaseOutcome.BOUGHT:
        return
    require(
        purchase.outcome is not PurchaseOutcome.REFUSED, f"{machine.id} was bought, and is called refused"
    )
    if purchase.outcome is PurchaseOutcome.ABSENT:
        require(machine.unfound > 1, f"{machine.id} is written off, and was not looked for twice in vain")


def check_decision(world: World, decision: Decision) -> None:
    before, after = world.record, decision.record
    try:
        assert_follows(before, decision)
        assert_due_unless_at_rest(decision)
    except AssertionError as error:
        raise Broken(str(error) or "it is not at rest, and nothing is due") from None
    _check_clock(world, after)
    if after.status is Status.TERMINATED is not before.status:
        _check_end(world, after)
    if after.status is Status.FAILED is not before.status:
        _check_failure(world, before, after)


def _check_failure(world: World, before: Instance, after: Instance) -> None:
    """A boot's deadline ends nothing that was not looked at after it."""
    late = after.error is not None and after.error.code == "STARTUP_TIMEOUT"
    machine = next((one for one in world.machines if one.id == before.machine.id), None)
    if not late or machine is None or before.deadline_at is None:
        return
    looked = before.machine.seen_at is not None and before.machine.seen_at >= before.deadline_at
    require(looked or _was_denied(world, machine), f"late, and nobody has looked whether {machine.id} is up")


def _check_end(world: World, after: Instance) -> None:
    require(all(one.settled for one in world.purchases), "terminated with a purchase that is not settled")
    require(not after.cleanup.tasks, "terminated with a machine to give back")
    asked = bool({"delete", "release"} & world.asked)
    for machine in world.machines:
        if machine.account != OURS or machine.id in after.cleanup.released:
            continue
        if not asked and machine.id == after.machine.id:
            long = machine.missed_for >= world.terms.missing_for
            require(long, f"terminated, and nobody asked for it or missed {machine.id} for so long")
        elif machine.lives:
            require(_was_denied(world, machine), f"terminated while {machine.id} lives")


def noted(world: World, decision: Decision) -> World:
    """What later promises need to know of this write."""
    told = world.missing_told
    for event in decision.events:
        if event.type in ("instance.missing", "instance.found"):
            missing = event.type == "instance.missing"
            require(told is not missing, f"{event.type} is told twice")
            told = missing
    failed = decision.record.status is Status.FAILED
    asked = world.asked | {"failure"} if failed else world.asked
    recovery = decision.record.recovery
    if recovery and recovery.given_back:
        asked = asked | {f"replace {recovery.given_back}"}
    if recovery and decision.record.status is Status.EXITED:
        late = (one.machine_id for one in decision.record.cleanup.tasks if one.action is Action.STOP)
        asked = asked | {f"stop {machine_id}" for machine_id in late}
    if decision.record.ended_by in _BY_CLOCK and decision.record.status in _ASKED:
        asked |= {_ASKED[decision.record.status]}
    return replace(world, asked=asked, missing_told=told)


def _check_clock(world: World, after: Instance) -> None:
    """What a limit ends was limited when that was decided, its time was up, and nobody used it meanwhile."""
    before, now = world.record, world.now
    if before.status is after.status or after.ended_by not in _BY_CLOCK:
        return
    if after.status is Status.STOPPING and after.ended_by is EndedBy.IDLE:
        uses = [at for at in (before.clock.running_since, world.used_at) if at]
        since, lasts = max(uses, default=None), before.limits.idle_stop_after
    elif after.status is Status.STOPPING:
        since, lasts = before.clock.running_since, before.limits.stop_after
    elif after.status is Status.DELETING:
        since, lasts = before.clock.off_since, before.limits.delete_after_stopped
    else:
        return
    require(
        since and lasts and since + lasts <= now, f"{after.status} by a limit that was not up, or no more"
    )


def check_state(world: World) -> None:
    record = world.record
    known = {
        record.machine.id,
        *record.cleanup.gone,
        *record.cleanup.released,
        *(task.machine_id for task in record.cleanup.tasks),
    }
    for machine in _ours(world):
        if machine.id not in known:
            require(_purchase_of(world, machine), f"nobody knows of {machine.id}")
    if not record.at_rest:
        require(record.next_check_at is not None, "it is not at rest, and nothing is due")


def check_rest(world: World) -> None:
    """When nothing has gone wrong for long enough."""
    record, live = world.record, {one.id: one for one in _ours(world)}
    require(record.at_rest, "it never comes to rest")
    require(all(one.settled for one in world.purchases), "at rest with a purchase that is not settled")
    require(record.operation is None or record.operation.ended, "at rest, and its operation has not ended")
    own = record.live_machine_id
    if record.status is Status.TERMINATED:
        # What has no mark of ours is not found again once Novita has denied it for long enough.
        unmarked = {one.id for one in live.values() if _purchase_of(world, one) is None}
        kept = {*record.cleanup.released, *record.cleanup.vanished, *unmarked}
        left = live.keys() - kept
        require(not left, f"terminated, and {sorted(left)} live on")
    elif record.status is Status.FAILED:
        require(live.keys() <= {own}, f"failed, and {sorted(live)} live on")
        off = all(one.word == "exited" for one in live.values()) or record.spec.keep_on_failure
        require(off, "failed, and its machine runs")
    else:
        require(live.keys() == {own}, f"{record.status} with {own}, and {sorted(live)} live")
        on = record.status in (Status.RUNNING, Status.READY)
        word = live[own or ""].word
        require(word == ("running" if on else "exited"), f"{record.status}, and its machine is {word}")


def _was_denied(world: World, machine: ModelMachine) -> bool:
    """It was not found by its id for long enough, or its purchase was written off."""
    purchase = _purchase_of(world, machine)
    written_off = purchase is not None and purchase.outcome is PurchaseOutcome.ABSENT
    return written_off or machine.denied_for >= POLICY.settle


def _ours(world: World) -> list[ModelMachine]:
    return [one for one in world.live() if one.account == OURS]


def _purchase_of(world: World, machine: ModelMachine) -> Purchase | None:
    return next((one for one in world.purchases if one.name == machine.name), None)
