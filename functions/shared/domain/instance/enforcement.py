"""What limits do when their time has come: a notice, a question whether it is in use, a stop, a delete.

Nothing is called here: whatever ends is stored first, and the next step makes the call. So of an end and a
change that extends it one is stored, and the other one reads that.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from functions.shared.domain.ids import derived_operation_id, timestamp
from functions.shared.domain.instance.commands import begin_delete, begin_stop
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.expiry import Deadline, idle_window, resolve
from functions.shared.domain.instance.gpu_use import judge_gpu_use
from functions.shared.domain.instance.limits import EndedBy
from functions.shared.domain.instance.observations import (
    BudgetsJudged,
    GpuUseRead,
    LastUse,
    ReadGpuUse,
    ReadUse,
)
from functions.shared.domain.instance.status import UP

# Until GPUs are asked again that could not be judged: a part of the window, within these.
_SOONEST, _LATEST = timedelta(minutes=5), timedelta(hours=1)


def enforce(decision: Decision) -> Decision:
    """What time has brought about. Before idleness is told of or acted on, the last use is read."""
    expiry, now = resolve(decision.record), decision.now
    if expiry.delete and expiry.delete.at <= now:
        return _delete(decision, expiry.delete)
    if expiry.stop and expiry.stop.reason is EndedBy.IDLE and _is_near(decision, expiry.stop):
        return decision.ask(ReadUse())
    if expiry.stop and expiry.stop.at <= now:
        return _stop(decision, expiry.stop)
    return _tell(decision)


def use_read(decision: Decision, use: LastUse) -> Decision:
    """Idle by what callers have noted; the GPUs are asked only then."""
    decision = _used(decision, use.at)
    record, stop = decision.record, resolve(decision.record).stop
    if stop is None or stop.at > decision.now:
        return _tell(decision)
    if stop.reason is not EndedBy.IDLE:
        return _stop(decision, stop)
    window = idle_window(record)
    if record.limits.idle_gpu_below is None or window is None or record.machine.id is None:
        return _stop(replace(decision, unused=use), stop)
    return _tell(decision).ask(ReadGpuUse(record.machine.id, window, use))


def gpu_use_read(decision: Decision, read: GpuUseRead) -> Decision:
    """A source that cannot be read means "in use", and is asked again later."""
    record, window = decision.record, read.asked.window
    verdict = judge_gpu_use(
        read.series,
        gpus=record.spec.gpu_num,
        below=record.limits.idle_gpu_below or 0,
        window=window,
        now=decision.now,
    )
    if not verdict.known:
        again_at = decision.now + min(max(window / 4, _SOONEST), _LATEST)
        return decision.change(clock=replace(record.clock, ask_again_at=again_at))
    decision = _used(decision, verdict.busy_at)
    stop = resolve(decision.record).stop
    if stop is None or stop.at > decision.now:
        return _tell(decision)
    return _stop(replace(decision, unused=read.asked.last_use), stop)


def budgets_judged(decision: Decision, judged: BudgetsJudged) -> Decision:
    """What runs beyond a budget is stopped, after the notice; not if a new period begins before."""
    record, stop_at = decision.record, decision.now + decision.policy.expiry_notice
    stops = judged.period_ends_at is not None and stop_at < judged.period_ends_at
    if stops == (record.clock.budget_stop_at is not None) or (stops and record.status not in UP):
        return decision
    return decision.change(clock=replace(record.clock, budget_stop_at=stop_at if stops else None))


def _used(decision: Decision, at: datetime | None) -> Decision:
    clock = decision.record.clock
    if at is None or (clock.used_at and at <= clock.used_at):
        return decision
    return decision.change(clock=replace(clock, used_at=at, ask_again_at=None))


def _is_near(decision: Decision, deadline: Deadline) -> bool:
    told = deadline.told_as == decision.record.clock.told_stop_at
    return (deadline.at if told else deadline.told_as - decision.policy.expiry_notice) <= decision.now


def _tell(decision: Decision) -> Decision:
    """One notice for each time, however late it is known."""
    expiry, soon = resolve(decision.record), decision.now + decision.policy.expiry_notice
    for action, deadline in (("stop", expiry.stop), ("delete", expiry.delete)):
        name = f"told_{action}_at"
        clock = decision.record.clock
        if deadline is None or deadline.told_as > soon or getattr(clock, name) == deadline.told_as:
            continue
        decision = decision.change(clock=replace(clock, **{name: deadline.told_as}))
        data = {"action": action, "at": timestamp(deadline.at), "reason": deadline.reason.value}
        decision = decision.add_event("instance.expiring", deadline.reason.value, data=data)
    return decision


def _stop(decision: Decision, stop: Deadline) -> Decision:
    decision = _tell(decision)
    return begin_stop(decision, _operation_id(decision), stop.reason).wait_until(decision.now)


def _delete(decision: Decision, delete: Deadline) -> Decision:
    decision = _tell(decision)
    return begin_delete(decision, _operation_id(decision), delete.reason).wait_until(decision.now)


def _operation_id(decision: Decision) -> str:
    return derived_operation_id(decision.record.id, decision.record.version, decision.now)
