"""Novita's API: every call it takes to buy machines and look after them, each within the caller's time."""

from __future__ import annotations

import random as chance
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from functions.shared.domain.errors import NotFound, NotNow, NovitaForNow, NovitaRefused
from functions.shared.domain.instance.gpu_use import GpuSeries
from functions.shared.domain.instance.machine import Connection, Machine
from functions.shared.domain.market import Order, Product, RegistryAuth, StoredVolume, Template
from functions.shared.domain.resilience import SlotClass
from functions.shared.novita import payloads
from functions.shared.novita.attempts import Attempts, CallCircuits, CallSlots, CallTimeouts
from functions.shared.novita.calls import NovitaCall, NovitaKey, ReasonMeaning, Repeat, meaning_of, unreadable
from functions.shared.novita.payloads import integer, text
from functions.shared.platform.observability import logger

if TYPE_CHECKING:
    from functions.shared.novita.transport import Transport

# As few calls as can be: a list of 1,000 is two, and 500 machines of 16 kB are still an answer that is read.
LARGE_PAGE, SMALL_PAGE = 500, 100
MOST_PAGES = 1000
STALE_PAGES = 2  # in a row: there is nothing more


L = TypeVar("L", Machine, StoredVolume)


@dataclass(frozen=True)
class ListPage(Generic[L]):
    machines: tuple[L, ...]
    entries: int  # unreadable ones too
    total: int | None


def every_page(read: Callable[[int], ListPage[L]]) -> tuple[L, ...]:
    """Each machine, or volume, once, as last seen. A list that shrank or grew between two pages is read once
    more."""
    found: dict[str, L] = {}
    if not _read_through(read, found):
        _read_through(read, found)
    return tuple(found.values())


def _read_through(read: Callable[[int], ListPage[L]], found: dict[str, L]) -> bool:
    """Whether the list held still."""
    seen: set[str] = set()
    totals: set[int] = set()
    stale = 0
    for number in range(MOST_PAGES):
        page = read(number)
        new = {machine.id for machine in page.machines} - seen
        seen |= new
        found.update((machine.id, machine) for machine in page.machines)
        totals |= {page.total} if page.total is not None else set()
        # One page may repeat: page 1 what was answered for page 0, or any that new machines pushed back.
        stale = 0 if new else stale + 1
        at_the_end = stale and (page.entries == 0 or stale == STALE_PAGES)
        if (page.total is not None and len(seen) >= page.total) or (at_the_end and number > 0):
            break
    return len(totals) < 2


E = TypeVar("E")


def entries(
    call: NovitaCall, body: dict[str, Any], key: str, read: Callable[[Any], E | None]
) -> tuple[E, ...]:
    """An answer without the list is no answer: nothing must look sold out or gone because of it."""
    given = body.get(key, ...)
    if given is None:
        return ()
    if not isinstance(given, list):
        raise unreadable(call)
    found = tuple(entry for entry in map(read, given) if entry is not None)
    if len(found) < len(given):
        skipped = {"call": call.path, "skipped": len(given) - len(found), "of": len(given)}
        logger.warning("entries of novita's answer could not be read", extra=skipped)
    if given and not found:  # as good as without the list
        raise unreadable(call)
    return found


T = TypeVar("T")

