"""Circuits that all environments share, in the table: one item each, moved by conditional writes only."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

from functions.shared.domain import resilience as rules
from functions.shared.domain.errors import NotNow
from functions.shared.domain.ids import timestamp
from functions.shared.domain.resilience import (
    CallPermit,
    Circuit,
    CircuitEvent,
    CircuitPolicy,
    CircuitReport,
    CircuitState,
    Permit,
    ProbePermit,
)
from functions.shared.platform.observability import CIRCUITS_CLOSED, CIRCUITS_OPENED, logger, measure
from functions.shared.stores.table import TABLE_FAILED, Item, marshal, unmarshal

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


# A purchase that nobody can count or stop is worse than one that comes later.
NEEDS_THE_TABLE = frozenset({"buys"})

# Somebody moved the circuit since it was read: their state stands, and what we know is old.
SAME_EPOCH = "epoch = :epoch"
# Nothing has ever failed here, so there is no item; that is epoch 0 and no other.
NO_ITEM_YET = "attribute_not_exists(pk)"
# Nobody counted or tidied since: a failure that came in between must not be thrown away.
SAME_FAILURES = "size(failures) = :size"

# How many failures too old to count may lie about before one extra write tidies them away.
OLD_FAILURES_KEPT = 20

EVENT_RETENTION = timedelta(days=30)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class _Known:
    circuit: Circuit
    until: datetime


class Circuits:
    """Ask before each attempt and report its outcome: `succeeded`, `failed`, or `unused` if never sent.

    A report never raises for the table's sake: the call's own outcome matters more.
    """

    def __init__(
        self,
        client: "DynamoDBClient",
        table_name: str,
        policy: CircuitPolicy,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._table = table_name
        self._policy = policy
        self._clock = clock
        self._new_id = new_id
        self._jitter = jitter
        self._known: dict[str, _Known] = {}
        self._reading = Lock()

    def ask(self, name: str, *, must_pass: bool = False, may_probe: bool = True) -> Permit:
        """`must_pass`, for stop and delete: goes out whatever the circuit says, and moves nothing then.

        Without `may_probe`, for a caller in a hurry, an open circuit stays open for others to probe.
        """
        try:
            circuit = self._current(name)
            if must_pass:
                return CallPermit(name, circuit.epoch if circuit.state is CircuitState.CLOSED else None)
            return self._answer(circuit, may_probe)
        except TABLE_FAILED as error:
            self._table_failed(name, error)
            if name in NEEDS_THE_TABLE and not must_pass:
                raise NotNow(
                    "NOVITA_UNAVAILABLE",
                    "Nothing is bought while the state of Novita's circuit cannot be read",
                    retry_after=max(1.0, self._policy.cache_seconds),
                ) from error
            return CallPermit(name, None)

    def succeeded(self, permit: Permit) -> None:
        if isinstance(permit, ProbePermit):
            self._report(permit, rules.after_good_probe(permit.leased, self._clock(), self._policy))

    def failed(self, permit: Permit) -> None:
        now = self._clock()
        if isinstance(permit, ProbePermit):
            self._report(permit, rules.opened(permit.leased, now, self._policy, self._jitter()))
        elif isinstance(permit, CallPermit) and permit.epoch is not None:
            try:
                self._count(permit.circuit, permit.epoch, now)
            except TABLE_FAILED as error:
                self._table_failed(permit.circuit, error)

    def unused(self, permit: Permit) -> None:
        """Gives a probe back that was not sent: the next caller need not wait until its lease ends."""
        if isinstance(permit, ProbePermit):
            self._report(permit, rules.released(permit.leased))

    def is_open(self, name: str) -> bool:
        """As far as this process knows: for saying so, not for deciding about a call."""
        try:
            return self._current(name).state is not CircuitState.CLOSED
        except TABLE_FAILED as error:
            self._table_failed(name, error)
            return False

    def states(self) -> list[CircuitReport]:
        return [
            rules.circuit_report(self._read(name), self._clock(), self._policy)
            for name in rules.CIRCUIT_NAMES
        ]

    def _answer(self, circuit: Circuit, may_probe: bool) -> Permit:
        now = self._clock()
        if rules.is_tripped(circuit, now, self._policy):
            circuit = self._open(circuit, now)
        elif may_probe and rules.may_probe(circuit, now):
            wanted = rules.leased(circuit, self._new_id(), now, self._policy)
            circuit = self._move(circuit, wanted, now)
            # Also when an answer was lost and the repeated write met our own lease.
            if circuit.lease == wanted.lease:
                return ProbePermit(circuit)
        return rules.permit_without_probe(circuit, now, self._policy)

    def _report(self, permit: ProbePermit, after: Circuit) -> None:
        try:
            self._move(permit.leased, after, self._clock())
        except TABLE_FAILED as error:
            self._table_failed(permit.circuit, error)

    def _count(self, name: str, epoch: int, now: datetime) -> None:
        try:
            response = self._client.update_item(
                TableName=self._table,
                Key=marshal(_key(name)),
                UpdateExpression=(
                    "SET failures = list_append(if_not_exists(failures, :none), :failure), "
                    "epoch = if_not_exists(epoch, :epoch), "
                    "#state = if_not_exists(#state, :closed), kind = :kind"
                ),
                ConditionExpression=_unmoved(epoch),
                ExpressionAttributeNames={"#state": "state"},
                ExpressionAttributeValues=marshal(
                    {
                        ":none": [],
                        ":failure": [_millis(now)],
                        ":epoch": epoch,
                        ":closed": CircuitState.CLOSED,
                        ":kind": "circuit",
                    }
                ),
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            self._remember(_circuit(name, _winner(error)))
            return
        circuit = _circuit(name, unmarshal(response["Attributes"]))
        self._remember(circuit)
        if rules.is_tripped(circuit, now, self._policy):
            self._open(circuit, now)
        else:
            self._tidy(circuit, now)

    def _open(self, circuit: Circuit, now: datetime) -> Circuit:
        return self._move(circuit, rules.opened(circuit, now, self._policy, self._jitter()), now)

    def _tidy(self, circuit: Circuit, now: datetime) -> None:
        recent = rules.failures_within(circuit, now, self._policy)
        if len(circuit.failures) - len(recent) < OLD_FAILURES_KEPT:
            return
        try:
            self._client.update_item(
                TableName=self._table,
                Key=marshal(_key(circuit.name)),
                UpdateExpression="SET failures = :recent",
                ConditionExpression=f"{SAME_EPOCH} AND {SAME_FAILURES}",
                ExpressionAttributeValues=marshal(
                    {
                        ":recent": [_millis(at) for at in recent],
                        ":epoch": circuit.epoch,
                        ":size": len(circuit.failures),
                    }
                ),
            )
        except ClientError as error:
            _winner(error)

    def _move(self, before: Circuit, after: Circuit, now: datetime) -> Circuit:
        """The circuit as it now stands, whoever moved it."""
        event = rules.event_of(after, f"evt_{self._new_id()}", now)
        put = {
            "TableName": self._table,
            "Item": marshal(_item(after)),
            "ConditionExpression": _unmoved(before.epoch),
            "ExpressionAttributeValues": marshal({":epoch": before.epoch}),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            if event is None:
                self._client.put_item(**cast(Any, put))
            else:
                put_event = {"TableName": self._table, "Item": marshal(_event_item(event))}
                self._client.transact_write_items(TransactItems=cast(Any, [{"Put": put}, {"Put": put_event}]))
        except ClientError as error:
            if _is_conflict(error):  # whoever is writing this moment decides; the next call sees it
                self._known.pop(before.name, None)
                return before
            stands = _circuit(before.name, _winner(error))
            self._remember(stands)
            return stands
        self._remember(after)
        if event:
            measure(CIRCUITS_OPENED if after.state is CircuitState.OPEN else CIRCUITS_CLOSED, by=after.name)
        return after

    def _current(self, name: str) -> Circuit:
        if found := self._fresh(name):
            return found
        with self._reading:  # threads of one environment share one read
            if found := self._fresh(name):
                return found
            circuit = self._read(name)
            self._remember(circuit)
            return circuit

    def _fresh(self, name: str) -> Circuit | None:
        known = self._known.get(name)
        return known.circuit if known and self._clock() < known.until else None

    def _read(self, name: str) -> Circuit:
        response = self._client.get_item(TableName=self._table, Key=marshal(_key(name)), ConsistentRead=True)
        return _circuit(name, unmarshal(response.get("Item", {})))

    def _remember(self, circuit: Circuit) -> None:
        found = self._fresh(circuit.name)
        if found and found.epoch > circuit.epoch:  # a slower thread of this environment
            return
        until = self._clock() + timedelta(seconds=self._policy.cache_seconds)
        self._known[circuit.name] = _Known(circuit, until)

    def _table_failed(self, name: str, error: Exception) -> None:
        self._known.pop(name, None)
        logger.warning("circuit not read or written", extra={"circuit": name, "error": type(error).__name__})


def _unmoved(epoch: int) -> str:
    return f"{NO_ITEM_YET} OR {SAME_EPOCH}" if epoch == 0 else SAME_EPOCH


def _winner(error: ClientError) -> Item:
    """The item that stood against a condition; any other failure goes on its way."""
    response = cast(Item, error.response)
    if response["Error"]["Code"] == "ConditionalCheckFailedException":
        return unmarshal(response.get("Item", {}))
    for reason in response.get("CancellationReasons", []):
        if reason.get("Code") == "ConditionalCheckFailed":
            return unmarshal(reason.get("Item", {}))
    raise error


def _is_conflict(error: ClientError) -> bool:
    """Two writers met in one moment; a condition that failed besides is a clear answer and comes first."""
    reasons = cast(Item, error.response).get("CancellationReasons", [])
    codes = {reason.get("Code") for reason in reasons} | {error.response["Error"]["Code"]}
    met = codes & {"TransactionConflict", "TransactionConflictException"}
    return bool(met) and "ConditionalCheckFailed" not in codes


def _key(name: str) -> Item:
    return {"pk": f"circuit#{name}", "sk": "circuit"}


def _item(circuit: Circuit) -> Item:
    return {
        **_key(circuit.name),
        "kind": "circuit",
        "epoch": circuit.epoch,
        "state": circuit.state,
        "failures": [_millis(at) for at in circuit.failures],
        "openings": circuit.openings,
        "openUntil": circuit.open_until and _millis(circuit.open_until),
        "closedAt": circuit.closed_at and _millis(circuit.closed_at),
        "successes": circuit.successes,
        "lease": circuit.lease,
        "leaseUntil": circuit.lease_until and _millis(circuit.lease_until),
    }


def _circuit(name: str, item: Item) -> Circuit:
    if not item:
        return Circuit(name)
    return Circuit(
        name=name,
        epoch=item["epoch"],
        state=CircuitState(item["state"]),
        failures=tuple(_time(at) for at in item["failures"]),
        openings=item.get("openings", 0),
        open_until=_time(item["openUntil"]) if "openUntil" in item else None,
        closed_at=_time(item["closedAt"]) if "closedAt" in item else None,
        successes=item.get("successes", 0),
        lease=item.get("lease", ""),
        lease_until=_time(item["leaseUntil"]) if "leaseUntil" in item else None,
    )


def _event_item(event: CircuitEvent) -> Item:
    """Due until it has been announced, like every event."""
    return {
        "pk": f"circuit#{event.circuit}",
        "sk": f"event#{event.epoch:010}",
        "kind": "event",
        "id": event.id,
        "type": event.type,
        "timestamp": timestamp(event.timestamp),
        "epoch": event.epoch,
        "circuit": event.circuit,
        "state": event.state,
        "openUntil": event.open_until and timestamp(event.open_until),
        "due": "event",
        "dueAt": _millis(event.timestamp),
        "expiresAt": int((event.timestamp + EVENT_RETENTION).timestamp()),
    }


def _millis(at: datetime) -> int:
    # Upwards: an open circuit or a lease never ends early for those who read it back.
    return -((EPOCH - at) // timedelta(milliseconds=1))


def _time(millis: int) -> datetime:
    return EPOCH + timedelta(milliseconds=millis)
