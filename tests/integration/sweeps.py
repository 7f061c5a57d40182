"""What tests of the sweep need: instances long running, machines made by hand, lists that are wrong."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from functions.shared.domain.ids import machine_name, new_instance_id
from functions.shared.domain.instance.commands import begin_create
from functions.shared.domain.instance.record import Instance, Purchase, PurchaseOutcome, Spec
from functions.shared.domain.instance.status import Status
from functions.shared.stores.instances import purchase_item
from functions.shared.stores.table import Write, unmarshal
from tests.integration.harness import Harness
from tests.unit.builders import changed

LONG = 300  # past the settling time: what is not listed now is missed


def running(harness: Harness, count: int = 1) -> list[str]:
    """Instances that have run for long, stored as a create would have left them."""
    made = [_running(harness, number) for number in range(count)]
    harness.sweep()
    harness.advance(LONG)
    return made


def _running(harness: Harness, number: int) -> str:
    seen_at = harness.now() - timedelta(seconds=LONG)
    instance_id = new_instance_id(seen_at)
    machine_id = put(harness, instance_id)
    begun = begin_create(
        instance_id=instance_id,
        name=f"n{number}",
        spec=Spec("RTX 4090 24GB", "107677"),
        webhook_url=None,
        actor="test",
        correlation_id="test",
        now=seen_at,
        policy=harness.wiring.policy,
    )
    bought = Purchase(
        instance_id,
        1,
        f"n{number}",
        PurchaseOutcome.BOUGHT,
        seen_at,
        seen_at,
        machine_id=machine_id,
        ended_at=seen_at,
    )
    record = changed(
        begun.record,
        status=Status.RUNNING,
        machine_id=machine_id,
        purchases=1,
        seen_at=seen_at,
        ready_at=seen_at,
        deadline_at=None,
        next_check_at=None,
    )
    harness.wiring.instances.add(replace(begun, record=record), [Write(purchase_item(bought))])
    harness.wire.news = True
    return instance_id


def machine_of(harness: Harness, instance_id: str) -> str:
    return str(harness.record(instance_id).machine.id)


def put(harness: Harness, instance_id: str, purchase: int = 1, deployment: str = "") -> str:
    """A machine made by hand, with the mark of that instance."""
    whose = deployment or harness.wiring.deployment.id()
    name = machine_name("hand", whose, instance_id, purchase)
    made = harness.simulator.put_instance(name=name, status="running", billingMode="spot", ageSeconds=LONG)
    return str(made["id"])


def put_bought(harness: Harness, instance_id: str, purchase: int = 1) -> str:
    """The same, of a purchase that is known here: it was written off, and turns up after all."""
    now = harness.now() - timedelta(seconds=LONG)
    name = machine_name("hand", harness.wiring.deployment.id(), instance_id, purchase)
    absent = Purchase(instance_id, purchase, name, PurchaseOutcome.ABSENT, now, now, ended_at=now)
    harness.wiring.table.put(Write(purchase_item(absent)))
    return put(harness, instance_id, purchase)


def live(harness: Harness) -> set[str]:
    return {str(one["id"]) for one in harness.simulator.live()}


def events(harness: Harness, kind: str) -> list[dict[str, Any]]:
    """Events of the service, as they are stored."""
    found = [unmarshal(item) for item in harness.items()]
    return [item for item in found if item.get("type") == kind and item["kind"] == "event"]


@contextmanager
def listing(
    harness: Harness, machines: list[dict[str, Any]], page: str = "", total: int | None = None
) -> Iterator[None]:
    """Novita's list is this while it lasts; a get by id is what it was."""
    answer = {"instances": machines, "total": len(machines) if total is None else total}
    fault = harness.simulator.fault(
        "garbage",
        path="/gpu/instances",
        match_query=page,
        body=json.dumps(answer),
        contentType="application/json",
    )
    assert fault
    yield
    harness.simulator.clear_faults()


def states(harness: Harness) -> list[Instance]:
    return sorted(harness.records(), key=lambda record: record.id)


@contextmanager
def another_accounts_key(harness: Harness) -> Iterator[None]:
    """Put in by mistake, for a while; that account has a machine, which is not ours."""
    other = "key-of-another-account"
    harness.simulator.settings(accounts={other: "another"})
    theirs = harness.simulator.put_instance(name="theirs", status="running")["id"]
    harness.simulator.patch_instance(theirs, account="another")
    harness.put_secret("novita", other)
    harness.restart()
    yield
    harness.simulator.patch_instance(theirs, status="removed")
    harness.put_secret("novita", "novita-key")
    harness.restart()
