"""What needs a person: each alarm by the name that its chapter in docs/runbook.md has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.options import Options
from infra.stack import OstlerStack

NAMESPACE = "Ostler"

AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD

# What no data means: nothing happened; or nothing was measured, so the state stays; or that is the alarm.
FINE = cloudwatch.TreatMissingData.NOT_BREACHING
AS_BEFORE = cloudwatch.TreatMissingData.IGNORE
BAD = cloudwatch.TreatMissingData.BREACHING


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Raised when `of` of the last `among` periods reach the threshold."""

    name: str
    means: str
    metric: str
    namespace: str = NAMESPACE
    dimensions: Mapping[str, str] = field(default_factory=dict)  # beside the deployment's, of our own metrics
    statistic: str = "Sum"
    period: Duration = field(default_factory=lambda: Duration.minutes(5))
    threshold: float = 1
    compare: cloudwatch.ComparisonOperator = AT_LEAST
    of: int = 1
    among: int = 1
    missing: cloudwatch.TreatMissingData = FINE

    @property
    def chapter(self) -> str:
        return self.name.partition("-")[0]

    def raised_in(self, scope: Construct, options: Options) -> cloudwatch.Alarm:
        common = {"service": options.service} if self.namespace == NAMESPACE else {}
        metric = cloudwatch.Metric(
            namespace=self.namespace,
            metric_name=self.metric,
            dimensions_map={**common, **self.dimensions},
            statistic=self.statistic,
            period=self.period,
        )
        return cloudwatch.Alarm(
            scope,
            self.name,
            alarm_name=f"{options.name}-{self.name}",
            alarm_description=f"{self.means} See docs/runbook.md, {self.chapter}.",
            metric=metric,
            threshold=self.threshold,
            comparison_operator=self.compare,
            datapoints_to_alarm=self.of,
            evaluation_periods=self.among,
            treat_missing_data=self.missing,
        )


# What the functions measure themselves.
OURS = (
    Rule(
        name="DeadLetters",
        means="A message failed for the last time; its instance may have failed with it.",
        metric="DeadLetters",
    ),
    # Counted by the sweep, visible and in flight: one that cannot be stored is in flight most of the time, so
    # that AWS's own number of visible ones misses it, and SQS leaves what came three times out of the age.
    Rule(
        name="DeadLettersNotStored",
        means="Dead letters are not stored as records.",
        metric="DeadLettersNotStored",
        statistic="Maximum",
        of=3,
        among=3,
        missing=AS_BEFORE,
    ),
    # 10 of 15 minutes: between two openings there may be a moment in which nobody has asked yet.
    Rule(
        name="CircuitOpen",
        means="Calls to Novita have been refused here for ten minutes, since Novita fails.",
        metric="CircuitsOpen",
        statistic="Maximum",
        period=Duration.minutes(1),
        of=10,
        among=15,
        missing=AS_BEFORE,
    ),
    Rule(
        name="Orphans",
        means="A machine with our mark bills, and no record knows it.",
        metric="Orphans",
        statistic="Maximum",
        missing=AS_BEFORE,
    ),
    Rule(
        name="Missing",
        means="Novita does not find machines whose end nobody asked for.",
        metric="Missing",
        statistic="Maximum",
    ),
    Rule(
        name="CleanupStuck",
        means="Novita has refused for ten minutes to stop or delete a machine, which bills on.",
        metric="Stuck",
        statistic="Maximum",
    ),
    Rule(
        name="DeletionsHeld",
        means="So many orphans were to be deleted at once that none was.",
        metric="DeletionsHeld",
        statistic="Maximum",
    ),
    Rule(
        name="ReconcilerSilent",
        means="No sweep has ended for five minutes: lost messages stay lost.",
        metric="Sweeps",
        period=Duration.minutes(1),
        compare=BELOW,
        of=5,
        among=5,
        missing=BAD,
    ),
    # A sweep that cannot read the list ends well all the same, and most of the reasons raise no other alarm.
    Rule(
        name="NotCompared",
        means="Novita's list has not been compared with the records for a quarter of an hour.",
        metric="Compared",
        compare=BELOW,
        of=3,
        among=3,
        missing=BAD,
    ),
    # A sweep sends a new message for what is late every other minute: one minute alone may look fine.
    Rule(
        name="StepsLate",
        means="An instance's next step is a quarter of an hour late, although it was queued again and again.",
        metric="OldestOverdue",
        statistic="Maximum",
        threshold=900,
        of=2,
        among=2,
        missing=AS_BEFORE,
    ),
    # Now and then the stream's message is lost and the sweep makes it good; again and again, it does not.
    Rule(
        name="EventsLate",
        means="Events are stored and not announced: subscribers and webhooks do not hear of them.",
        metric="Overdue",
        dimensions={"kind": "events"},
        of=3,
        among=3,
    ),
    Rule(
        name="AccountRefused",
        means="Novita refuses our key, or there is no money left.",
        metric="AccountRefusals",
    ),
    Rule(
        name="ServerErrors",
        means="A request was answered with 500: a fault of this service.",
        metric="ServerErrors",
        dimensions={"status": "500"},
    ),
)


def of_aws(service: OstlerStack) -> Iterator[Rule]:
    """What AWS measures of the stack's resources."""
    yield Rule(
        name="GatewayErrors",
        means="Requests are answered with 5xx, by the gateway or by the function.",
        namespace="AWS/ApiGateway",
        metric="5xx",
        dimensions={"ApiId": service.api.id},
        threshold=5,
        of=2,
        among=3,
    )
    for name, queue in service.queues.work.items():
        # A message may be delayed by 15 minutes, and be hidden for 12 more by a crash.
        yield Rule(
            name=f"OldestMessage-{name}",
            means=f"Messages wait in the queue {name} for more than half an hour.",
            namespace="AWS/SQS",
            metric="ApproximateAgeOfOldestMessage",
            dimensions={"QueueName": queue.queue_name},
            statistic="Maximum",
            threshold=1800,
            of=2,
            among=2,
        )
    for name, function in service.functions.items():
        # One crash is made good by the next message or sweep; three in a quarter of an hour are no accident.
        yield Rule(
            name=f"FunctionErrors-{name}",
            means=f"The function {name} crashes or runs out of time.",
            namespace="AWS/Lambda",
            metric="Errors",
            dimensions={"FunctionName": function.function_name},
            period=Duration.minutes(15),
            threshold=3,
        )
    # Consumers that are throttled only wait; callers and the sweep do not.
    for name in ("api", "reconcile"):
        yield Rule(
            name=f"Throttles-{name}",
            means=f"Lambda refuses to run {name}: the account's concurrency is used up.",
            namespace="AWS/Lambda",
            metric="Throttles",
            dimensions={"FunctionName": service.functions[name].function_name},
            threshold=3,
        )
