from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.shared.domain import resilience as rules
from functions.shared.domain.resilience import (
    NEXT_CIRCUIT_STATE,
    CallPermit,
    Circuit,
    CircuitPolicy,
    CircuitState,
    ProbePermit,
    RefusedPermit,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
POLICY = CircuitPolicy()


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def with_failures(*seconds: float) -> Circuit:
    return Circuit("reads", failures=tuple(map(later, seconds)))


def half_open(successes: int = 0) -> Circuit:
    open_one = rules.opened(Circuit("reads"), NOW, POLICY, 0)
    return replace(rules.leased(open_one, "me", later(60), POLICY), successes=successes)


def test_five_failures_within_any_thirty_seconds_trip_it() -> None:
    assert rules.is_tripped(with_failures(3, 10, 20, 32, 33), later(33), POLICY)


def test_five_failures_over_ten_minutes_do_not_trip_it() -> None:
    assert not rules.is_tripped(with_failures(0, 150, 300, 450, 600), later(600), POLICY)


def test_four_failures_at_once_do_not_trip_it() -> None:
    assert not rules.is_tripped(with_failures(0, 0, 0, 0), NOW, POLICY)


def test_a_tripped_circuit_that_nobody_opened_yet_refuses_all_the_same() -> None:
    assert isinstance(rules.permit_without_probe(with_failures(0, 0, 0, 0, 0), NOW, POLICY), RefusedPermit)


def test_an_open_circuit_says_when_to_come_back() -> None:
    open_one = rules.opened(Circuit("reads"), NOW, POLICY, 0.5)

    assert rules.permit_without_probe(open_one, later(20), POLICY) == RefusedPermit("reads", 40)
    assert not rules.may_probe(open_one, later(59.999))
    assert rules.may_probe(open_one, later(60))


def test_the_first_opening_lasts_the_recovery_time_exactly() -> None:
    assert rules.open_seconds(1, POLICY, 0.7) == 60


@pytest.mark.parametrize(("openings", "shortest", "longest"), [(2, 60, 120), (3, 120, 240), (4, 240, 480)])
def test_repeated_openings_last_longer_with_jitter(openings: int, shortest: float, longest: float) -> None:
    assert rules.open_seconds(openings, POLICY, 0) == shortest
    assert rules.open_seconds(openings, POLICY, 1) == longest


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_no_opening_is_shorter_than_the_recovery_time_or_longer_than_eight(count: int, jitter: float) -> None:
    assert 60 <= rules.open_seconds(count, POLICY, jitter) <= 480


def test_a_failed_probe_opens_for_longer() -> None:
    again = rules.opened(half_open(), later(61), POLICY, 1)

    assert (again.state, again.openings, again.open_until) == (CircuitState.OPEN, 2, later(61 + 120))
    assert (again.lease, again.successes) == ("", 0)


def test_two_good_probes_close_it_and_forget_the_failures() -> None:
    once = rules.after_good_probe(half_open(), later(61), POLICY)
    twice = rules.after_good_probe(rules.leased(once, "you", later(61), POLICY), later(62), POLICY)

    assert (once.state, once.successes) == (CircuitState.HALF_OPEN, 1)
    assert rules.may_probe(once, later(61))
    assert (twice.state, twice.failures, twice.successes) == (CircuitState.CLOSED, (), 0)


def test_a_relapse_counts_as_repeated_and_a_late_failure_does_not() -> None:
    closed = rules.after_good_probe(half_open(successes=1), NOW, POLICY)

    assert rules.opened(closed, later(479), POLICY, 0).openings == 2
    assert rules.opened(closed, later(480), POLICY, 0).openings == 1


def test_a_prober_that_died_is_followed_by_another_after_its_lease() -> None:
    dead = half_open(successes=1)

    assert isinstance(rules.permit_without_probe(dead, later(119), POLICY), RefusedPermit)
    assert not rules.may_probe(dead, later(119))
    assert rules.may_probe(dead, later(120))
    assert rules.leased(dead, "you", later(120), POLICY).successes == 1


def test_a_lease_is_never_shorter_than_a_probe_may_take() -> None:
    hasty = CircuitPolicy(recovery_timeout=0.1, probe_seconds=15)

    assert rules.leased(Circuit("reads"), "me", NOW, hasty).lease_until == later(15)


def test_opened_and_closed_are_told_and_half_open_is_not() -> None:
    opened = rules.opened(Circuit("buys"), NOW, POLICY, 0)
    told = rules.event_of(opened, "evt_1", NOW)

    assert told is not None
    assert (told.type, told.circuit, told.epoch, told.open_until) == ("circuit.opened", "buys", 1, later(60))
    assert rules.event_of(half_open(), "evt_2", NOW) is None
    closed = rules.event_of(Circuit("buys", epoch=7), "evt_3", NOW)
    assert closed is not None
    assert (closed.type, closed.open_until) == ("circuit.closed", None)


def test_every_state_has_its_followers() -> None:
    assert set(NEXT_CIRCUIT_STATE) == set(CircuitState)


class Table:
    """The rule of the conditional write, and a record of every step that it let through."""

    def __init__(self) -> None:
        self.circuit = Circuit("reads")

    def write(self, before: Circuit, after: Circuit) -> bool:
        if self.circuit.epoch != before.epoch:
            return False
        assert after.epoch == before.epoch + 1
        assert after.state in NEXT_CIRCUIT_STATE[before.state]
        self.circuit = after
        return True


# Of the permits given so far, the newest is 0: most reports are prompt, and some come very late.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.sampled_from([0.5, 60, 500])),
        st.tuples(st.just("ask"), st.booleans()),
        st.tuples(st.sampled_from(["good", "bad", "unsent"]), st.sampled_from([0, 0, 1, 2, 5, 20])),
    ),
    min_size=20,
    max_size=120,
)


