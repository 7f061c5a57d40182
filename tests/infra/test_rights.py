"""Each role allows exactly what its function does."""

import pytest

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
    return table(*ITEMS, "Query") | indexes("due") | send(*STEPS) | secret("NovitaKey") | consume(queue)


EXPECTED = {
    "api": table(*ITEMS, "Query", "BatchGetItem", "DeleteItem")
    | indexes("due", "listed", "status", "lookup")
    | send(*EVERY_QUEUE)
    | on(
        "sqs",
        ["GetQueueAttributes"],
        *(f"Queues{queue}{end}" for queue in EVERY_QUEUE for end in ("", "Dead")),
    )
    | secret("NovitaKey")
    | secret("WebhookMaster"),
    "create": step("Create"),
    "monitor": step("Monitor"),
    "startup": table(*ITEMS) | send(*STEPS) | consume("Startup"),
    "webhook": table(*ITEMS) | send("Webhook") | secret("WebhookMaster") | consume("Webhook"),
    "reconcile": table(*ITEMS) | indexes("due", "status") | send(*EVERY_QUEUE) | secret("NovitaKey"),
    "dead_letters": table(*ITEMS)
    | send("Monitor")
    | on(
        "sqs",
        ["ReceiveMessage", "DeleteMessage", "GetQueueAttributes"],
        *(f"Queues{queue}Dead" for queue in EVERY_QUEUE),
    ),
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


@pytest.mark.parametrize("name", NAMES)
def test_only_lambda_can_take_its_role(template: Template, name: str) -> None:
    (statement,) = template.role(name)["AssumeRolePolicyDocument"]["Statement"]

    assert statement["Principal"] == {"Service": "lambda.amazonaws.com"}


def test_no_rights_are_given_outside_the_roles(template: Template) -> None:
    assert len(template.all("AWS::IAM::Role")) == len(NAMES)
    assert not template.all("AWS::IAM::Policy")
    assert not template.all("AWS::IAM::ManagedPolicy")
