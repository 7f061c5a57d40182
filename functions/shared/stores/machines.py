"""Machines beside their records: the deployment's mark, orphans that carry it, whether the Novita key is that
of their account, whether any are bought at all, how long boots took, and until when looks are planned."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.shared.domain.errors import Conflict, Fault
from functions.shared.domain.ids import new_deployment_id, timestamp
from functions.shared.domain.instance.boot_times import BOOT_TIMES_KEPT, BootEstimate, BootTime, estimate_from
from functions.shared.domain.instance.comparison import MarkedMachine
from functions.shared.domain.instance.progress import PURCHASES_PAUSED
from functions.shared.domain.instance.record import Instance, Refusal
from functions.shared.platform.observability import logger
from functions.shared.stores.table import (
    NEW,
    RETENTION,
    TABLE_FAILED,
    ConditionFailed,
    Item,
    Table,
    Write,
    millis,
    moment,
)


class DeploymentId:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._id: str | None = None

    def id(self) -> str:
        if self._id is None:
            item = {"pk": "deployment", "sk": "deployment", "kind": "deployment", "id": new_deployment_id()}
            self._id = str(self._table.made_once(item)["id"])
        return self._id


@dataclass(frozen=True)
class KnownOrphan:
    first_seen: datetime
    refusal: Refusal | None = None  # of its delete, which its policy asked for


class Orphans:
    def __init__(self, table: Table, new_id: Callable[[], str]) -> None:
        self._table = table
        self._new_id = new_id

    def known(self, machine_id: str) -> KnownOrphan | None:
        item = self._table.get(f"orphan#{machine_id}", "orphan")
        if item is None:
            return None
        refused = item.get("refused")
        refusal = refused and Refusal(
            moment(refused["since"]), refused["count"], moment(refused["againAt"]), refused["announced"]
        )
        return KnownOrphan(moment(item["firstSeen"]), refusal or None)

    def announce(self, marked: MarkedMachine, now: datetime) -> bool:
        """Seen for the first time, with an event in the same write; False if another sweep was quicker."""
        event = self._event(1, "orphan.detected", marked, now)
        try:
            self._table.transact([Write(_orphan(marked, KnownOrphan(now)), NEW), Write(event, NEW)])
        except ConditionFailed:
            return False
        return True

    def refused(self, marked: MarkedMachine, known: KnownOrphan, fault: Fault, now: datetime) -> None:
        """Novita would not delete it; what is stuck is told once."""
        writes = [Write(_orphan(marked, known))]
        if known.refusal and known.refusal.announced:
            writes.append(Write(self._event(2, "cleanup.stuck", marked, now, reason=fault.code), NEW))
        try:
            self._table.transact(writes)
        except ConditionFailed:  # that has been told
            self._table.put(writes[0])

    def _event(self, number: int, kind: str, marked: MarkedMachine, now: datetime, **more: str) -> Item:
        return {
            "pk": _orphan_key(marked),
            "sk": f"event#{number:010d}",
            "kind": "event",
            "id": self._new_id(),
            "type": kind,
            "timestamp": timestamp(now),
            "data": {
                "novitaInstanceId": marked.machine.id,
                "name": marked.machine.name,
                "status": marked.machine.status,
                "instanceId": marked.mark.instance_id,
                **more,
            },
            "due": "event",
            "dueAt": millis(now),
            "expiresAt": int((now + RETENTION).timestamp()),
        }


def _orphan_key(marked: MarkedMachine) -> str:
    return f"orphan#{marked.machine.id}"


def _orphan(marked: MarkedMachine, known: KnownOrphan) -> Item:
    refusal = known.refusal
    return {
        "pk": _orphan_key(marked),
        "sk": "orphan",
        "kind": "orphan",
        "firstSeen": millis(known.first_seen),
        "refused": refusal
        and {
            "since": millis(refusal.since),
            "count": refusal.count,
            "againAt": millis(refusal.again_at),
            "announced": refusal.announced,
        },
    }


# Nobody has proven it yet: the first reason stands.
_UNPROVEN = "attribute_not_exists(provenAt)"
_ASK_AGAIN = timedelta(seconds=30)  # an unproven key is proven by a sweep: until then the table is spared


class KeyTrust:
    """Whether the Novita key is our account's. Another account's key finds none of our machines, and they
    live all the same. A version of the secret is proven when it shows a machine that was ours before it was
    first used, at once where there is none, or by an admin's word."""

    def __init__(
        self,
        table: Table,
        version: Callable[[], str],
        had_machines: Callable[[datetime], bool],
        clock: Callable[[], datetime],
    ) -> None:
        self._table = table
        self._version = version
        self._had_machines = had_machines
        self._clock = clock
        self._known: set[str] = set()
        self._asked: dict[str, datetime] = {}  # unproven ones, and when the table said so

    def believes(self, version: str) -> bool:
        """Whether what a key of that version does not find counts. An unreadable table proves nothing."""
        now = self._clock()
        if version in self._asked and now - self._asked[version] < _ASK_AGAIN:
            return False
        try:
            proven = self._is_proven(version)
        except TABLE_FAILED as error:
            logger.warning("trust in the novita key not read", error=type(error).__name__)
            return False
        if not proven:
            self._asked[version] = now
        return proven

    def proven(self) -> bool:
        """Of the key that this process uses."""
        return self._is_proven(self._version())

    def _is_proven(self, version: str) -> bool:
        """Here and now, where there is nothing that it could show."""
        if version in self._known:
            return True
        first_used_at = self._first_used_at(version, self._clock())
        if first_used_at is not None and not self._had_machines(first_used_at):
            self._prove(version, "no machine before it")
        return version in self._known

    def showed(self, records: Iterable[Instance]) -> None:
        """The list that this process's key shows has their machines."""
        ours_since = min((one.machine.bought_at or one.created_at for one in records), default=None)
        version = self._version()
        first_used_at = self._first_used_at(version, self._clock())
        if first_used_at and ours_since and ours_since < first_used_at:
            self._prove(version, "it shows a machine from before it")

    def trust(self, actor: str) -> None:
        version = self._version()
        if self._first_used_at(version, self._clock()):
            self._prove(version, f"the word of {actor}")

    def _first_used_at(self, version: str, now: datetime) -> datetime | None:
        """None where it is proven already."""
        item = self._table.get(f"novita-key#{version}", "key")
        if item is None:
            made = {"pk": f"novita-key#{version}", "sk": "key", "kind": "key", "firstUsedAt": millis(now)}
            try:
                self._table.put(Write(made, NEW))
            except ConditionFailed:
                return self._first_used_at(version, now)
            return now
        if "provenAt" in item:
            self._known.add(version)
            return None
        return moment(item["firstUsedAt"])

    def _prove(self, version: str, because: str) -> None:
        values = {":now": millis(self._clock()), ":because": because}
        changes = "SET provenAt = :now, because = :because"
        try:
            self._table.update(f"novita-key#{version}", "key", changes, condition=_UNPROVEN, values=values)
        except ConditionFailed:
            pass  # by somebody else
        else:
            logger.info("novita key proven", because=because)
        self._known.add(version)


