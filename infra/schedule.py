"""The sweep, every minute."""

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from constructs import Construct


class Schedule(Construct):
    def __init__(self, scope: Construct, construct_id: str, *, reconcile: lambda_.Function) -> None:
        super().__init__(scope, construct_id)
        # A sweep that failed is not repeated: the next one is a minute away and does the same.
        reconcile.configure_async_invoke(retry_attempts=0, max_event_age=Duration.minutes(1))
        events.Rule(
            self,
            "EveryMinute",
            schedule=events.Schedule.rate(Duration.minutes(1)),
            targets=[targets.LambdaFunction(reconcile, retry_attempts=0, max_event_age=Duration.minutes(1))],
        )
