"""Every history of one instance up to a small depth, and some long ones; `make soak` goes on from there."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, cast
from unittest.mock import PropertyMock, patch

import pytest

from functions.create import handler as create
from functions.shared.domain.instance import enforcement, progress, purchases
from functions.shared.domain.instance.decision import Decision, Policy
from functions.shared.domain.instance.limits import Limits
from functions.shared.domain.instance.observations import LastUse, WriteOffPurchase
from functions.shared.domain.instance.record import Purchase, PurchaseOutcome, Spec
from functions.shared.domain.instance.status import Status
from functions.shared.stores.machines import KeyTrust
from tests.explorer import old_rules, parts, store
from tests.explorer.fair import finished, rested
from tests.explorer.moves import begin, moves, wait
from tests.explorer.replay import Replay
from tests.explorer.roots import SPECS, limited_roots, roots
from tests.explorer.run import IDLE_LIMITS, LIMITS
from tests.explorer.search import Bounds, Search, walk
from tests.explorer.world import POLICY, Budget, HeldKey, Terms, World


@pytest.mark.parametrize(
    ("budget", "depth"), [(Budget(1, 0), 4), (Budget(0, 2), 4), (Budget(2, 1), 2)], ids=str
)
def test_every_history_up_to_a_depth_keeps_every_promise(budget: Budget, depth: int) -> None:
    report = Search(Bounds(depth=depth)).run(roots(SPECS["plain"], budget))

    assert not report.broken, report
    assert report.depth == depth
    assert report.states > 500


@pytest.mark.parametrize(("budget", "depth"), [(Budget(1, 1), 3), (Budget(0, 2), 4)], ids=str)
def test_what_a_clock_ends_was_to_end_and_does(budget: Budget, depth: int) -> None:
    report = Search(Bounds(depth=depth)).run(limited_roots(budget))

    assert not report.broken, report
    assert report.states > 100


def test_what_is_stopped_for_idleness_was_used_by_nobody() -> None:
    """Whoever uses it while that is being decided wins."""
    report = Search(Bounds(depth=4)).run(limited_roots(Budget(1, 1), IDLE_LIMITS)[1:2])

    assert not report.broken, report
    assert report.states > 100


def test_a_stop_of_what_was_used_meanwhile_is_found_where_nobody_checks() -> None:
    def unguarded(decision: Decision, use: LastUse) -> Decision:
        return replace(use_read(decision, use), unused=None)

    use_read = enforcement.use_read
    with patch.object(enforcement, "use_read", unguarded):
        report = Search(Bounds(depth=4)).run(limited_roots(Budget(1, 1), IDLE_LIMITS)[1:2])

    assert "by a limit that was not up" in report.broken


@pytest.mark.parametrize("limits", [LIMITS, IDLE_LIMITS], ids=["lifetime", "idle"])
def test_whatever_happens_to_one_that_a_clock_ends_it_comes_to_rest(limits: Limits) -> None:
    begin = limited_roots(Budget(faults=8, requests=4), limits)

    reports = [walk(begin, 25, Random(seed)) for seed in range(12)]

    assert [str(report) for report in reports if report.broken] == []


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_whatever_happens_in_a_long_history_it_comes_to_rest_with_its_books_balanced(spec: Spec) -> None:
    begin = roots(spec, Budget(faults=8, requests=4))

    reports = [walk(begin, 25, Random(seed)) for seed in range(12)]

    assert [str(report) for report in reports if report.broken] == []


def test_by_the_old_rules_a_gateway_without_routes_ends_and_deletes_what_nobody_asked_to_end() -> None:
    believed = Terms(missing_for=POLICY.settle, without_reason=True, of_another_account=True)
    with old_rules.in_force():
        report = Search(Bounds()).run(roots(SPECS["plain"], Budget(1, 0), believed))

    print(report)  # noqa: T201  # the shortest history
    assert report.broken == "delete of m-1, and nobody asked for it"
    assert report.history[:3] == (
        "it runs",
        "Novita: its gateway has lost its routes: 404 without a reason",
        "somebody reads it: get m-1, save",
    )
    assert report.history[-2:] == ("a sweep, list, get m-1, save", "a message is delivered, delete m-1")


def test_by_the_old_rules_what_is_not_found_twice_ends_although_nobody_asked() -> None:
    with old_rules.in_force():
        report = Search(Bounds()).run(roots(SPECS["plain"], Budget(1, 0)))

    assert report.broken == "terminated, and nobody asked for it or missed m-1 for so long"


def test_an_undisturbed_create_takes_one_purchase_and_few_steps() -> None:
    fresh = dict(roots(SPECS["plain"], Budget(0, 0)))["it is asked for"]

    rest = rested(fresh)

    assert rest.record.status is Status.RUNNING
    assert len(rest.machines) == len(rest.purchases) == 1
    assert rest.record.version <= 6


def test_a_purchase_shown_too_late_is_bought_again_and_the_first_given_back() -> None:
    fresh = dict(roots(SPECS["plain"], Budget(3, 0)))["it is asked for"]

    bought = "intend, read again, create (unclear, bought), settle"
    late = taken(
        fresh,
        f"a message is delivered: {bought}, INTERRUPTED before find",
        "m-1 is hidden, and lives",
        "the interrupted step goes on: find, save",
    )
    while not late.record.machine.id:
        late = next_step(late)
    rest = rested(late)

    assert rest.record.machine.id == "m-2"
    assert [(one.id, one.word) for one in rest.machines] == [("m-1", "removed"), ("m-2", "running")]


def taken(world: World, *told: str) -> World:
    """After these moves, one after the other."""
    for what in told:
        move = next(one for one in moves(world) if one.what == what)
        assert move.world is not None, move.broken
        world = move.world
    return world


def next_step(world: World) -> World:
    due = world.record.next_check_at
    assert due is not None
    world = wait(world, max(due, world.now))
    return finished(begin(replace(world, messages=()), "step", world.record.token))


# What the explorer is for: each of these mistakes in the rules must be found.


def _as_it_is_now(run: Replay) -> HeldKey:
    return cast(HeldKey, run.see(lambda world: HeldKey(world.key, world.account)))


def _write_off_at_once(decision: Decision, purchase: Purchase, _: datetime) -> Decision:
    return decision.ask(WriteOffPurchase(purchase))


def _never_due(decision: Decision) -> Decision:
    return decision.due(None)


_save, _settle = store._save, store._settle


def _save_over_anything(world: World, decision: Decision) -> tuple[World, Any]:
    record = replace(decision.record, version=world.record.version)
    return _save(world, replace(decision, record=record))


def _unclear_is_refused(world: World, purchase: Purchase) -> World:
    unclear = purchase.outcome is PurchaseOutcome.UNCLEAR
    return _settle(world, replace(purchase, outcome=PurchaseOutcome.REFUSED) if unclear else purchase)


Mistake = Callable[[], AbstractContextManager[Any]]
MISTAKES: dict[str, tuple[Mistake, str, Budget, str]] = {
    "one not-found is enough": (
        lambda: patch.object(Policy, "gone_after", PropertyMock(return_value=timedelta())),
        "it runs",
        Budget(1, 1),
        "terminated while m-1 lives",
    ),
    "another account's key is believed": (
        lambda: patch.multiple(KeyTrust, believes=lambda *_: True, proven=lambda *_: True),
        "it runs",
        Budget(1, 1),
        "terminated while m-1 lives",
    ),
    "a key may change in the middle of a step": (
        lambda: patch.object(parts, "held_key", _as_it_is_now),
        "it is asked for",
        Budget(2, 0),
        "m-1 is bought with a key that is not proven",
    ),
    "an unclear purchase is written off at once": (
        lambda: patch.object(purchases, "name_not_listed", _write_off_at_once),
        "it is asked for",
        Budget(2, 0),
        "m-1 is written off, and was not looked for twice in vain",
    ),
    "an unclear purchase counts as refused": (
        lambda: patch.object(store, "_settle", _unclear_is_refused),
        "it is asked for",
        Budget(1, 0),
        "m-1 was bought, and is called refused",
    ),
    "nobody looks whether it is still to be bought": (
        lambda: patch.object(create, "still_buying", lambda _: True),
        "it is asked for",
        Budget(1, 1),
        "bought, though it was no longer to be when that was last read",
    ),
    "whoever saves last wins": (
        lambda: patch.object(store, "_save", _save_over_anything),
        "it runs",
        Budget(1, 1),
        "a status changed without its event",
    ),
    "nothing is due": (
        lambda: patch.object(progress, "_finish", _never_due),
        "it is asked for",
        Budget(0, 0),
        "it is not at rest, and nothing is due",
    ),
    "a deadline is judged unseen": (
        lambda: patch.object(progress, "_may_be_up", lambda *_: False),
        "it is asked for",
        Budget(1, 0),
        "late, and nobody has looked whether m-1 is up",
    ),
    "a second machine is kept": (
        lambda: patch.object(purchases, "_give_back", lambda decision, _: decision),
        "it is asked for",
        Budget(1, 1),
        "terminated while m-1 lives",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_rules_is_found(name: str) -> None:
    mistake, where, budget, promise = MISTAKES[name]
    begin = [root for root in roots(SPECS["plain"], budget) if root[0] == where]

    with mistake():
        report = Search(Bounds(seconds=120)).run(begin)

    assert promise in report.broken, report