_SWITCH = ("switch#purchases", "switch")
_HELD = timedelta(seconds=5)  # by a process, for those who need not know to the second
# Nobody has turned it since it was read.
_UNTURNED = "attribute_not_exists(pk) OR epoch = :epoch"
_TRIES = 3


@dataclass(frozen=True)
class SwitchState:
    paused: bool = False
    by: str = ""
    at: datetime | None = None
    epoch: int = 0  # raised each time that it is turned


class PurchaseSwitch:
    """Paused by an admin: no purchase, start or restart begins, and whatever ends or looks at machines goes
    on. What was accepted before waits."""

    def __init__(self, table: Table, clock: Callable[[], datetime], new_id: Callable[[], str]) -> None:
        self._table = table
        self._clock = clock
        self._new_id = new_id
        self._held: tuple[datetime, bool] | None = None

    def read(self) -> SwitchState:
        """As it is now."""
        item = self._table.get(*_SWITCH)
        found = (
            SwitchState(item["paused"], item["actor"], moment(item["at"]), item["epoch"])
            if item
            else SwitchState()
        )
        self._held = (self._clock(), found.paused)
        return found

    def is_paused(self) -> bool:
        """At most 5 s ago: for refusing early. Whoever is about to buy or start reads it."""
        if self._held and self._clock() - self._held[0] < _HELD:
            return self._held[1]
        return self.read().paused

    def require_on(self) -> None:
        """For whoever asks for a purchase or a start."""
        if self.is_paused():
            raise Conflict(PURCHASES_PAUSED.code, f"{PURCHASES_PAUSED.message}; ask again when resumed")

    def turn(self, *, paused: bool, actor: str) -> SwitchState:
        """With an event in the same write; whoever finds it so already changes nothing."""
        for _ in range(_TRIES):
            before = self.read()
            if before.paused is paused:
                return before
            after = SwitchState(paused, actor, self._clock(), before.epoch + 1)
            try:
                self._table.transact(self._writes(after, before.epoch))
            except ConditionFailed:
                continue  # by another, or by this very write, whose answer was lost: read again
            logger.warning("purchases paused" if paused else "purchases resumed", actor=actor)
            return self.read()
        return self.read()

    def _writes(self, after: SwitchState, epoch: int) -> list[Write]:
        now = after.at or self._clock()
        item = {
            "pk": _SWITCH[0],
            "sk": _SWITCH[1],
            "kind": "switch",
            "paused": after.paused,
            "actor": after.by,
            "at": millis(now),
            "epoch": after.epoch,
        }
        event = {
            "pk": "purchases",  # beside the switch, which those who announce events may not write
            "sk": f"event#{after.epoch:010d}",
            "kind": "event",
            "id": self._new_id(),
            "type": "purchases.paused" if after.paused else "purchases.resumed",
            "timestamp": timestamp(now),
            "data": {"actor": after.by},
            "due": "event",
            "dueAt": millis(now),
            "expiresAt": int((now + RETENTION).timestamp()),
        }
        return [Write(item, _UNTURNED, {":epoch": epoch}), Write(event, NEW)]


