"""Many machines watched through one list: how often it is read, what it can tell, and whom that concerns."""

import pytest

from functions.shared.domain.ids import machine_name
from functions.shared.domain.instance.machine import Endpoint, Machine
from functions.shared.domain.instance.record import Action, Instance
from functions.shared.domain.instance.sightings import is_news, last_action_at, list_suffices
from functions.shared.domain.instance.status import Status
from functions.shared.engine.shared_polling import PollingPace, changed_machines
from tests.unit.builders import HTTP, OWN, ago, new_instance, new_machine, new_operation, new_task

DEPLOYMENT = "abcd1234"
ID = "inst_01JGFJJZ00ABCDEFGHJKMNPQRS"
PACE = PollingPace(share_from=6, poll_seconds=30, list_ttl=5, look_seconds=2, calls_per_minute=100)


def ours(status: str, machine_id: str = OWN, instance_id: str = ID) -> Machine:
    return new_machine(status, machine_id, name=machine_name("test", DEPLOYMENT, instance_id, 1))


@pytest.mark.parametrize("limit", [10, 20, 60, 100, 1000])
def test_looks_take_less_than_30_percent_of_the_limit(limit: int) -> None:
    pace = PollingPace(6, poll_seconds=30, list_ttl=5, look_seconds=0.05, calls_per_minute=limit)

    looks = 60 // pace.apart + 1  # in any minute, ends included

    assert looks <= max(1, 0.3 * limit)


def test_looks_are_no_closer_than_asked_for_where_the_limit_has_more() -> None:
    assert PollingPace(6, 30, 5, look_seconds=2, calls_per_minute=10_000).apart == 2


def test_one_that_boots_may_use_a_list_as_old_as_its_last_step() -> None:
    """Looks tell it of what has changed since. Where there are none, it has to be newer."""
    assert PACE.list_age(FIRST_BOOT) == 30
    assert PACE.list_age(new_instance(Status.STOPPING)) == 5
    assert PollingPace(6, 30, 5, look_seconds=30, calls_per_minute=100).list_age(FIRST_BOOT) == 5


def test_the_last_action_on_the_very_machine_counts() -> None:
    task = new_task(Action.DELETE, "m-2", asked_at=ago(5))
    record = new_instance(Status.STARTING, acted_at=ago(50), tasks=(task,))

    assert last_action_at(record, OWN) == ago(50)
    assert last_action_at(record, "m-2") == ago(5)
    assert last_action_at(record, "m-3") == record.created_at


FIRST_BOOT = new_instance(Status.STARTING, endpoints=())
STARTED_AGAIN = new_instance(Status.STARTING, operation=new_operation(Action.START))
RESTARTED = new_instance(Status.STARTING, operation=new_operation(Action.RESTART))
UNSAID = (Endpoint(8188, "http", ""),)


@pytest.mark.parametrize(
    ("record", "machine", "enough"),
    [
        (FIRST_BOOT, new_machine("pulling", endpoints=()), True),
        (FIRST_BOOT, new_machine("running"), True),
        (FIRST_BOOT, new_machine("running", endpoints=UNSAID), False),
        (FIRST_BOOT, new_machine("running", endpoints=()), False),
        (new_instance(Status.STARTING, expects_endpoints=False), new_machine("running", endpoints=()), True),
        (FIRST_BOOT, new_machine("exited"), True),
        # A list that lags shows them running from before.
        (STARTED_AGAIN, new_machine("running"), False),
        (RESTARTED, new_machine("running"), False),
        (new_instance(Status.MIGRATING), new_machine("running"), False),
        (RESTARTED, new_machine("restarting"), True),
        (new_instance(Status.STOPPING), new_machine("running"), True),
        (new_instance(Status.STOPPING), new_machine("exited"), True),
        (FIRST_BOOT, new_machine("removed"), False),
        (new_instance(Status.DELETING, tasks=(new_task(),)), new_machine("removed"), False),
        (FIRST_BOOT, new_machine("running", "m-2", endpoints=()), True),
    ],
)
def test_what_a_list_can_tell(record: Instance, machine: Machine, enough: bool) -> None:
    assert list_suffices(record, machine) is enough


def test_news_are_changes_of_ours_and_nothing_else() -> None:
    other = "inst_01JGFJJZ00ZZZZZZZZZZZZZZZZ"
    before = {
        "1": ours("pulling", "1"),
        "2": ours("running", "2", other),
        "3": new_machine("pulling", "3", name="theirs"),
        "4": ours("creating", "4"),
    }
    after = {
        "1": ours("running", "1"),
        "2": ours("running", "2", other),
        "3": new_machine("running", "3", name="theirs"),
        "4": ours("pulling", "4"),
        "5": ours("running", "5", other),  # not there before
        "6": ours("toCreate", "6"),
    }

    assert [(id_, machine.id) for id_, machine in changed_machines(before, after, DEPLOYMENT)] == [
        (ID, "1"),
        (other, "5"),
    ]
    assert HTTP in after["1"].endpoints


BOOTING = new_instance(Status.STARTING, novita_status="pulling", endpoints=())
RUNS = new_instance(Status.STARTING, novita_status="running", endpoints=())


@pytest.mark.parametrize(
    ("record", "machine", "news"),
    [
        (BOOTING, new_machine("pulling", endpoints=()), False),
        (BOOTING, new_machine("creating", endpoints=()), False),  # still on its way
        (BOOTING, new_machine("running", endpoints=()), True),
        (BOOTING, new_machine("exited", endpoints=()), True),
        (BOOTING, new_machine("removed", endpoints=()), True),
        (BOOTING, new_machine("pulling", endpoints=(), error="pulling: no such image"), True),
        (RUNS, new_machine("running", endpoints=()), False),
        (RUNS, new_machine("running", endpoints=UNSAID), False),
        (RUNS, new_machine("running"), True),  # its addresses have become known
        (new_instance(Status.STARTING, novita_status="running"), new_machine("running"), False),
    ],
)
def test_what_a_step_would_learn(record: Instance, machine: Machine, news: bool) -> None:
    assert is_news(record, machine) is news
