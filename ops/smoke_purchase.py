"""The purchase of a smoke test: one machine from create to terminated, deleted whatever happens."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import uuid4

import requests

from ops.command import CommandError
from ops.smoke_client import ServiceClient

Say = Callable[[str], None]

RUNNING = ("running", "ready")
ENDED = ("failed", "terminated")
POLL_SECONDS = 2.0
DELETE_SECONDS = 600.0


@dataclass(frozen=True)
class Order:
    template: str
    max_price: float  # USD an hour, for the one GPU it has
    max_wait_seconds: float = 1800.0


class LeakedMachineError(CommandError):
    """It may go on costing money: the one failure that somebody has to see to at once."""

    exit_code = 3


def buy_and_delete(service: ServiceClient, product: str, order: Order, say: Say) -> str:
    name = f"smoke-{uuid4().hex[:12]}"
    started, ids = time.monotonic(), set[str]()
    try:
        bought = _create_and_wait(service, name, product, order, ids, say)
    finally:
        ended = _delete(service, name, ids, say)
    hours = Decimal((ended - started) / 3600)
    cost = Decimal(bought["pricePerGpuHour"]) * hours
    return f"ran in {bought['region']} and is gone; it cost about {cost:.4f} USD, if billed by the second"


def _create_and_wait(
    service: ServiceClient, name: str, product: str, order: Order, ids: set[str], say: Say
) -> dict[str, Any]:
    body = {
        "name": name,
        "productName": product,
        "templateId": order.template,
        "maxPricePerGpuHour": order.max_price,
        "placement": "cheapest",
    }
    answer = service.call("POST", "/api/instances", body)
    if answer.status_code != 201:
        raise CommandError(f"the create was answered {answer.status_code}: {answer.text[:300]}")
    instance_id = answer.json()["instanceId"]
    ids.add(instance_id)
    say(f"         {instance_id} accepted")
    shown = _wait(service, instance_id, (*RUNNING, *ENDED), order.max_wait_seconds, say)
    if shown["status"] not in RUNNING:
        raise CommandError(f"it is {shown['status']}: {shown.get('error')}")
    return shown


def _delete(service: ServiceClient, name: str, ids: set[str], say: Say) -> float:
    """By its name too, since the answer that had the id may have been lost. Returns when it was asked for."""
    if not ids:
        time.sleep(POLL_SECONDS)  # until the index that finds it by name has it
    asked_at = time.monotonic()
    try:
        found = service.call("GET", f"/api/instances?name={name}").json()["instances"]
        for instance_id in ids | {one["instanceId"] for one in found}:
            service.call("DELETE", f"/api/instances/{instance_id}").raise_for_status()
            _wait(service, instance_id, ("terminated",), DELETE_SECONDS, say)
    except (requests.RequestException, KeyError, CommandError) as error:
        raise LeakedMachineError(f"{name} may still cost money, delete it by hand: {error}") from error
    return asked_at


def _wait(
    service: ServiceClient,
    instance_id: str,
    wanted: tuple[str, ...],
    seconds: float,
    say: Say,
) -> dict[str, Any]:
    deadline, status = time.monotonic() + seconds, ""
    while True:
        shown: dict[str, Any] = service.call("GET", f"/api/instances/{instance_id}").json()
        if shown.get("status") != status:
            status = str(shown.get("status"))
            say(f"         {instance_id} is {status}")
        if status in wanted:
            return shown
        if time.monotonic() > deadline:
            raise CommandError(f"{instance_id} is still {status} after {seconds:.0f} s")
        time.sleep(POLL_SECONDS)
