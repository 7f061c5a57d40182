"""The decisions against a Novita that fails in every way: nothing lost, nothing doubled, always an end."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from functions.shared.domain.errors import Conflict
from functions.shared.domain.instance.boot_times import BootEstimate
from functions.shared.domain.instance.commands import (
    begin_again,
    begin_delete,
    begin_restart,
    begin_start,
    begin_stop,
)
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.status import Status
from tests.unit.builders import deciding, new_spec
from tests.unit.domain.instance.novita_model import FAULTS, Model

Turn = Callable[[Model], None]

faults = st.lists(st.sampled_from(FAULTS), max_size=5)
commands = st.sampled_from(["start"] * 3 + ["restart"] * 2 + ["stop"] * 3 + ["redrive"] * 2 + ["delete"])
courses = st.sampled_from(
    [("exited",), ("toStart", "running"), ("migrating", "running"), ("removed", "not found")]
)


def command(model: Model, kind: str) -> None:
    operation_id = f"op_{model.now.timestamp()}"
    begin: dict[str, Any] = {
        "start": lambda decision: begin_start(decision, operation_id, HealthCheck()),
        "restart": lambda decision: begin_restart(decision, operation_id, HealthCheck()),
        "stop": lambda decision: begin_stop(decision, operation_id),
        "delete": lambda decision: begin_delete(decision, operation_id),
        "redrive": begin_again,
    }
    try:
        decision = begin[kind](deciding(model.record, model.now))
    except Conflict:
        return
    if decision.events:
        model.save(decision)


def step_when_due(model: Model, bad: list[str]) -> None:
    if model.record.next_check_at is not None:
        model.now = max(model.now, model.record.next_check_at)
        model.step(bad)


def wait(model: Model, seconds: int) -> None:
    model.now += timedelta(seconds=seconds)


def novita_or_a_person_does_something(model: Model, number: int, words: tuple[str, ...]) -> None:
    machine = model.machines.get(f"m-{number}")
    if machine and machine.live(model.now):
        machine.becomes(model.now, *words)
        machine.by_hand = True


due: st.SearchStrategy[Turn] = faults.map(lambda bad: lambda model: step_when_due(model, bad))
turn: st.SearchStrategy[Turn] = st.one_of(
    due,
    due,
    due,
    faults.map(lambda bad: lambda model: model.step(bad)),
    faults.map(lambda bad: lambda model: model.step(bad, dies=True)),
    st.builds(
        lambda bad, kind: lambda model: model.step(bad, overtaken_by=lambda: command(model, kind)),
        faults,
        commands,
    ),
    commands.map(lambda kind: lambda model: command(model, kind)),
    commands.map(lambda kind: lambda model: command(model, kind)),
    st.sampled_from([1, 15, 40, 130, 400, 1300, 3700]).map(lambda s: lambda model: wait(model, s)),
    st.just(Model.sweep),
    st.just(Model.last_retry_failed),
    st.builds(
        lambda number, words: lambda model: novita_or_a_person_does_something(model, number, words),
        st.integers(1, 2),
        courses,
    ),
)
boots = st.sampled_from([None, BootEstimate(3.7, 0.4)])  # what others took, with a median of 40 s
specs = st.builds(
    new_spec, keep_on_failure=st.booleans(), health_check=st.sampled_from([None, HealthCheck()])
)


@settings(max_examples=200, deadline=None)
@given(specs, boots, st.booleans(), st.lists(turn, min_size=6, max_size=30))
def test_whatever_happens_it_comes_to_rest_with_its_books_balanced(
    spec: Any, boot: BootEstimate | None, undisturbed_at_first: bool, turns: list[Turn]
) -> None:
    model = Model(spec, boot)
    model.delete = lambda: command(model, "delete")
    if undisturbed_at_first:
        model.run_to_rest(20)

    for one in turns:
        one(model)
        assert_nothing_is_billed_that_nobody_knows(model)

    for _ in range(3):  # until the latest machine has been shown, and what a sweep found is dealt with
        model.run_to_rest(400)
        wait(model, 600)
        model.sweep()
    model.run_to_rest(50)
    assert_books_balance(model)


def assert_nothing_is_billed_that_nobody_knows(model: Model) -> None:
    """Each live machine is the record's, in its clean-up, or of a purchase that is not settled yet; one that
    Novita shows only after the settling time is found by the sweep."""
    record = model.record
    known = {record.machine.id, *(task.machine_id for task in record.cleanup.tasks)}
    for machine in model.machines.values():
        if machine.live(model.now) and machine.id not in known:
            shown_after = machine.shown_from - model.purchases[machine.purchase].intended_at
            assert record.purchases.unsettled or shown_after > timedelta(seconds=120), (
                f"{machine.id} is forgotten"
            )


def assert_books_balance(model: Model) -> None:
    record, now = model.record, model.now
    live = {one.id: one for one in model.machines.values() if one.live(now)}
    assert all(purchase.settled for purchase in model.purchases.values())
    if record.status is Status.TERMINATED:
        assert live == {}
    elif record.status is Status.FAILED:
        assert live.keys() <= {record.machine.id}
        off = all(one.status(now) == "exited" or one.by_hand for one in live.values())
        assert off or record.spec.keep_on_failure
    else:
        assert live.keys() == {record.machine.id}
        on = record.status in (Status.RUNNING, Status.READY)
        assert live[record.machine.id or ""].status(now) == ("running" if on else "exited")


def test_an_undisturbed_create_takes_one_purchase_and_few_steps() -> None:
    model = Model(new_spec())

    steps = model.run_to_rest(10)

    assert model.record.status is Status.RUNNING
    assert len(model.machines) == len(model.purchases) == 1
    assert steps <= 4


def test_a_purchase_shown_too_late_is_bought_again_and_the_first_given_back() -> None:
    model = Model(new_spec())

    model.step(["ok", "unclear: bought, shown too late"])
    model.run_to_rest(50)
    wait(model, 600)
    model.sweep()
    model.run_to_rest(50)

    assert model.record.status is Status.RUNNING
    assert model.record.machine.id == "m-2"
    assert not model.machines["m-1"].live(model.now)


def test_a_purchase_that_is_shown_in_time_is_adopted() -> None:
    for fault in ("unclear: bought", "unclear: bought, shown late", "dies after buying"):
        model = Model(new_spec())

        model.step(["ok", fault])
        model.run_to_rest(50)

        assert (model.record.status, len(model.machines)) == (Status.RUNNING, 1), fault


def test_a_delete_at_every_moment_of_a_purchase_leaves_no_machine() -> None:
    moments = ["deleted before buying", "deleted while buying", "unclear: bought, shown late"]
    for fault in [*moments, "dies before buying", "dies after buying", "bought, shown late"]:
        model = Model(new_spec())
        model.delete = lambda model=model: command(model, "delete")  # type: ignore[misc]  # a default in a lambda

        model.step(["ok", fault])
        command(model, "delete")
        model.run_to_rest(50)

        assert model.record.status is Status.TERMINATED, fault
        assert not any(machine.live(model.now) for machine in model.machines.values()), fault


def test_a_step_that_cannot_be_saved_is_taken_again() -> None:
    model = Model(new_spec(health_check=HealthCheck()))

    for _ in range(30):
        model.step([], dies=True)
        wait(model, 181)  # until the lease is over of whatever it had begun
        model.step([])
        wait(model, 31)

    assert model.record.status is Status.READY
    assert len(model.machines) == 1
