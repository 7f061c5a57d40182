"""Whatever is observed, asked for or waited for, in any order and however little sense it makes."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from functions.shared.domain.errors import Conflict, Fault
from functions.shared.domain.instance.commands import (
    begin_again,
    begin_delete,
    begin_restart,
    begin_start,
    begin_stop,
)
from functions.shared.domain.instance.decide import decide
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.observations import (
    Act,
    ActionTaken,
    Buy,
    CallPostponed,
    CallRefused,
    DeadLettered,
    HealthChecked,
    NameNotListed,
    NotFoundById,
    NotListed,
    Observation,
    PurchasesRead,
    Reappeared,
    Seen,
    Tick,
    UnknownMachine,
)
from functions.shared.domain.instance.record import Action, Instance, Purchase, PurchaseOutcome, Queue
from functions.shared.domain.instance.status import Status
from tests.unit.builders import (
    NOW,
    POLICY,
    changed,
    created,
    deciding,
    new_machine,
    new_purchase,
    new_report,
    new_spec,
)
from tests.unit.domain.instance.promises import (
    assert_due_unless_at_rest,
    assert_ends_are_stored_first,
    assert_follows,
    assert_nothing_forgotten,
)

MACHINES = ("m-1", "m-2", "m-3")
WORDS = ("running", "exited", "migrating", "removed", "pulling", "toStop", "removing", "whatever")
FAULT = Fault("NOVITA_REJECTED", "no")

machine_ids = st.sampled_from(MACHINES)
seconds_ago = st.sampled_from([0, 0, 0, 1, 20, 150])
acts = st.builds(Act, st.sampled_from(list(Action)), machine_ids)
purchases = st.builds(
    lambda outcome, number: new_purchase(
        outcome, number, **({"machine_id": MACHINES[number - 1]} if outcome is PurchaseOutcome.BOUGHT else {})
    ),
    st.sampled_from(list(PurchaseOutcome)),
    st.integers(1, 3),
)
purchase_lists = st.lists(purchases, max_size=3, unique_by=lambda one: one.number).map(tuple)


# Each makes an observation out of when it began.
observations: st.SearchStrategy[Callable[[datetime], Observation]] = st.one_of(
    st.just(lambda _: Tick()),
    purchase_lists.map(lambda all_: lambda _: PurchasesRead(all_)),
    purchases.map(lambda one: lambda began: NameNotListed(one, began)),
    st.builds(
        lambda word, id_: lambda began: Seen(new_machine(word, id_), began),
        st.sampled_from(WORDS),
        machine_ids,
    ),
    machine_ids.map(lambda id_: lambda began: NotFoundById(id_, began)),
    machine_ids.map(lambda id_: lambda began: NotListed(id_, began)),
    st.builds(lambda id_: lambda _: UnknownMachine(id_), machine_ids),
    machine_ids.map(lambda id_: lambda began: Reappeared(new_machine("running", id_), began)),
    st.sampled_from(list(Queue)).map(lambda queue: lambda _: DeadLettered(queue, FAULT)),
    acts.map(lambda act: lambda began: ActionTaken(act, began)),
    st.builds(
        lambda act, capacity, wrong: lambda _: CallRefused(FAULT, act, capacity, wrong),
        st.none() | acts,
        st.booleans(),
        st.booleans(),
    ),
    st.floats(0, 900).map(lambda wait: lambda _: CallPostponed(FAULT, wait)),
    st.booleans().map(lambda healthy: lambda began: HealthChecked(new_report(healthy=healthy), began)),
)
commands = st.sampled_from(["start", "restart", "stop", "delete", "redrive"])


class Turn(NamedTuple):
    wait: int
    ago: int
    observe: Callable[[datetime], Observation] | None
    command: str | None


turns = st.lists(
    st.one_of(
        st.builds(Turn, st.sampled_from([0, 1, 15, 200, 4000]), seconds_ago, observations, st.none()),
        st.builds(Turn, st.sampled_from([0, 1, 15]), seconds_ago, observations, st.none()),
        st.builds(Turn, st.just(1), st.just(0), st.none(), commands),
    ),
    max_size=25,
)
specs = st.builds(
    new_spec, keep_on_failure=st.booleans(), health_check=st.sampled_from([None, HealthCheck()])
)


def commanded(record: Instance, command: str, now: datetime) -> Decision | None:
    begin: dict[str, Any] = {
        "start": lambda d: begin_start(d, f"op_{now:%H%M%S}", HealthCheck()),
        "restart": lambda d: begin_restart(d, f"op_{now:%H%M%S}", HealthCheck()),
        "stop": lambda d: begin_stop(d, f"op_{now:%H%M%S}"),
        "delete": lambda d: begin_delete(d, f"op_{now:%H%M%S}"),
        "redrive": begin_again,
    }
    try:
        decision: Decision = begin[command](deciding(record, now))
    except Conflict:
        return None
    return decision


@settings(max_examples=250, deadline=None)
@given(specs, turns)
def test_no_order_of_events_leads_out_of_the_table_or_forgets_a_machine(spec: Any, steps: list[Turn]) -> None:
    record, now = replace(created().record, spec=spec), NOW
    told: set[str] = set()

    for turn in steps:
        now += timedelta(seconds=turn.wait)
        if turn.observe is None:
            decision = commanded(record, turn.command or "", now)
            if decision is None:
                continue
        else:
            observation = turn.observe(now - timedelta(seconds=turn.ago))
            decision = decide(record, observation, now, POLICY)
            assert_due_unless_at_rest(decision)
            assert_ends_are_stored_first(record, decision)
            if isinstance(observation, PurchasesRead):
                told |= {one.machine_id for one in observation.purchases if one.machine_id}

        assert_follows(record, decision)
        assert_nothing_forgotten(decision.record, told)
        if decision.record.status is Status.TERMINATED is not record.status:
            assert not decision.record.cleanup.tasks
            assert not decision.record.purchases.unsettled
            assert told <= set(decision.record.cleanup.gone)
        if isinstance(decision.call, Buy):
            assert decision.record.status is Status.CREATING
        if isinstance(decision.call, Act) and decision.record.status in (Status.DELETING, Status.TERMINATED):
            assert decision.call.action is Action.DELETE
        record = decision.record


@settings(max_examples=150, deadline=None)
@given(specs, turns, st.sampled_from(WORDS), st.sampled_from(["seen", "missing", "unlisted", "probed"]))
def test_a_stale_observation_changes_nothing_wherever_it_arrives(
    spec: Any, steps: list[Turn], word: str, kind: str
) -> None:
    record, now = replace(created().record, spec=spec), NOW
    for turn in steps:
        now += timedelta(seconds=turn.wait)
        if turn.observe is not None:
            record = decide(record, turn.observe(now), now, POLICY).record
        elif decision := commanded(record, turn.command or "", now):
            record = decision.record
    tasks = tuple(replace(task, asked_at=now) for task in record.cleanup.tasks)
    record = changed(record, tasks=tasks, acted_at=now, waiting=None)
    if record.machine.id is None:
        return
    began = now
    stale: dict[str, Observation] = {
        "seen": Seen(new_machine(word, record.machine.id), began),
        "missing": NotFoundById(record.machine.id, began),
        "unlisted": NotListed(record.machine.id, began),
        "probed": HealthChecked(new_report(healthy=True), began),
    }

    decision = decide(record, stale[kind], now + timedelta(seconds=5), POLICY)

    if record.status is Status.DELETING and decision.record.status is Status.TERMINATED:
        return  # which a tick would have done just as well
    assert decision.events == ()
    assert _lasting(decision.record) == _lasting(record)


def _lasting(record: Instance) -> Instance:
    tasks = tuple(replace(task, checked_at=None) for task in record.cleanup.tasks)
    return changed(record, tasks=tasks, looked_at=None, next_check_at=None, waiting=None)


def test_the_same_question_has_the_same_answer() -> None:
    record = created().record
    observation = PurchasesRead((new_purchase(PurchaseOutcome.BOUGHT),))

    assert decide(record, observation, NOW, POLICY) == decide(record, observation, NOW, POLICY)


def test_a_purchase_is_open_until_it_is_settled() -> None:
    def settled(outcome: PurchaseOutcome) -> bool:
        purchase: Purchase = new_purchase(outcome)
        return purchase.settled

    assert {outcome for outcome in PurchaseOutcome if not settled(outcome)} == {
        PurchaseOutcome.INTENDED,
        PurchaseOutcome.UNCLEAR,
    }
