"""Each role allows exactly what its function does."""

import pytest

from tests.infra.principals import may
from tests.infra.roles import allowed
from tests.infra.template import NAMES, Template

ITEMS = ["GetItem", "PutItem", "UpdateItem"]
CONSUME = ["ReceiveMessage", "DeleteMessage", "GetQueueAttributes", "ChangeMessageVisibility"]
STEPS = ["Create", "Monitor", "Startup"]
EVERY_QUEUE = [*STEPS, "Webhook"]

# Wildcards that are needed, as (function, action, resource) with the reason. There are none.
NEEDED_WILDCARDS: dict[tuple[str, str, str], str] = {}


def on(service: str, actions: list[str], *resources: str) -> set[tuple[str, str]]:
    return {(f"{service}:{action}", resource) for action in actions for resource in resources}


def table(*actions: str) -> set[tuple[str, str]]:
    return on("dynamodb", list(actions), "Table")


def indexes(*names: str) -> set[tuple[str, str]]:
    return on("dynamodb", ["Query"], *(f"Table/index/{name}" for name in names))


def send(*queues: str) -> set[tuple[str, str]]:
    return on("sqs", ["SendMessage"], *(f"Queues{queue}" for queue in queues))


def consume(queue: str) -> set[tuple[str, str]]:
    return on("sqs", CONSUME, f"Queues{queue}")


def secret(name: str) -> set[tuple[str, str]]:
    return on("secretsmanager", ["GetSecretValue"], f"Secrets{name}")


def step(queue: str) -> set[tuple[str, str]]:
    sent = send(*STEPS, "Dead")
    return (
        table(*ITEMS, "Query", "BatchGetItem")
        | indexes("due", "fleet")
        | sent
        | secret("NovitaKey")
        | consume(queue)
    )


EXPECTED = {
    "api": table(*ITEMS, "Query", "BatchGetItem", "DeleteItem")
    | indexes("due", "listed", "status", "lookup", "fleet")
    | send(*EVERY_QUEUE)
    | on("sqs", ["GetQueueAttributes"], *(f"Queues{queue}" for queue in (*EVERY_QUEUE, "Dead")))
    | secret("NovitaKey")
    | secret("WebhookMaster"),
    "create": step("Create"),
    "monitor": step("Monitor") | table("ConditionCheckItem"),  # that nobody has used what it stops
    "startup": table(*ITEMS) | send(*STEPS, "Dead") | consume("Startup"),
    "webhook": table("GetItem", "UpdateItem")
    | send("Webhook", "Dead")
    | secret("WebhookMaster")
    | consume("Webhook"),
    "reconcile": table(*ITEMS, "BatchGetItem", "Query")
    | indexes("due", "status", "fleet")
    | send(*EVERY_QUEUE)
    | on("sqs", ["GetQueueAttributes"], "QueuesDead")
    | secret("NovitaKey"),
    "dead_letters": table(*ITEMS)
    | send("Monitor")
    | on("sqs", ["ReceiveMessage", "DeleteMessage", "GetQueueAttributes"], "QueuesDead"),
    "announce": on(
        "dynamodb", ["DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"], "Table.stream"
    )
    | table("PutItem", "UpdateItem")
    | on("sns", ["Publish"], "Topic")
    | send("Webhook"),
}


@pytest.mark.parametrize("name", NAMES)
def test_its_role_allows_this_and_nothing_else(template: Template, name: str) -> None:
    own_logs = on(
        "logs", ["CreateLogStream", "PutLogEvents"], f"Functions{name.title().replace('_', '')}Logs"
    )

    assert set(allowed(template, name)) == EXPECTED[name] | own_logs


@pytest.mark.parametrize("name", NAMES)
def test_no_wildcard_without_a_reason(template: Template, name: str) -> None:
    wildcards = {(name, *pair) for pair in allowed(template, name) if "*" in "".join(pair)}

    assert wildcards <= NEEDED_WILDCARDS.keys()


WRITES = ["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"]
READS = ["GetItem", "BatchGetItem", "Query"]
KEY = "key#0123abcd"


@pytest.mark.parametrize("name", NAMES)
def test_no_function_can_put_change_or_delete_an_api_key(template: Template, name: str) -> None:
    assert not any(may(template, name, f"dynamodb:{write}", KEY) for write in WRITES)
    assert not may(template, name, "dynamodb:PutItem", "inst_1", KEY), "nor among others, in a transaction"
    assert may(template, name, "dynamodb:UpdateItem", "inst_1"), "what it is there for goes on"


@pytest.mark.parametrize("name", NAMES)
def test_the_api_alone_can_read_an_api_key_and_nobody_lists_them(template: Template, name: str) -> None:
    reads = {read for read in READS if may(template, name, f"dynamodb:{read}", KEY)}
    listed = may(template, name, "dynamodb:Query", "keys", resource="Table/index/lookup")

    assert reads == ({*READS} if name == "api" else set())
    assert not listed


@pytest.mark.parametrize("name", NAMES)
def test_only_those_who_may_need_it_first_write_the_deployments_id(template: Template, name: str) -> None:
    writes = {write for write in WRITES if may(template, name, f"dynamodb:{write}", "deployment")}

    assert bool(writes) is (name in ("api", "create", "reconcile"))
    assert name == "announce" or may(template, name, "dynamodb:GetItem", "deployment")


@pytest.mark.parametrize("name", NAMES)
def test_only_the_api_writes_budgets(template: Template, name: str) -> None:
    writes = {write for write in WRITES if may(template, name, f"dynamodb:{write}", "budget#all")}

    assert bool(writes) is (name == "api")


@pytest.mark.parametrize("name", NAMES)
def test_only_who_stores_records_writes_what_they_cost(template: Template, name: str) -> None:
    writes = {write for write in WRITES if may(template, name, f"dynamodb:{write}", "costs#2026-01-31")}

    assert bool(writes) is (name not in ("webhook", "announce"))


def test_the_api_looks_other_things_up(template: Template) -> None:
    assert may(template, "api", "dynamodb:Query", "dead", resource="Table/index/lookup")


@pytest.mark.parametrize("name", NAMES)
def test_only_lambda_can_take_its_role(template: Template, name: str) -> None:
    (statement,) = template.role(name)["AssumeRolePolicyDocument"]["Statement"]

    assert statement["Principal"] == {"Service": "lambda.amazonaws.com"}


def test_no_rights_are_given_outside_the_roles(template: Template) -> None:
    assert len(template.all("AWS::IAM::Role")) == len(NAMES)
    assert not template.all("AWS::IAM::Policy")
    assert not template.all("AWS::IAM::ManagedPolicy")
