"""Durations, ceilings, and what limits come to in each status."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.shared.domain.errors import CallerError, ValidationFailed
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.expiry import next_due, resolve, shown
from functions.shared.domain.instance.gpu_use import judge_gpu_use, sample_interval
from functions.shared.domain.instance.limits import (
    EndedBy,
    LimitChange,
    LimitClock,
    LimitRules,
    Limits,
    duration_text,
    read_duration,
)
from functions.shared.domain.instance.observations import LastUse, ReadUse, Tick, UseRead
from functions.shared.domain.instance.reclaim import Recovery
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.status import Status
from tests.unit.builders import NOW, POLICY, after, ago, new_instance

HOUR = timedelta(hours=1)
RAN = LimitClock(ran_at=ago(7200), running_since=ago(3600), off_since=ago(1800))


@pytest.mark.parametrize(
    ("given_", "seconds", "shown"),
    [
        ("90m", 5400, "90m"),
        ("8h", 28800, "8h"),
        ("24h", 86400, "1d"),
        ("3d", 259200, "3d"),
        ("45s", 45, "45s"),
        (5400, 5400, "90m"),
        (3600.0, 3600, "1h"),
        (61, 61, "61s"),
    ],
)
def test_durations_are_read_and_shown_in_the_largest_whole_unit(
    given_: Any, seconds: int, shown: str
) -> None:
    assert read_duration(given_) == timedelta(seconds=seconds)
    assert duration_text(read_duration(given_)) == shown


@pytest.mark.parametrize(
    "bad",
    ["", "90", "h", "1.5h", "-1h", "1 h", "1w", 0, -5, True, None, [], float("nan"), float("inf"), 1e12],
)
def test_what_is_no_duration_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        read_duration(bad)


def test_a_default_is_declined_by_null_and_never_shortens_a_time() -> None:
    rules = LimitRules(defaults=Limits(stop_after=HOUR, delete_after=2 * HOUR))

    assert rules.first({}, NOW) == Limits(stop_after=HOUR, delete_after=2 * HOUR)
    assert rules.first({"stop_after": None}, NOW) == Limits(delete_after=2 * HOUR)
    assert rules.first({"stop_at": after(9999)}, NOW) == Limits(delete_after=2 * HOUR, stop_at=after(9999))


def test_a_ceiling_counts_from_when_its_time_began() -> None:
    rules = LimitRules(ceilings=Limits(stop_after=2 * HOUR))
    asked = {"stop_at": NOW + 1.5 * HOUR}

    LimitChange(asked, rules).apply(Limits(), LimitClock(), NOW)
    with pytest.raises(CallerError, match="stopAt") as refused:
        LimitChange(asked, rules).apply(Limits(), RAN, NOW)

    assert refused.value.code == "LIMIT_NOT_ALLOWED"


def test_what_has_passed_is_refused_also_when_it_is_this_moment() -> None:
    with pytest.raises(ValidationFailed):
        LimitChange({"delete_at": NOW}, LimitRules()).apply(Limits(), LimitClock(), NOW)


def _at(status: Status, limits: Limits, clock: LimitClock = RAN, **more: Any) -> Instance:
    return new_instance(status, limits=limits, clock=clock, **more)


def _stop_of(record: Instance) -> datetime | None:
    stop = resolve(record).stop
    return stop.at if stop else None


STOPS = {
    Status.RUNNING,
    Status.HEALTH_CHECKING,
    Status.READY,
    Status.MIGRATING,
    Status.STARTING,  # a restart: after a start nothing has run yet
    Status.FAILED,  # kept
}


@pytest.mark.parametrize("status", Status)
def test_a_stop_acts_only_on_what_runs_and_a_delete_on_all_that_is_not_over(status: Status) -> None:
    record = _at(status, Limits(stop_after=HOUR, delete_after=3 * HOUR))

    expiry = resolve(record)

    assert (expiry.stop is not None) == (status in STOPS)
    assert (expiry.delete is not None) == (status not in (Status.DELETING, Status.TERMINATED))


@pytest.mark.parametrize("status", Status)
def test_idleness_counts_only_when_it_is_up(status: Status) -> None:
    assert (_stop_of(_at(status, Limits(idle_stop_after=HOUR))) is not None) == (
        status in (Status.RUNNING, Status.READY)
    )


def test_a_stop_at_from_before_its_start_was_asked_for_is_spent() -> None:
    started = replace(RAN, start_at=ago(3700))  # and it ran 100 s later

    assert _stop_of(_at(Status.RUNNING, Limits(stop_at=ago(3701)), started)) is None
    assert _stop_of(_at(Status.RUNNING, Limits(stop_at=ago(3650)), started)) == ago(3650)
    assert _stop_of(_at(Status.RUNNING, Limits(stop_at=ago(3599)), started)) == ago(3599)


def test_a_stop_at_that_passes_while_it_comes_up_is_shown_and_acts_when_it_is_up() -> None:
    stop_at = Limits(stop_at=ago(10))

    for status in (Status.CREATING, Status.STARTING, Status.MIGRATING):
        coming_up = _at(status, stop_at, LimitClock())
        assert _stop_of(coming_up) is None
        assert shown(coming_up, NOW).as_json()["stopReason"] == "lifetime"
    assert _stop_of(_at(Status.RUNNING, stop_at, LimitClock(ran_at=NOW, running_since=NOW))) == ago(10)
    assert shown(_at(Status.STOPPED, stop_at), NOW).stop is None


def test_the_earlier_of_two_limits_wins_and_says_why() -> None:
    limits = Limits(stop_after=2 * HOUR, idle_stop_after=HOUR, stop_at=after(9999))

    stop = resolve(_at(Status.RUNNING, limits)).stop

    assert stop
    assert (stop.at, stop.reason) == (NOW, EndedBy.IDLE)


def test_without_a_limit_the_ceiling_is_one() -> None:
    assert _stop_of(_at(Status.RUNNING, Limits(), ceilings=Limits(stop_after=2 * HOUR))) == after(3600)


def test_a_restart_moves_nothing_and_a_start_everything_that_counts_from_it() -> None:
    clock = LimitClock(ran_at=ago(7200), running_since=ago(3600), ready_since=ago(3500))

    restarted = clock.moved(Status.READY, Status.STARTING, NOW)
    restarted = restarted.moved(Status.STARTING, Status.RUNNING, after(60))
    restarted = restarted.moved(Status.HEALTH_CHECKING, Status.READY, after(90))
    started = clock.moved(Status.STOPPING, Status.STOPPED, NOW).started(after(30))
    started = started.moved(Status.STARTING, Status.RUNNING, after(60))
    off = clock.moved(Status.READY, Status.EXITED, NOW)
    at_novita = off.moved(Status.EXITED, Status.RUNNING, after(60))
    moving = off.moved(Status.EXITED, Status.MIGRATING, after(50))

    assert restarted == clock
    assert (started.running_since, started.ran_at, started.off_since) == (after(60), ago(7200), None)
    assert started.start_at == after(30)
    assert (at_novita.running_since, at_novita.start_at) == (after(60), after(60))
    assert moving.moved(Status.MIGRATING, Status.RUNNING, after(60)).running_since == after(60)


limits = st.builds(
    Limits,
    **{
        name: st.none() | st.integers(1, 400_000).map(lambda s: timedelta(seconds=s))
        for name in ("stop_after", "delete_after", "idle_stop_after", "delete_after_stopped")
    },
    **{name: st.none() | st.integers(-9000, 400_000).map(after) for name in ("stop_at", "delete_at")},
)


RECOVERY = Recovery(ago(1800), ago(1790), after(3600), try_at=after(30))
RECOVERS = {Status.EXITED, Status.CREATING, Status.STARTING, Status.RUNNING, Status.MIGRATING}


@given(
    limits=limits,
    status=st.sampled_from(list(Status)),
    protected=st.booleans(),
    recovery=st.sampled_from([None, RECOVERY, Recovery(ago(1800))]),
)
def test_after_a_step_nothing_that_a_limit_wants_is_left_in_the_past(
    limits: Limits, status: Status, protected: bool, recovery: Recovery | None
) -> None:
    """Otherwise its steps would follow each other without an end."""
    recovery = recovery if status in RECOVERS else None
    record = _at(status, limits, protected=protected, recovery=recovery)
    decision = decide(record, Tick(), NOW, POLICY)
    if isinstance(decision.call, ReadUse):
        decision = decide(decision.record, UseRead(LastUse(None)), NOW, POLICY, step=NOW)

    due = next_due(decision.record, POLICY.expiry_notice)

    assert due is None or due > NOW
    assert (
        all(event.type == "instance.expiring" for event in decision.events[:-1])
        or decision.illegal_moves == ()
    )
    if record.at_rest and decision.call is None and decision.record.status is status:
        assert decision.record.next_check_at == due


def test_what_ends_is_stored_before_anything_is_called() -> None:
    decision = decide(_at(Status.RUNNING, Limits(stop_after=timedelta(minutes=5))), Tick(), NOW, POLICY)

    assert decision.call is None
    assert decision.record.status is Status.STOPPING
    assert decision.record.next_check_at == NOW
    assert [event.type for event in decision.events] == ["instance.expiring", "instance.stopping"]
    operation = decision.record.operation
    assert operation
    assert (operation.actor, operation.pending) == ("system", True)


WINDOW = timedelta(minutes=30)


def _samples(*percent: float) -> Any:
    every = sample_interval(WINDOW)
    return tuple((NOW - every * number, used) for number, used in enumerate(reversed(percent)))


IDLE = _samples(*[0.0] * 61)


@pytest.mark.parametrize(
    ("series", "known"),
    [
        ((("0", IDLE),), True),
        ((("0", IDLE), ("1", IDLE)), True),
        ((("0", IDLE[4:]),), True),  # two minutes late, as Novita's are
        ((("0", IDLE[10:]),), False),  # later than that
        ((("0", IDLE[:-10]),), False),  # the window's begin is lacking
        ((("0", (*IDLE[:20], *IDLE[30:])),), False),  # a gap
        ((("0", ()),), False),
        ((), False),
        (None, False),
    ],
)
def test_gpus_are_idle_only_if_the_whole_window_is_known(series: Any, known: bool) -> None:
    verdict = judge_gpu_use(series, gpus=1, below=10, window=WINDOW, now=NOW)

    assert (verdict.known, verdict.busy_at) == (known, None)


def test_fewer_gpus_than_the_machine_has_are_not_enough() -> None:
    four = tuple((str(number), IDLE) for number in range(4))

    assert judge_gpu_use(four, gpus=4, below=10, window=WINDOW, now=NOW).known
    assert not judge_gpu_use(four[:3], gpus=4, below=10, window=WINDOW, now=NOW).known
    assert not judge_gpu_use((four[0],) * 4, gpus=4, below=10, window=WINDOW, now=NOW).known


@pytest.mark.parametrize("percent", [10.0, 99.0, float("nan")])
def test_one_sample_of_one_gpu_that_is_not_below_is_use(percent: float) -> None:
    busy = (*IDLE[:7], (IDLE[7][0], percent), *IDLE[8:])

    verdict = judge_gpu_use((("0", IDLE), ("1", busy)), gpus=2, below=10, window=WINDOW, now=NOW)

    assert verdict.busy_at == IDLE[7][0]


@pytest.mark.parametrize(("share", "busy"), [(0.95, True), (0.1, True), (0.0999, False), (0.0, False)])
def test_what_may_be_a_share_of_a_gpu_is_no_small_percentage(share: float, busy: bool) -> None:
    """Novita documents no unit."""
    used = (*IDLE[:7], (IDLE[7][0], share), *IDLE[8:])
    percent = (*used[:9], (IDLE[9][0], 9.0), *used[10:])  # and then it is one

    verdicts = [
        judge_gpu_use((("0", shown),), gpus=1, below=10, window=WINDOW, now=NOW) for shown in (used, percent)
    ]

    assert [one.busy_at for one in verdicts] == [IDLE[7][0] if busy else None, None]


def test_an_old_record_without_a_clock_has_no_limits_and_no_due_time() -> None:
    record = replace(new_instance(Status.RUNNING), next_check_at=None)

    assert next_due(record, POLICY.expiry_notice) is None
