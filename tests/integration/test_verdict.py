"""The checks at rest notice what they are there for: each thing that is put wrong by hand is named."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from functions.shared.domain.ids import machine_name
from functions.shared.domain.instance.decision import Decision
from functions.shared.domain.instance.limits import EndedBy
from functions.shared.domain.instance.reclaim import OnReclaim, ReclaimAction
from functions.shared.domain.instance.status import Status
from tests.integration.callers import Caller
from tests.integration.chaos import run
from tests.integration.fault_profiles import FaultProfile
from tests.integration.harness import Harness
from tests.integration.proxy import FaultProxy
from tests.integration.subscriber import Subscriber
from tests.integration.verdict import Verdict, judge


def _key(pk: str, sk: str) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def _lose_the_record(harness: Harness, id_: str) -> None:
    harness.dynamodb.delete_item(TableName=harness.table_name, Key=_key(id_, "record"))


def _lose_an_event(harness: Harness, id_: str) -> None:
    harness.dynamodb.delete_item(TableName=harness.table_name, Key=_key(id_, "event#0000000002"))


def _leave_something_due(harness: Harness, id_: str) -> None:
    item = {**_key(id_, "later"), "due": {"S": "instance"}, "dueAt": {"N": "1"}}
    harness.dynamodb.put_item(TableName=harness.table_name, Item=item)


def _buy_another(harness: Harness, id_: str) -> None:
    name = machine_name("c0", harness.wiring.deployment.id(), id_, 2)
    harness.simulator.put_instance(name=name, status="running")


def _stop_its_machine(harness: Harness, id_: str) -> None:
    harness.simulator.patch_instance(harness.record(id_).machine.id or "", status="exited")


def _remove_its_machine(harness: Harness, id_: str) -> None:
    harness.simulator.patch_instance(harness.record(id_).machine.id or "", status="removed")


def _end_its_machine(harness: Harness, id_: str) -> None:
    """As a rule that is wrong would."""
    harness.wiring.novita.stop(harness.record(id_).machine.id or "", within=10)


def _forget_what_was_delivered(harness: Harness, _: str) -> None:
    harness.simulator.clear_inbox("box-0")


def _take_it_away_in_silence(harness: Harness, id_: str) -> None:
    """As if nobody had begun to bring it back."""
    decision = _changing(harness, id_)
    spec = replace(decision.record.spec, on_reclaim=OnReclaim(ReclaimAction.RESTART))
    decision = decision.move(Status.EXITED, ended_by=EndedBy.RECLAIM, spec=spec)
    harness.wiring.instances.save(decision)


def _count_it_at_another_price(harness: Harness, id_: str) -> None:
    decision = _changing(harness, id_)
    ledger = decision.record.ledger
    (meter,) = ledger.meters
    ledger = replace(ledger, meters=(replace(meter, usd_per_hour=Decimal("0.17")),))
    harness.wiring.instances.save(decision.change(ledger=ledger))


def _changing(harness: Harness, id_: str) -> Decision:
    return Decision(harness.record(id_), harness.now(), harness.wiring.policy, harness.now())


WRONG: dict[str, tuple[Callable[[Harness, str], None], str]] = {
    "record lost": (_lose_the_record, "was accepted and is lost"),
    "event lost": (_lose_an_event, "has events"),
    "still due": (_leave_something_due, "is still due"),
    "bought twice": (_buy_another, "live:"),
    "status untrue": (_stop_its_machine, "and Novita says exited"),
    "machine gone": (_remove_its_machine, "live: []"),
    "ended unasked": (_end_its_machine, "and nobody had asked for it"),
    "reclaim unanswered": (_take_it_away_in_silence, "neither brought back nor given up"),
    "price wrong": (_count_it_at_another_price, "is counted at 0.17"),
    "webhook not delivered": (_forget_what_was_delivered, "its receiver's history is not"),
}


@pytest.fixture
def caller(disturbed: Harness) -> Caller:
    body = {
        "name": "c0",
        "productName": "RTX 4090 24GB",
        "templateId": "107672",
        "webhookUrl": disturbed.simulator.inbox_url("box-0"),
    }
    return Caller("c0", body, [(0.0, "create")], disturbed.now())


def _rested(harness: Harness, proxy: FaultProxy, caller: Caller) -> list[dict[str, Any]]:
    """What was announced until all was at rest."""
    announced: list[dict[str, Any]] = []
    subscriber = Subscriber(harness)
    verdict, _ = run(harness, proxy, Random(1), FaultProfile(), [caller])
    assert verdict.wrong == []
    announced += subscriber.received()
    return announced


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_at_rest_is_named(
    disturbed: Harness, proxy: FaultProxy, caller: Caller, name: str
) -> None:
    spoil, said = WRONG[name]
    announced = _rested(disturbed, proxy, caller)

    spoil(disturbed, caller.instance_id)
    verdict = judge(disturbed, [caller], announced)

    assert any(said in sentence for sentence in verdict.wrong), verdict.wrong
    assert verdict.doubled == (name == "bought twice")
    assert verdict.lost == (name == "record lost")


def test_an_event_that_nobody_was_told_of_is_named(
    disturbed: Harness, proxy: FaultProxy, caller: Caller
) -> None:
    announced = _rested(disturbed, proxy, caller)

    verdict: Verdict = judge(disturbed, [caller], announced[1:])

    assert any("nobody was told of" in sentence for sentence in verdict.wrong), verdict.wrong
