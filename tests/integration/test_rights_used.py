"""Every right of every role is used, and every setting that a function declares is read: one life of the
service in which each function does all that it does.

That nothing is done without a right, and no other setting read, is checked in every integration test.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from functions.shared.domain.instance.record import Instance
from functions.shared.domain.instance.status import Status
from functions.shared.domain.messages import StepMessage
from tests.infra.roles import Right
from tests.integration.conftest import Build
from tests.integration.dead_letters import handle_dead_letters, send
from tests.integration.harness import CONSUMERS, Harness
from tests.integration.rights import needs
from tests.integration.settings_read import declared
from tests.integration.stored_records import rewrite

# What the function itself never asks for, and why its role has it all the same.
_SOURCE = "Lambda takes messages from the queue with the function's role"
_STREAM = "Lambda reads the table's stream with the function's role"
_LOGS = "Lambda writes the function's log with the function's role"
NEVER_ASKED = {
    "sqs:ReceiveMessage": _SOURCE,
    "sqs:DeleteMessage": _SOURCE,
    "sqs:GetQueueAttributes": _SOURCE,
    "dynamodb:DescribeStream": _STREAM,
    "dynamodb:GetRecords": _STREAM,
    "dynamodb:GetShardIterator": _STREAM,
    "dynamodb:ListStreams": _STREAM,
    "logs:CreateLogStream": _LOGS,
    "logs:PutLogEvents": _LOGS,
}

# Who asks for it all the same.
ASKED = {("api", "sqs:GetQueueAttributes"), ("reconcile", "sqs:GetQueueAttributes")}

# What a function asks for in lives that are not lived here.
ELSEWHERE = {("monitor", "dynamodb:BatchGetItem"): "a recovery within budgets and caps, which it sums up"}

# Settings that the life below does not read, and why a function declares them all the same.
NOT_READ = {
    "service_name": "read where a function begins, by what the harness replaces",
    "metrics": "read where a function begins, by what the harness replaces",
    "log_level": "read where a function begins, by what the harness replaces",
    "jwt_scope_prefix": "read by the API with auth=jwt alone, see tests/unit/api/test_gateway_callers.py",
    "max_concurrent_jobs": "read by `startup` for slow applications alone, see test_hanging_applications.py",
}


def test_every_right_is_used_and_every_setting_read_or_has_its_reason(
    build: Build, roles: dict[str, frozenset[Right]]
) -> None:
    harness = build(RETRY_BASE_SECONDS="0", MAX_RETRY_ATTEMPTS="1", SHARE_LIST_FROM="1", DETAILS_TTL="5")
    harness.cold = lambda _: True  # each function finds everything out for itself
    # A machine is deleted while the key is new: that it is gone is believed once the key is proven.
    harness.costs_within = timedelta(minutes=6)

    _live_through(harness)

    assert harness.wire.rights
    used = harness.wire.rights.used
    unused = {
        (name, right)
        for name, role in roles.items()
        for right in role - used[name]
        if (right[0] not in NEVER_ASKED or (name, right[0]) in ASKED) and (name, right[0]) not in ELSEWHERE
    }
    assert unused == set()
    read = harness.wire.settings_read.by_function
    unread = {(name, one) for name, reads in declared().items() for one in reads - read[name]}
    assert {(name, one) for name, one in unread if one not in NOT_READ} == set()
    assert {one for _, one in unread} == NOT_READ.keys(), "a reason that is none any more"


def test_a_transaction_needs_the_rights_of_its_items_and_an_index_its_own() -> None:
    def of(operation: str, **params: Any) -> set[Right]:
        return set(needs("dynamodb", operation, params))

    items: list[dict[str, Any]] = [{"Put": {}}, {"Update": {}}, {"Delete": {}}, {"ConditionCheck": {}}]
    assert of("TransactWriteItems", TransactItems=items) == {
        (f"dynamodb:{kind}Item", "Table") for kind in ("Put", "Update", "Delete", "ConditionCheck")
    }
    assert of("Query", IndexName="due") == {("dynamodb:Query", "Table/index/due")}
    assert of("Query") == {("dynamodb:Query", "Table")}
    dead = "http://127.0.0.1:4566/000000000000/harness-0a-dead"
    assert set(needs("sqs", "SendMessageBatch", {"QueueUrl": dead})) == {("sqs:SendMessage", "QueuesDead")}


def _live_through(harness: Harness) -> None:
    harness.put_secret("novita", "a-new-key")  # which the first purchase has to prove
    hook = harness.simulator.inbox_url("told")
    harness.simulator.answer("told", {"status": 500, "times": 1}, {"status": 200})
    known = harness.create(name="known", webhookUrl=hook, healthCheck={})
    harness.settle()
    harness.run(600)  # the attempts that failed are made again
    harness.call("PUT", "/api/budgets/all", {"limitUsd": 1000, "period": "day", "action": "refuse"})
    _buy_unclearly(harness)
    harness.call("DELETE", "/api/budgets/all")
    _operate(harness, known)
    _read(harness, known)
    _send_to_the_wrong_queue(harness, known)
    _doubt_a_purchase(harness, known, "restart")
    _doubt_a_purchase(harness, known, "stop")
    _fail_for_good(harness, known)
    _lose_messages(harness, known)
    _leave_unused(harness)
    _change_the_key(harness)
    harness.settle()


def _leave_unused(harness: Harness) -> None:
    """A stop for idleness rests on the last use."""
    instance_id = harness.create(name="unused", limits={"idleStopAfter": "5m"})
    harness.settle()
    assert harness.record(instance_id).ended_by == "idle"


def _change_the_key(harness: Harness) -> None:
    """In the middle of a delete: the monitor is the first to doubt the new one, and a sweep proves it."""
    kept, brief = harness.create(name="kept"), harness.create(name="brief")
    harness.settle()
    harness.put_secret("novita", "a-third-key")
    assert harness.call("DELETE", f"/api/instances/{brief}")[0] == 202
    harness.settle()
    assert harness.record(kept).status is Status.RUNNING


def _buy_unclearly(harness: Harness) -> None:
    """The machine turns up when it has been running for a while."""
    harness.simulator.settings(listLagSeconds=45)
    harness.simulator.fault("status", "/gpu/instance/create", status=500, commit=True, times=1)
    harness.create(name="unclear")
    harness.settle()
    harness.simulator.settings(listLagSeconds=0)


def _operate(harness: Harness, instance_id: str) -> None:
    for what in ("stop", "start"):
        assert harness.call("POST", f"/api/instances/{instance_id}/{what}")[0] == 202
        harness.settle()
    doomed = harness.create(name="doomed")
    harness.settle()
    assert harness.call("DELETE", f"/api/instances/{doomed}")[0] == 202
    harness.settle()


def _read(harness: Harness, instance_id: str) -> None:
    _, answer = harness.call("GET", f"/api/webhooks/deliveries?instanceId={instance_id}")
    delivery = answer["deliveries"][0]["id"]
    harness.advance(700)  # what is cached is over
    for method, path in (
        ("GET", "/api/instances"),
        ("GET", "/api/instances?status=ready"),
        ("GET", f"/api/instances/{instance_id}/events"),
        ("GET", f"/api/webhooks/secret?url={harness.simulator.inbox_url('told')}"),
        ("POST", "/api/cache/cleanup"),
        ("POST", "/api/sync"),
        ("POST", f"/api/webhooks/deliveries/{delivery}/replay"),
    ):
        status, answer = harness.call(method, path)
        assert status < 300, (path, answer)


def _send_to_the_wrong_queue(harness: Harness, instance_id: str) -> None:
    """A message that comes to the wrong function is sent on to the right one."""
    waiting = harness.create(name="waiting")
    _hand(harness, waiting, "monitor", "startup")
    harness.deliver()
    _hand(harness, waiting, "create", "startup")
    harness.settle()
    _bring_up_unhealthy(harness, instance_id, "restart")
    _hand(harness, instance_id, "create", "monitor")
    harness.deliver()  # a round that is followed by another one
    harness.simulator.app(status=200)
    harness.settle()


def _bring_up_unhealthy(harness: Harness, instance_id: str, what: str) -> None:
    """Whose application is about to be asked, because somebody looked at it while it was coming up."""
    harness.simulator.app(status=502)
    assert harness.call("POST", f"/api/instances/{instance_id}/{what}")[0] == 202
    harness.deliver()
    harness.simulator.patch_instance(harness.record(instance_id).machine.id or "", status="running")
    harness.advance(11)
    assert harness.call("GET", f"/api/instances/{instance_id}")[1]["status"] == "health_checking"


def _hand(harness: Harness, instance_id: str, *queues: str) -> None:
    assert harness.record(instance_id).queue not in queues
    for queue in queues:
        assert harness.handle(queue, harness.as_received(queue, _message(harness, instance_id)))


def _message(harness: Harness, instance_id: str) -> str:
    record = harness.record(instance_id)
    return StepMessage(record.id, record.token, record.correlation_id).as_json()


def _doubt_a_purchase(harness: Harness, instance_id: str, meanwhile: str) -> None:
    """A purchase may turn out not to be settled whatever the instance is about to do."""
    assert harness.call("POST", f"/api/instances/{instance_id}/{meanwhile}")[0] == 202

    def doubt(record: Instance) -> Instance:
        return replace(record, purchases=replace(record.purchases, unsettled=True))

    rewrite(harness.wiring.table, instance_id, doubt)
    harness.settle()


def _fail_for_good(harness: Harness, instance_id: str) -> None:
    """Messages that no function can read end as dead letters, and one fails the instance it is about."""
    for queue in CONSUMERS:
        send(harness, queue, "none of ours")
    while harness.deliver():
        pass
    _bring_up_unhealthy(harness, instance_id, "start")
    assert handle_dead_letters(harness, harness.as_received("startup-dead", _message(harness, instance_id)))
    assert harness.record(instance_id).status == "failed"
    harness.settle()


def _lose_messages(harness: Harness, instance_id: str) -> None:
    """Nothing is delivered, so the sweep sends something to every queue."""
    _bring_up_unhealthy(harness, instance_id, "start")
    harness.simulator.app(status=200)
    harness.create(name="late")
    other = harness.create(name="other")
    harness.deliver_now(other)
    harness.announce()
    harness.advance(120)
    assert harness.call("GET", "/api/jobs/stats")[0] == 200
    harness.wire.has_messages.clear()

    harness.sweep()

    assert harness.wire.has_messages == set(CONSUMERS)
