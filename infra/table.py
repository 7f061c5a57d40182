"""The one table: every record, and the stream that events leave by."""

from typing import Any

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

TEXT = dynamodb.AttributeType.STRING
NUMBER = dynamodb.AttributeType.NUMBER

# name: (partition key, sort key, its type, what it carries beside the keys). An index cannot be changed once
# it has been deployed; docs/decisions.md says what each is for. None carries whole items: whoever finds
# something in one reads the item itself.
INDEXES: dict[str, tuple[str, str, dynamodb.AttributeType, tuple[str, ...]]] = {
    "due": ("due", "dueAt", NUMBER, ()),  # what is overdue
    "listed": ("listed", "id", TEXT, ()),  # everything of a kind, by time
    "status": ("statusKey", "id", TEXT, ()),  # everything of a kind in a status
    "lookup": ("lookup", "id", TEXT, ("statusKey", "fleet")),  # by name, by instance, of one kind
    "fleet": ("fleet", "id", TEXT, ("summary",)),  # what has or may have a machine, in shards
}

# Only events that nobody has announced yet; every other write would wake the function for nothing.
UNANNOUNCED = {
    "eventName": ["INSERT", "MODIFY"],
    "dynamodb": {"NewImage": {"kind": {"S": ["event"]}, "due": {"S": [{"exists": True}]}}},
}


class Table(Construct):
    def __init__(
        self, scope: Construct, construct_id: str, *, removal: RemovalPolicy, protected: bool
    ) -> None:
        super().__init__(scope, construct_id)
        self._table = dynamodb.Table(
            self,
            "Table",
            partition_key=_key("pk", TEXT),
            sort_key=_key("sk", TEXT),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            encryption=dynamodb.TableEncryption.AWS_MANAGED,
            time_to_live_attribute="expiresAt",
            stream=dynamodb.StreamViewType.NEW_IMAGE,
            removal_policy=removal,
            deletion_protection=protected,
        )
        for name, (partition, sort, sort_type, carried) in INDEXES.items():
            self._table.add_global_secondary_index(
                index_name=name,
                partition_key=_key(partition, TEXT),
                sort_key=_key(sort, sort_type),
                **_projection(carried),
            )
        self.name = self._table.table_name
        self.arn = self._table.table_arn
        self.stream_arn = str(self._table.table_stream_arn)

    def index_arns(self, *names: str) -> list[str]:
        return [f"{self.arn}/index/{name}" for name in names]

    def feed(self, announce: lambda_.IFunction) -> None:
        lambda_.EventSourceMapping(
            self,
            "Stream",
            target=announce,
            event_source_arn=self.stream_arn,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,
            filters=[lambda_.FilterCriteria.filter(UNANNOUNCED)],
            batch_size=25,
            # The function deals with a record that fails. These bound what is left, a crash: a shard must
            # not stand still for a day. An event that was given up is still due, so the sweep sends it.
            bisect_batch_on_error=True,
            retry_attempts=5,
        )


def _projection(carried: tuple[str, ...]) -> dict[str, Any]:
    if not carried:
        return {"projection_type": dynamodb.ProjectionType.KEYS_ONLY}
    return {"projection_type": dynamodb.ProjectionType.INCLUDE, "non_key_attributes": list(carried)}


def _key(name: str, kind: dynamodb.AttributeType) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=kind)
