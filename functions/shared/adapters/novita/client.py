"""Novita's API: every call it takes to buy machines and look after them, each within the caller's time."""

import random as chance
import time
from collections.abc import Callable
from datetime import UTC, datetime
from math import inf
from typing import Any, TypeVar

from functions.shared.adapters.novita import orders, reading
from functions.shared.adapters.novita.attempts import Attempts, TimeLimits
from functions.shared.adapters.novita.calls import Call, Repeat
from functions.shared.adapters.novita.entries import entries
from functions.shared.adapters.novita.failures import unreadable
from functions.shared.adapters.novita.gate import Circuits, Limiter
from functions.shared.adapters.novita.listing import LARGE_PAGE, SMALL_PAGE, Page, every_page
from functions.shared.adapters.novita.scalars import integer, text
from functions.shared.adapters.novita.transport import Transport
from functions.shared.domain.errors import NotFound, NotNow, NovitaForNow, NovitaRefused
from functions.shared.domain.machine import Connection, Machine, Order, Product, RegistryAuth, Template
from functions.shared.domain.reasons import Meaning, meaning

T = TypeVar("T")

SMALL_PAGES_SECONDS = 300.0  # after a list that failed


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Novita:
    def __init__(
        self,
        base_url: str,
        *,
        key: Callable[[], str],
        correlation: Callable[[], str],
        circuits: Circuits,
        limiter: Limiter,
        wait: Callable[[float], None],
        limits: TimeLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = _utc_now,
        random: Callable[[], float] = chance.random,
    ) -> None:
        limits = limits or TimeLimits()
        transport = Transport(base_url, key=key, correlation=correlation, clock=clock, now=now)
        self._attempts = Attempts(
            transport, circuits, limiter, limits=limits, wait=wait, clock=clock, random=random
        )
        self._clock = clock
        self._small_pages_until = clock()
        self.purchase_seconds = limits.connect_seconds + limits.purchase_seconds  # what a create may take

    def clusters(self, *, within: float) -> dict[str, str]:
        """Cluster ids by region name."""
        return dict(self._entries(Call("list clusters", "GET", "/clusters"), reading.cluster, within))

    def products(
        self, product_name: str | None = None, billing_method: str | None = None, *, within: float
    ) -> tuple[Product, ...]:
        """Of all regions. Novita matches the name fuzzily, and takes no billing method for "onDemand"."""
        query = {"productName": product_name, "billingMethod": billing_method}
        asked = {name: value for name, value in query.items() if value}
        return self._entries(Call("list products", "GET", "/products", asked), reading.product, within)

    def template(self, template_id: str, *, within: float, slot_wait: float = inf) -> Template:
        call = Call(
            f"show template {template_id}",
            "GET",
            "/template",
            {"templateId": template_id},
            template_id=template_id,
            slot_wait=slot_wait,
        )
        answer = self._attempts.make(call, within).body
        found = reading.template(answer.get("template", answer), template_id)
        if found is None:
            raise unreadable(call)
        return found

    def registry_auths(self, *, within: float) -> tuple[RegistryAuth, ...]:
        call = Call("list registry auths", "GET", "/repository/auths")
        return self._entries(call, reading.registry_auth, within)

    def registry_auth(self, auth_id: str, *, within: float) -> RegistryAuth:
        """For one create call that did not take the auth by its id."""
        auth = next((auth for auth in self.registry_auths(within=within) if auth.id == auth_id), None)
        if auth is None:
            raise NotFound("REGISTRY_AUTH_NOT_FOUND", f"Novita has no registry auth {auth_id}")
        if orders.is_masked(auth):
            raise NovitaRefused(
                "NOVITA_REJECTED", f"Novita does not show the password of registry auth {auth_id}"
            )
        return auth

    def create(self, order: Order, auth: RegistryAuth | None = None, *, within: float) -> str:
        """The new machine's id. One call, never repeated.

        NovitaRefused and NotNow: surely no machine. OutcomeUnclear: perhaps one. ImageAuthRefused: surely
        none, and the same order may be taken with the `auth` that registry_auth gives.
        """
        call = Call(
            f"create {order.name}",
            "POST",
            "/gpu/instance/create",
            body=orders.body(order, auth),
            circuit="buys",
            repeat=Repeat.NEVER,
            image_auth_by_id=bool(order.template.image_auth) and auth is None,
        )
        answer = self._attempts.make(call, within).body
        machine_id = text(answer.get("id")) or text(answer.get("instanceId"))
        if not machine_id:
            raise unreadable(call)
        return machine_id

    def get(self, machine_id: str, *, within: float) -> Machine:
        call = _show(machine_id)
        found = reading.machine(self._attempts.make(call, within).body, asked_for=machine_id)
        if found is None or found.id != machine_id:
            raise unreadable(call)
        return found

    def connection(self, machine_id: str, *, within: float) -> Connection:
        return reading.connection(self._attempts.make(_show(machine_id), within).body)

    def list(self, name: str | None = None, *, within: float) -> tuple[Machine, ...]:
        """All pages. `name` narrows it as fuzzily as Novita likes: compare names before believing one."""
        return self.list_counted(name, within=within)[0]

    def list_counted(self, name: str | None = None, *, within: float) -> tuple[tuple[Machine, ...], int]:
        """All pages, and how many calls they took."""
        until = self._clock() + within
        calls = 0

        def page(number: int) -> Page:
            nonlocal calls
            calls += 1
            return self._page(number, size, name, until - self._clock())

        size = SMALL_PAGE if self._clock() < self._small_pages_until else LARGE_PAGE
        try:
            return every_page(page), calls
        except NotNow:
            raise
        except (NovitaForNow, NovitaRefused) as error:
            # No bound is documented; there may be one all the same, or the answer was too large to be read.
            self._small_pages_until = self._clock() + SMALL_PAGES_SECONDS
            if size == SMALL_PAGE or error.code != "NOVITA_REJECTED":
                raise
            size = SMALL_PAGE
            return every_page(page), calls

    def start(self, machine_id: str, *, within: float) -> None:
        self._attempts.make(_act("start", machine_id), within)

    def stop(self, machine_id: str, *, within: float) -> None:
        self._attempts.make(_act("stop", machine_id, must_pass=True), within)

    def restart(self, machine_id: str, *, within: float) -> None:
        self._attempts.make(_act("restart", machine_id, repeat=Repeat.IF_UNSENT), within)

    def delete(self, machine_id: str, *, within: float) -> None:
        self._attempts.make(_act("delete", machine_id, must_pass=True), within)

    def _page(self, number: int, size: int, name: str | None, within: float) -> Page:
        query = {"pageSize": str(size), "pageNum": str(number)} | ({"name": name} if name else {})
        call = Call("list machines", "GET", "/gpu/instances", query)
        try:
            body = self._attempts.make(call, within).body
        except NovitaRefused as refused:
            nothing = meaning((refused.details or {}).get("reason", "")) is Meaning.MISSING
            if nothing or (number == 0 and refused.code == "NOVITA_REJECTED"):  # there may be no page 0
                return Page((), 0, None)
            raise
        if not body or (body.keys() & {"instances", "total"}) == {"total"}:
            body = {**body, "instances": []}  # some JSON encoders leave empty lists out
        machines = entries(call, body, "instances", reading.machine)
        shown, total = len(body["instances"] or ()), integer(body.get("total"))
        return Page(machines, shown, total if total is not None and total >= shown else None)

    def _entries(self, call: Call, read: Callable[[Any], T | None], within: float) -> tuple[T, ...]:
        return entries(call, self._attempts.make(call, within).body, "data", read)


def _show(machine_id: str) -> Call:
    query = {"instanceId": machine_id}
    return Call(f"show machine {machine_id}", "GET", "/gpu/instance", query, machine_id=machine_id)


def _act(action: str, machine_id: str, *, must_pass: bool = False, repeat: Repeat = Repeat.FREELY) -> Call:
    return Call(
        f"{action} machine {machine_id}",
        "POST",
        f"/gpu/instance/{action}",
        body={"instanceId": machine_id},
        circuit="actions",
        repeat=repeat,
        must_pass=must_pass,
        machine_id=machine_id,
    )