@given(STEPS, st.integers(1, 3), st.integers(1, 3))
def test_no_report_by_a_stale_permit_moves_a_newer_epoch(
    steps: list[tuple[str, float]], failures: int, successes: int
) -> None:
    policy = CircuitPolicy(failure_threshold=failures, success_threshold=successes)
    table, now, old_copy = Table(), NOW, Circuit("reads")
    permits: list[CallPermit | ProbePermit] = []

    for step, value in steps:
        before = table.circuit
        if step == "wait":
            now += timedelta(seconds=value)
        elif step == "ask":
            seen = old_copy if value else before  # some trust a copy from before
            old_copy = before
            if rules.may_probe(seen, now):
                wanted = rules.leased(seen, str(len(permits)), now, policy)
                permits += [ProbePermit(wanted)] if table.write(seen, wanted) else []
            elif isinstance(go := rules.permit_without_probe(seen, now, policy), CallPermit):
                permits.append(go)
        elif permits:
            permit = permits[-1 - int(value) % len(permits)]
            stale = before.epoch != (permit.leased.epoch if isinstance(permit, ProbePermit) else permit.epoch)
            report(table, permit, step, now, policy)
            assert not stale or table.circuit == before
        assert table.circuit.epoch >= before.epoch
        assert sum(isinstance(p, ProbePermit) and p.leased.epoch == table.circuit.epoch for p in permits) <= 1
        assert isinstance(rules.permit_without_probe(table.circuit, now, policy), CallPermit | RefusedPermit)


def report(
    table: Table, permit: CallPermit | ProbePermit, outcome: str, now: datetime, policy: CircuitPolicy
) -> None:
    if isinstance(permit, ProbePermit):
        held = permit.leased
        after = {
            "good": rules.after_good_probe(held, now, policy),
            "bad": rules.opened(held, now, policy, 0.5),
            "unsent": rules.released(held),
        }[outcome]
        table.write(held, after)
    elif outcome == "bad" and permit.epoch == table.circuit.epoch:
        table.circuit = replace(table.circuit, failures=(*table.circuit.failures, now))
        if rules.is_tripped(table.circuit, now, policy):
            table.write(table.circuit, rules.opened(table.circuit, now, policy, 0.5))
