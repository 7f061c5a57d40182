"""The pure parts: what a machine is at any time, without a server."""

import pytest

from local.novita.lifecycle import ACTIONS, REMOVE, action_steps
from local.novita.machines import Machine
from local.novita.orders import read_order
from local.novita.purchase import boot_seconds, buy
from local.novita.settings import Settings
from local.novita.state import SimulatorState
from tests.simulator.bare_api import BODY

T = 1000.0


def a_state(settings: Settings | None = None) -> SimulatorState:
    state = SimulatorState(settings=settings or Settings())
    state.clock.run("virtual")
    state.clock.set(T)
    return state


def bought(state: SimulatorState) -> Machine:
    return buy(state, read_order(BODY, state.settings))


@pytest.mark.parametrize(
    ("after", "status"),
    [(0, "toCreate"), (0.9, "toCreate"), (1, "creating"), (3, "pulling"), (9.9, "pulling"), (10, "running")],
)
def test_a_boot_leads_through_its_statuses(after: float, status: str) -> None:
    machine = bought(a_state())

    assert machine.status(T + after) == status


def test_a_boot_of_no_length_is_over_at_once() -> None:
    machine = bought(a_state(Settings(boot_seconds=0)))

    assert machine.status(T) == "running"


def test_the_past_stays_when_the_plan_changes() -> None:
    machine = bought(a_state())

    machine.plan(T + 5, action_steps(REMOVE, T + 5, Settings()))

    assert [machine.status(T + after) for after in (0, 4, 5, 6, 8, 99)] == [
        "toCreate",
        "pulling",
        "toRemove",
        "removing",
        "removed",
        "removed",
    ]


def test_only_the_time_between_pulling_and_the_end_is_billed() -> None:
    machine = bought(a_state())

    machine.plan(T + 20, action_steps(REMOVE, T + 20, Settings()))

    assert [machine.billing(T + after) for after in (0, 2.9, 3, 19, 21, 23)] == [
        False,
        False,
        True,
        True,
        True,
        False,
    ]
    assert machine.billed_seconds(T + 500) == 20


def test_a_machine_removed_before_it_pulled_is_never_billed() -> None:
    machine = bought(a_state())

    machine.plan(T + 1, action_steps(REMOVE, T + 1, Settings()))

    assert machine.billed_seconds(T + 500) == 0


def test_an_announced_reclaim_ends_even_a_machine_that_restarts_later() -> None:
    machine = bought(a_state())
    machine.reclaim(T + 20, in_seconds=100, stop_seconds=3)

    machine.plan(T + 50, action_steps(ACTIONS["restart"], T + 50, Settings()))

    assert machine.status(T + 119) == "running"
    assert machine.status(T + 120) == "stopping"
    assert machine.status(T + 123) == "exited"


def test_an_announced_reclaim_does_not_revive_a_removed_machine() -> None:
    machine = bought(a_state())
    machine.reclaim(T + 20, in_seconds=100, stop_seconds=3)

    machine.plan(T + 50, action_steps(REMOVE, T + 50, Settings()))

    assert machine.status(T + 500) == "removed"


def test_boot_times_are_drawn_the_same_for_the_same_seed() -> None:
    settings = Settings(boot_seconds=60, boot_seconds_sigma=0.5, boot_seed=7)

    drawn = sorted(boot_seconds(settings, ordinal) for ordinal in range(999))

    assert drawn == sorted(boot_seconds(settings, ordinal) for ordinal in range(999))
    assert drawn[0] < 30 < 54 < drawn[499] < 66 < 120 < drawn[-1]
