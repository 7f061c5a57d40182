"""One machine from create to terminated, by the API alone; it is given back whatever happens."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import uuid4

import requests

from local.problems import StartError
from ops.client import Access, Caller

UP = ("running", "ready")
GONE = ("failed", "terminated")
LOOK_EVERY_SECONDS = 2.0
SECONDS_TO_GO = 600.0


@dataclass(frozen=True)
class Service:
    url: str
    access: Access

    def call(self, method: str, path: str, body: Any = None) -> requests.Response:
        return self.call_as(self.access.own, method, path, body)

    def call_as(self, caller: Caller | None, method: str, path: str, body: Any = None) -> requests.Response:
        return requests.request(method, self.url + path, json=body, auth=caller, timeout=60)


@dataclass(frozen=True)
class Order:
    template: str
    most_per_hour: float  # USD, for the one GPU it has
    patience_seconds: float = 1800.0


class MachineLeftError(StartError):
    """It may go on costing money: the one failure that somebody has to see to at once."""

    exit_code = 3


def round_trip(service: Service, product: str, order: Order, say: Callable[[str], None]) -> str:
    name = f"smoke-{uuid4().hex[:12]}"
    began, ids = time.monotonic(), set[str]()
    try:
        bought = _running(service, name, product, order, ids, say)
    finally:
        gone = _given_back(service, name, ids, say)
    hours = Decimal((gone - began) / 3600)
    cost = Decimal(bought["pricePerGpuHour"]) * hours
    return f"ran in {bought['region']} and is gone; it cost about {cost:.4f} USD, if billed by the second"


def _running(
    service: Service, name: str, product: str, order: Order, ids: set[str], say: Callable[[str], None]
) -> dict[str, Any]:
    body = {
        "name": name,
        "productName": product,
        "templateId": order.template,
        "maxPricePerGpuHour": order.most_per_hour,
        "placement": "cheapest",
    }
    answer = service.call("POST", "/api/instances", body)
    if answer.status_code != 201:
        raise StartError(f"the create was answered {answer.status_code}: {answer.text[:300]}")
    instance_id = answer.json()["instanceId"]
    ids.add(instance_id)
    say(f"         {instance_id} accepted")
    shown = _wait(service, instance_id, (*UP, *GONE), order.patience_seconds, say)
    if shown["status"] not in UP:
        raise StartError(f"it is {shown['status']}: {shown.get('error')}")
    return shown


def _given_back(service: Service, name: str, ids: set[str], say: Callable[[str], None]) -> float:
    """By its name too, since the answer that had the id may have been lost; when it was told to go."""
    if not ids:
        time.sleep(LOOK_EVERY_SECONDS)  # until the index that finds it by name has it
    told = time.monotonic()
    try:
        found = service.call("GET", f"/api/instances?name={name}").json()["instances"]
        for instance_id in ids | {one["instanceId"] for one in found}:
            service.call("DELETE", f"/api/instances/{instance_id}").raise_for_status()
            _wait(service, instance_id, ("terminated",), SECONDS_TO_GO, say)
    except (requests.RequestException, KeyError, StartError) as problem:
        raise MachineLeftError(f"{name} may still cost money, delete it by hand: {problem}") from problem
    return told


def _wait(
    service: Service, instance_id: str, wanted: tuple[str, ...], seconds: float, say: Callable[[str], None]
) -> dict[str, Any]:
    until, before = time.monotonic() + seconds, ""
    while True:
        shown: dict[str, Any] = service.call("GET", f"/api/instances/{instance_id}").json()
        if shown.get("status") != before:
            before = str(shown.get("status"))
            say(f"         {instance_id} is {before}")
        if before in wanted:
            return shown
        if time.monotonic() > until:
            raise StartError(f"{instance_id} is still {before} after {seconds:.0f} s")
        time.sleep(LOOK_EVERY_SECONDS)