_ADD = "SET samples = list_append(if_not_exists(samples, :none), :one), kind = :kind, expiresAt = :expiresAt"
_TRIM = "SET samples = :last"
# Nobody has added one meanwhile: theirs must not be thrown away.
_SAME = "size(samples) = :size"


class BootTimes:
    """Nice to have: if the table fails, there is no estimate, and nothing else fails."""

    def __init__(self, table: Table, clock: Callable[[], datetime]) -> None:
        self._table = table
        self._clock = clock

    def expected(self, kind: str, product_id: str | None, region: str | None) -> BootEstimate | None:
        if not product_id:
            return None
        try:
            item = self._table.get(_boot_times_pk(kind, product_id, region or ""), "boots")
        except TABLE_FAILED as error:
            logger.warning("boot times not read", error=type(error).__name__)
            return None
        return estimate_from([sample / 1000 for sample in item["samples"]]) if item else None

    def learn(self, boot_time: BootTime) -> None:
        pk = _boot_times_pk(boot_time.kind, boot_time.product_id, boot_time.region)
        values = {
            ":none": [],
            ":one": [round(boot_time.seconds * 1000)],
            ":kind": "boots",
            ":expiresAt": int((self._clock() + RETENTION).timestamp()),
        }
        try:
            samples = self._table.update(pk, "boots", _ADD, values=values)["samples"]
            if len(samples) > 2 * BOOT_TIMES_KEPT:
                self._trim(pk, samples)
        except TABLE_FAILED as error:
            logger.warning("boot time not kept", error=type(error).__name__)

    def _trim(self, pk: str, samples: list[int]) -> None:
        values = {":last": samples[-BOOT_TIMES_KEPT:], ":size": len(samples)}
        try:
            self._table.update(pk, "boots", _TRIM, condition=_SAME, values=values)
        except ConditionFailed:
            return  # whoever added one trims


def _boot_times_pk(kind: str, product_id: str, region: str) -> str:
    return f"boots#{kind}#{product_id}#{region}"


_LOOKS = "looks", "planned"
_PLAN_KEPT = timedelta(days=1)
# Nobody has planned further than we know.
_AS_KNOWN = "attribute_not_exists(pk) OR plannedUntil <= :known"


class PlannedLooks:
    """Until when there are looks between the steps of those that boot: each moment is planned once."""

    def __init__(self, table: Table, clock: Callable[[], datetime]) -> None:
        self._table = table
        self._clock = clock
        self._until = moment(0)

    def until(self, least: datetime) -> datetime | None:
        """As far as this process knows, if that is far enough, or as it is stored. None where nobody can
        tell: then no look is planned."""
        if self._until < least:
            try:
                item = self._table.get(*_LOOKS)
            except TABLE_FAILED as error:
                logger.warning("planned looks not read", error=type(error).__name__)
                return None
            self._until = max(self._until, moment(item["plannedUntil"] if item else 0))
        return self._until

    def extend(self, until: datetime) -> bool:
        """Whether the time from what was known is this process's to plan."""
        pk, sk = _LOOKS
        item = {
            "pk": pk,
            "sk": sk,
            "kind": "lease",
            "plannedUntil": millis(until),
            "expiresAt": int((self._clock() + _PLAN_KEPT).timestamp()),
        }
        try:
            self._table.put(Write(item, _AS_KNOWN, {":known": millis(self._until)}))
        except ConditionFailed:
            return False
        except TABLE_FAILED as error:
            logger.warning("looks not planned", error=type(error).__name__)
            return False
        self._until = until
        return True
