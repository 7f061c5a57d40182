"""Parameters that many routes take."""

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Header, Path

InstanceId = Annotated[str, Path(description="inst_ and a ULID", max_length=64)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="The same key and body get the first answer again, for 24 hours",
    ),
]
