from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from functions.shared.domain.errors import NotNow
from functions.shared.domain.resilience import (
    CallPermit,
    CircuitPolicy,
    CircuitState,
    ProbePermit,
    RefusedPermit,
)
from functions.shared.stores.circuits import Circuits
from functions.shared.stores.table import Table

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CONFLICT = ClientError(
    {
        "Error": {"Code": "TransactionCanceledException", "Message": ""},
        "CancellationReasons": [{"Code": "TransactionConflict"}, {"Code": "None"}],
    },
    "TransactWriteItems",
)
NOBODY = EndpointConnectionError(endpoint_url="http://127.0.0.1:9")


class Client:
    """The real client, counted, with faults to be set: an error instead of a call."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.calls: Counter[str] = Counter()
        self.faults: dict[str, Exception] = {}
        self.twice = False  # an answer is lost, and the SDK sends the request again
        self.before: Callable[..., None] = lambda *_: None
        self.after: Callable[..., None] = lambda *_: None

    def __getattr__(self, name: str) -> Any:
        def call(**arguments: Any) -> Any:
            self.calls[name] += 1
            if fault := self.faults.get(name) or self.faults.get("*"):
                raise fault
            if self.twice and name == "put_item":
                self._client.put_item(**arguments)
            self.before(name, arguments)
            answer = getattr(self._client, name)(**arguments)
            self.after(name)
            return answer

        return call

    @property
    def writes(self) -> int:
        return self.calls.total() - self.calls["get_item"]


class Harness:
    def __init__(self, table: Table) -> None:
        self.table = table
        self.now = NOW
        self._ids = count(1)

    def environment(self, policy: CircuitPolicy | None = None) -> tuple[Circuits, Client]:
        client: Any = Client(self.table.client)
        new_id = lambda: f"{next(self._ids):026}"  # noqa: E731  # one line says it
        made = Circuits(
            client, self.table.name, policy or CircuitPolicy(), lambda: self.now, new_id, lambda: 0.5
        )
        return made, client

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def told(self, name: str) -> list[str]:
        return [item["type"] for item in self.items(name) if item["kind"] == "event"]

    def items(self, name: str) -> list[dict[str, Any]]:
        return self.table.query_all("pk = :pk", {":pk": f"circuit#{name}"})


@pytest.fixture
def harness(table: Table) -> Harness:
    return Harness(table)


def fail(circuits: Circuits, name: str = "reads", times: int = 5) -> None:
    for _ in range(times):
        circuits.failed(circuits.ask(name))


def test_failures_of_different_environments_add_up(harness: Harness) -> None:
    environments = [harness.environment()[0] for _ in range(5)]
    permits = [one.ask("reads") for one in environments]

    for one, permit in zip(environments, permits, strict=True):
        one.failed(permit)

    assert harness.told("reads") == ["circuit.opened"]
    assert environments[4].ask("reads") == RefusedPermit("reads", 60)


def test_a_failure_costs_one_write_and_a_success_none(harness: Harness) -> None:
    circuits, client = harness.environment()

    fail(circuits, times=4)
    circuits.succeeded(circuits.ask("reads"))

    assert client.writes == 4
    assert client.calls["get_item"] == 1


def test_opening_is_told_in_the_same_transaction(harness: Harness) -> None:
    circuits, _ = harness.environment()

    fail(circuits, "buys")

    circuit, event = harness.items("buys")
    assert (circuit["state"], circuit["epoch"], circuit["openings"]) == ("OPEN", 1, 1)
    assert event == {
        "pk": "circuit#buys",
        "sk": "event#0000000001",
        "kind": "event",
        "id": event["id"],
        "type": "circuit.opened",
        "timestamp": "2030-01-01T00:00:00.000Z",
        "epoch": 1,
        "circuit": "buys",
        "state": "OPEN",
        "openUntil": "2030-01-01T00:01:00.000Z",
        "due": "event",
        "dueAt": int(NOW.timestamp() * 1000),
        "expiresAt": int(NOW.timestamp()) + 30 * 86400,
    }
    assert event["id"].startswith("evt_")


def test_two_good_probes_close_it_and_the_closing_is_told(harness: Harness) -> None:
    circuits, _ = harness.environment()
    fail(circuits)
    harness.pass_time(60)

    probes = 0
    while isinstance(permit := circuits.ask("reads"), ProbePermit):
        circuits.succeeded(permit)
        probes += 1

    assert isinstance(permit, CallPermit)
    assert probes == 2
    assert harness.told("reads") == ["circuit.opened", "circuit.closed"]


def test_failing_buys_do_not_stop_reads_or_actions(harness: Harness) -> None:
    circuits, _ = harness.environment()

    fail(circuits, "buys")

    assert isinstance(circuits.ask("buys"), RefusedPermit)
    assert isinstance(circuits.ask("reads"), CallPermit)
    assert isinstance(circuits.ask("actions"), CallPermit)


@pytest.mark.parametrize("seconds", [0, 60])
def test_stop_and_delete_pass_an_open_circuit_and_move_nothing(harness: Harness, seconds: float) -> None:
    circuits, client = harness.environment()
    fail(circuits, "actions")
    before, writes = harness.items("actions"), client.writes
    harness.pass_time(seconds)

    for outcome in (circuits.failed, circuits.succeeded, circuits.unused):
        permit = circuits.ask("actions", must_pass=True)
        assert permit == CallPermit("actions", None)
        outcome(permit)

    assert harness.items("actions") == before
    assert client.writes == writes


def test_only_one_of_many_probes_and_the_others_are_told_to_wait(harness: Harness) -> None:
    circuits, _ = harness.environment()
    other, _ = harness.environment()
    fail(circuits)
    assert isinstance(other.ask("reads"), RefusedPermit)
    harness.pass_time(60)

    assert isinstance(other.ask("reads"), ProbePermit)
    assert circuits.ask("reads") == RefusedPermit("reads", 5)


def test_a_probe_that_was_not_sent_is_given_back(harness: Harness) -> None:
    circuits, _ = harness.environment()
    fail(circuits)
    harness.pass_time(60)

    circuits.unused(circuits.ask("reads"))

    assert isinstance(circuits.ask("reads"), ProbePermit)


def test_who_may_not_probe_takes_no_lease_from_those_who_may(harness: Harness) -> None:
    circuits, client = harness.environment()
    fail(circuits)
    harness.pass_time(60)
    written = client.writes

    refused = circuits.ask("reads", may_probe=False)

    assert refused == RefusedPermit("reads", 5)
    assert client.writes == written
    assert isinstance(circuits.ask("reads"), ProbePermit)


def test_a_probe_whose_answer_was_lost_is_still_ours(harness: Harness) -> None:
    circuits, client = harness.environment()
    fail(circuits)
    harness.pass_time(60)
    client.twice = True

    permit = circuits.ask("reads")

    assert isinstance(permit, ProbePermit)
    assert permit.leased.epoch == 2


def test_a_failure_of_an_older_epoch_is_not_counted_and_teaches_the_newer(harness: Harness) -> None:
    circuits, _ = harness.environment()
    late, _ = harness.environment()
    permit = late.ask("reads")
    fail(circuits)

    late.failed(permit)

    assert late.ask("reads") == RefusedPermit("reads", 60)
    assert len(harness.items("reads")[0]["failures"]) == 5


def test_whoever_asks_next_opens_what_a_crashed_environment_left_tripped(harness: Harness) -> None:
    crashing, client = harness.environment()
    other, _ = harness.environment()
    client.faults["transact_write_items"] = NOBODY
    fail(crashing)

    permit = other.ask("reads")

    assert isinstance(permit, RefusedPermit)
    assert harness.told("reads") == ["circuit.opened"]
    assert harness.items("reads")[0]["state"] == "OPEN"


def test_an_environment_that_meets_another_writer_stops_all_the_same(harness: Harness) -> None:
    circuits, client = harness.environment()
    client.faults["transact_write_items"] = CONFLICT

    fail(circuits)

    assert isinstance(circuits.ask("reads"), RefusedPermit)


def test_without_the_table_all_but_a_purchase_goes_out(harness: Harness) -> None:
    circuits, client = harness.environment()
    client.faults["*"] = NOBODY

    assert circuits.ask("reads") == CallPermit("reads", None)
    assert circuits.ask("actions", must_pass=True) == CallPermit("actions", None)
    with pytest.raises(NotNow) as refusal:
        circuits.ask("buys")
    assert refusal.value.code == "NOVITA_UNAVAILABLE"


def test_a_report_survives_a_table_that_fails_and_makes_the_next_call_read(harness: Harness) -> None:
    circuits, client = harness.environment()
    permit = circuits.ask("reads")
    client.faults["*"] = CONFLICT

    circuits.failed(permit)

    client.faults.clear()
    circuits.ask("reads")
    assert client.calls["get_item"] == 2


def test_old_failures_are_tidied_away(harness: Harness) -> None:
    circuits, client = harness.environment()

    for _ in range(45):
        fail(circuits, times=1)
        harness.pass_time(31)

    assert len(harness.items("reads")[0]["failures"]) <= 21
    assert client.writes <= 45 + 2


def test_a_failure_that_comes_in_while_old_ones_are_tidied_away_is_kept(harness: Harness) -> None:
    circuits, client = harness.environment()
    other, _ = harness.environment()
    for _ in range(20):
        fail(circuits, times=1)
        harness.pass_time(31)

    def come_in_between(_: str, arguments: Any) -> None:
        if arguments.get("UpdateExpression") == "SET failures = :recent":
            fail(other, times=1)

    client.before = come_in_between
    fail(circuits, times=1)

    assert circuits.states()[0].failures == 2


def test_a_slow_read_does_not_hide_what_another_thread_has_learned(harness: Harness) -> None:
    circuits, client = harness.environment()
    permits = [circuits.ask("reads") for _ in range(5)]
    harness.pass_time(5)

    def open_meanwhile(name: str) -> None:
        if name == "get_item":
            client.after = lambda *_: None
            for permit in permits:
                circuits.failed(permit)

    client.after = open_meanwhile
    circuits.ask("reads")

    assert isinstance(circuits.ask("reads"), RefusedPermit)


def test_a_circuit_that_was_deleted_by_hand_starts_anew(harness: Harness) -> None:
    circuits, _ = harness.environment()
    fail(circuits)
    harness.table.delete("circuit#reads", "circuit")
    harness.pass_time(5)

    assert circuits.ask("reads") == CallPermit("reads", 0)


def test_states_tell_each_circuit(harness: Harness) -> None:
    circuits, _ = harness.environment()
    fail(circuits, "buys")
    fail(circuits, "reads", times=2)

    reads, buys, actions = circuits.states()

    assert (reads.state, reads.failures, reads.epoch) == (CircuitState.CLOSED, 2, 0)
    assert (buys.state, buys.open_until, buys.openings) == (CircuitState.OPEN, NOW + timedelta(seconds=60), 1)
    assert (actions.name, actions.state, actions.failures) == ("actions", CircuitState.CLOSED, 0)


def test_an_open_time_is_never_read_back_shorter(harness: Harness) -> None:
    circuits, _ = harness.environment(CircuitPolicy(recovery_timeout=0.1234567))

    fail(circuits)

    assert circuits.states()[0].open_until == NOW + timedelta(milliseconds=124)
