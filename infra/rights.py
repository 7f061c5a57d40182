"""What each function may do, written out: actions on named resources, and nothing else.

And which items of the table it may not touch, whatever it may do to others.
"""

from aws_cdk import aws_iam as iam

from infra.edge import Edge
from infra.queues import Queues
from infra.secrets import Secrets
from infra.table import Table
from infra.topic import Topic

Rights = dict[str, list[iam.PolicyStatement]]

READS = "GetItem BatchGetItem Query ConditionCheckItem"
WRITES = "PutItem UpdateItem DeleteItem BatchWriteItem"

# Who may write items whose partition key is so; nobody else may, and API keys are a person's to make.
WRITTEN_BY = {
    "key#*": "",
    "budget#*": "api",
    "cap#*": "api create monitor startup reconcile dead_letters",  # with the records that they count
    # Written with an instance's record, and summed by the sweep.
    "costs#*": "api create monitor startup reconcile dead_letters",
    "switch#*": "api",  # an admin's, by which purchases are paused
    # The mark of our machines, made once by whoever needs it first; the others come after a purchase.
    "deployment": "api create reconcile",
}
READ_BY = {"key#*": "api"}
LISTED_KEYS = "keys"  # where the index `lookup` has all API keys; only a person lists them


def rights(table: Table, queues: Queues, topic: Topic, secrets: Secrets, edge: Edge | None) -> Rights:
    # A transaction needs the rights of the writes it is made of, and no right of its own.
    read_write = allow("dynamodb", "GetItem PutItem UpdateItem", table.arn)
    send_steps = send(queues, "create", "monitor", "startup")
    send_all = send(queues, "create", "monitor", "startup", "webhook")
    read_novita_key = allow("secretsmanager", "GetSecretValue", secrets.novita_arn)
    read_webhook_master = allow("secretsmanager", "GetSecretValue", secrets.webhook_arn)
    # Its purchases, who else is due, and whether there were machines before a Novita key that is new.
    read_purchases = query(table.arn, *table.index_arns("due", "fleet"))
    give_up = allow("sqs", "SendMessage", queues.dead.queue_arn)  # what failed for the last time
    count = allow("dynamodb", "BatchGetItem", table.arn)  # what is committed, where a cap is new
    steps = [read_write, count, read_purchases, send_steps, give_up, read_novita_key]

    given = {
        "api": [
            allow("dynamodb", "GetItem BatchGetItem PutItem UpdateItem DeleteItem", table.arn),
            query(table.arn, *table.index_arns("due", "listed", "status", "lookup", "fleet")),
            send_all,
            allow("sqs", "GetQueueAttributes", *queues.arns(*queues.work), queues.dead.queue_arn),
            read_novita_key,
            read_webhook_master,
            *([allow("secretsmanager", "GetSecretValue", edge.secret_arn)] if edge else []),
        ],
        "create": [*steps, consume(queues, "create")],
        "monitor": [*steps, _stops_the_unused(table), consume(queues, "monitor")],
        "startup": [read_write, send_steps, give_up, consume(queues, "startup")],
        "webhook": [
            allow("dynamodb", "GetItem UpdateItem", table.arn),
            send(queues, "webhook"),
            give_up,
            read_webhook_master,
            consume(queues, "webhook"),
        ],
        "reconcile": [
            read_write,
            allow("dynamodb", "BatchGetItem", table.arn),
            query(table.arn, *table.index_arns("due", "status", "fleet")),
            send_all,
            allow("sqs", "GetQueueAttributes", queues.dead.queue_arn),  # how many wait to be stored
            read_novita_key,
        ],
        "dead_letters": [
            read_write,
            send(queues, "monitor"),  # which gives back the machine of an instance that failed
            allow("sqs", "ReceiveMessage DeleteMessage GetQueueAttributes", queues.dead.queue_arn),
        ],
        "announce": [
            allow("dynamodb", "DescribeStream GetRecords GetShardIterator ListStreams", table.stream_arn),
            allow("dynamodb", "PutItem UpdateItem", table.arn),
            allow("sns", "Publish", topic.arn),
            send(queues, "webhook"),
        ],
    }
    return {function: [*allowed, *guard(function, table)] for function, allowed in given.items()}


def _stops_the_unused(table: Table) -> iam.PolicyStatement:
    """A stop for idleness holds only if nobody has noted a use since."""
    return allow("dynamodb", "ConditionCheckItem", table.arn)


def guard(function: str, table: Table) -> list[iam.PolicyStatement]:
    return [
        deny(WRITES, _not_for(function, WRITTEN_BY), table.arn),
        *(deny(READS, unread, table.arn) for unread in [_not_for(function, READ_BY)] if unread),
        deny("Query", [LISTED_KEYS], *table.index_arns("lookup")),
    ]


def _not_for(function: str, by: dict[str, str]) -> list[str]:
    return [keys for keys, functions in by.items() if function not in functions.split()]


def deny(actions: str, keys: list[str], *resources: str) -> iam.PolicyStatement:
    """Of a transaction or a batch, one such item is enough to refuse all of it."""
    return iam.PolicyStatement(
        effect=iam.Effect.DENY,
        actions=[f"dynamodb:{action}" for action in actions.split()],
        resources=list(resources),
        conditions={"ForAnyValue:StringLike": {"dynamodb:LeadingKeys": keys}},
    )


def allow(service: str, actions: str, *resources: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=[f"{service}:{action}" for action in actions.split()], resources=list(resources)
    )


def query(*resources: str) -> iam.PolicyStatement:
    return allow("dynamodb", "Query", *resources)


def send(queues: Queues, *names: str) -> iam.PolicyStatement:
    return allow("sqs", "SendMessage", *queues.arns(*names))


def consume(queues: Queues, name: str) -> iam.PolicyStatement:
    """What the event source needs, and setting the wait after a failure."""
    actions = "ReceiveMessage DeleteMessage GetQueueAttributes ChangeMessageVisibility"
    return allow("sqs", actions, *queues.arns(name))