SMALL_PAGES_SECONDS = 300.0  # after a list that failed
REFUSED_SLOT_WAIT = 1.0  # seconds


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Novita:
    def __init__(
        self,
        base_url: str,
        *,
        key: Callable[[], NovitaKey],
        correlation: Callable[[], str],
        circuits: CallCircuits,
        limiter: CallSlots,
        wait: Callable[[float], None],
        limits: CallTimeouts | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = _utc_now,
        random: Callable[[], float] = chance.random,
        believes: Callable[[str], bool] = lambda _: True,  # whether a version of the key is our account's
        reads_as: Callable[[], SlotClass] = lambda: "looks",
    ) -> None:
        limits = limits or CallTimeouts()

        def transport() -> Transport:
            from functions.shared.novita.transport import Transport  # slow, and often all is cached

            return Transport(base_url, key=key, correlation=correlation, clock=clock, now=now)

        self._make_transport = transport
        self._attempts = Attempts(
            lambda: self._transport,
            circuits,
            limiter,
            limits=limits,
            wait=wait,
            clock=clock,
            random=random,
            believes=believes,
            reads_as=reads_as,
        )
        self._clock = clock
        self._small_pages_until = clock()
        self.purchase_seconds = limits.connect_seconds + limits.purchase_seconds  # what a create may take

    @cached_property
    def _transport(self) -> Transport:
        return self._make_transport()

    def key_version(self) -> str:
        """Of the key that calls are made with in this invocation."""
        return self._transport.usable_key().version

    def clusters(self, *, within: float) -> dict[str, str]:
        """Cluster ids by region name."""
        return dict(
            self._entries(NovitaCall("list clusters", "GET", "/clusters"), payloads.read_cluster, within)
        )

    def products(
        self,
        product_name: str | None = None,
        billing_method: str | None = None,
        *,
        within: float,
        slot_wait: float = inf,
        reads_as: SlotClass | None = None,
    ) -> tuple[Product, ...]:
        """Of all regions. Novita matches the name fuzzily, and takes no billing method for "onDemand"."""
        query = {"productName": product_name, "billingMethod": billing_method}
        asked = {name: value for name, value in query.items() if value}
        call = NovitaCall("list products", "GET", "/products", asked, slot_wait=slot_wait, reads_as=reads_as)
        return self._entries(call, payloads.read_product, within)

    def template(
        self,
        template_id: str,
        *,
        within: float,
        slot_wait: float = inf,
        reads_as: SlotClass | None = None,
    ) -> Template:
        call = NovitaCall(
            f"show template {template_id}",
            "GET",
            "/template",
            {"templateId": template_id},
            template_id=template_id,
            slot_wait=slot_wait,
            reads_as=reads_as,
        )
        answer = self._attempts.make(call, within).body
        found = payloads.read_template(answer.get("template", answer), template_id)
        if found is None:
            raise unreadable(call)
        return found

    def registry_auths(self, *, within: float) -> tuple[RegistryAuth, ...]:
        call = NovitaCall("list registry auths", "GET", "/repository/auths")
        return self._entries(call, payloads.read_registry_auth, within)

    def registry_auth(self, auth_id: str, *, within: float) -> RegistryAuth:
        """For one create call that did not take the auth by its id."""
        auth = next((auth for auth in self.registry_auths(within=within) if auth.id == auth_id), None)
        if auth is None:
            raise NotFound("REGISTRY_AUTH_NOT_FOUND", f"Novita has no registry auth {auth_id}")
        if payloads.is_masked(auth):
            raise NovitaRefused(
                "NOVITA_REJECTED", f"Novita does not show the password of registry auth {auth_id}"
            )
        return auth

    def volumes(
        self, *, within: float, slot_wait: float = inf, reads_as: SlotClass | None = None
    ) -> tuple[StoredVolume, ...]:
        """All network volumes of the account."""
        until = self._clock() + within

        def page(number: int) -> ListPage[StoredVolume]:
            query = {"pageSize": str(LARGE_PAGE), "pageNo": str(number)}
            call = NovitaCall(
                "list network volumes",
                "GET",
                "/networkstorages/list",
                query,
                slot_wait=slot_wait,
                reads_as=reads_as,
            )
            return self._list_page(call, number, "data", payloads.read_volume, max(until - self._clock(), 0))

        return every_page(page)

    def balance(self, *, within: float) -> dict[str, Decimal]:
        """Of the account, in USD, as far as Novita tells it."""
        call = NovitaCall(
            "show the balance", "GET", "/billing/balance/detail", repeat=Repeat.NEVER, account_api=True
        )
        found = payloads.read_balance(self._attempts.make(call, within).body)
        if not found:
            raise unreadable(call)
        return found

    def bill(self, machine_id: str, begin: datetime, end: datetime, *, within: float) -> Decimal | None:
        """What Novita has billed for the machine in that time, in USD; None where it has no bill of it."""
        query = {
            "cycleType": "Day",
            "productCategory": "gpu",
            "ownerId": machine_id,
            "startTime": str(int(begin.timestamp())),
            "endTime": str(int(end.timestamp())),
        }
        call = NovitaCall(
            f"show the bill of {machine_id}",
            "GET",
            "/billing/bill/list",
            query,
            reads_as="metrics",
            repeat=Repeat.NEVER,
            account_api=True,
        )
        amounts = payloads.read_bills(self._attempts.make(call, within).body, machine_id)
        if amounts is None:
            raise unreadable(call)
        return sum(amounts, Decimal()) if amounts else None

    def gpu_use(
        self, machine_id: str, begin: datetime, end: datetime, interval: timedelta, *, within: float
    ) -> GpuSeries:
        """Utilisation of each GPU in percent; whether it covers what was asked for is not judged here."""
        query = {
            "instanceId": machine_id,
            "startTime": str(int(begin.timestamp())),
            "endTime": str(int(end.timestamp())),
            "interval": str(round(interval.total_seconds())),
        }
        call = NovitaCall(
            f"show the gpu use of {machine_id}",
            "GET",
            "/metrics/gpu/instance",
            query,
            reads_as="metrics",
            repeat=Repeat.NEVER,
            account_api=True,
        )
        found = payloads.read_gpu_use(self._attempts.make(call, within).body)
        if found is None:
            raise unreadable(call)
        return found

    def create(self, order: Order, auth: RegistryAuth | None = None, *, within: float) -> str:
        """The new machine's id. One call, never repeated.

        NovitaRefused and NotNow: surely no machine. OutcomeUnclear: perhaps one. ImageAuthRefused: surely
        none, and the same order may be taken with the `auth` that registry_auth gives.
        """
        call = NovitaCall(
            f"create {order.name}",
            "POST",
            "/gpu/instance/create",
            body=payloads.order_body(order, auth),
            circuit="buys",
            repeat=Repeat.NEVER,
            image_auth_by_id=bool(order.template.image_auth) and auth is None,
        )
        answer = self._attempts.make(call, within).body
        machine_id = text(answer.get("id")) or text(answer.get("instanceId"))
        if not machine_id:
            raise unreadable(call)
        return machine_id

    def get(
        self, machine_id: str, *, within: float, slot_wait: float = inf, absence_expected: bool = False
    ) -> Machine:
        call = replace(_show(machine_id), slot_wait=slot_wait, absence_expected=absence_expected)
        found = payloads.read_machine(self._attempts.make(call, within).body, asked_for=machine_id)
        if found is None or found.id != machine_id:
            raise unreadable(call)
        return found

    def connection(self, machine_id: str, *, within: float) -> Connection:
        return payloads.read_connection(self._attempts.make(_show(machine_id), within).body)

    def list(self, name: str | None = None, *, within: float) -> tuple[Machine, ...]:
        """All pages. `name` narrows it as fuzzily as Novita likes: compare names before believing one."""
        return self.list_counted(name, within=within)[0]

    def list_counted(self, name: str | None = None, *, within: float) -> tuple[tuple[Machine, ...], int]:
        """All pages, and how many calls they took."""
        until = self._clock() + within
        calls = 0

        def page(number: int) -> ListPage[Machine]:
            nonlocal calls
            calls += 1
            return self._page(number, size, name, until - self._clock())

        size = self.page_size
        try:
            return every_page(page), calls
        except NotNow:
            raise
        except (NovitaForNow, NovitaRefused) as error:
            self._ask_for_less()
            if size == SMALL_PAGE or error.code != "NOVITA_REJECTED":
                raise
            size = SMALL_PAGE
            return every_page(page), calls

    @property
    def page_size(self) -> int:
        """That is best asked for now."""
        return SMALL_PAGE if self._clock() < self._small_pages_until else LARGE_PAGE

    def list_page(self, number: int, size: int, *, within: float) -> ListPage[Machine]:
        """For whoever goes through a list that is too long for one time."""
        try:
            return self._page(number, size, None, within)
        except NotNow:
            raise
        except (NovitaForNow, NovitaRefused):
            self._ask_for_less()
            raise

    def _ask_for_less(self) -> None:
        """No bound is documented; there may be one all the same, or the answer was too large to be read."""
        self._small_pages_until = self._clock() + SMALL_PAGES_SECONDS

    def start(self, machine_id: str, *, within: float) -> None:
        self._attempts.make(_act("start", machine_id), within)

    def stop(self, machine_id: str, *, within: float, refused_before: bool = False) -> None:
        self._attempts.make(_end("stop", machine_id, refused_before), within)

    def restart(self, machine_id: str, *, within: float) -> None:
        self._attempts.make(_act("restart", machine_id, repeat=Repeat.IF_UNSENT), within)

    def delete(
        self, machine_id: str, *, within: float, unless: Callable[[], bool], refused_before: bool = False
    ) -> None:
        """`unless`: it is another's by now, which is asked right before each attempt."""
        call = _end("delete", machine_id, refused_before)
        self._attempts.make(replace(call, unless=unless), within)

    def _page(self, number: int, size: int, name: str | None, within: float) -> ListPage[Machine]:
        query = {"pageSize": str(size), "pageNum": str(number)} | ({"name": name} if name else {})
        call = NovitaCall("list machines", "GET", "/gpu/instances", query)
        return self._list_page(call, number, "instances", payloads.read_machine, within)

    def _list_page(
        self, call: NovitaCall, number: int, key: str, read: Callable[[Any], L | None], within: float
    ) -> ListPage[L]:
        try:
            body = self._attempts.make(call, within).body
        except NovitaRefused as refused:
            nothing = meaning_of((refused.details or {}).get("reason", "")) is ReasonMeaning.MISSING
            if nothing or (number == 0 and refused.code == "NOVITA_REJECTED"):  # there may be no page 0
                return ListPage((), 0, None)
            raise
        if not body or (body.keys() & {key, "total"}) == {"total"}:
            body = {**body, key: []}  # some JSON encoders leave empty lists out
        found = entries(call, body, key, read)
        shown, total = len(body[key] or ()), integer(body.get("total"))
        return ListPage(found, shown, total if total is not None and total >= shown else None)

    def _entries(self, call: NovitaCall, read: Callable[[Any], T | None], within: float) -> tuple[T, ...]:
        return entries(call, self._attempts.make(call, within).body, "data", read)


def _show(machine_id: str) -> NovitaCall:
    query = {"instanceId": machine_id}
    return NovitaCall(f"show machine {machine_id}", "GET", "/gpu/instance", query, machine_id=machine_id)


def _end(action: str, machine_id: str, refused_before: bool) -> NovitaCall:
    """What is asked again does not wait for a slot: many such would take all workers."""
    slot_wait = REFUSED_SLOT_WAIT if refused_before else inf
    call = _act(action, machine_id)
    return replace(call, must_pass=True, refused_before=refused_before, slot_wait=slot_wait)


def _act(action: str, machine_id: str, *, repeat: Repeat = Repeat.FREELY) -> NovitaCall:
    return NovitaCall(
        f"{action} machine {machine_id}",
        "POST",
        f"/gpu/instance/{action}",
        body={"instanceId": machine_id},
        circuit="actions",
        repeat=repeat,
        machine_id=machine_id,
    )
