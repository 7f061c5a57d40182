"""What needs a person: each alarm by the name that its chapter in docs/runbook.md has.

There is one for each effect, and none for its causes: a function that crashes, or that Lambda refuses to run,
shows as late steps (create, monitor, startup), late webhooks or events, dead letters that are not stored, a
silent reconciler, or errors at the gateway.
"""

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

# What no data means: nothing happened, since a number of 0 is not written; or that is the alarm. CloudWatch
# first looks further back for data, some two periods: so much longer an alarm may last, and so much later one
# comes that is about there being no data.
FINE = cloudwatch.TreatMissingData.NOT_BREACHING
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
    ),
    Rule(
        name="Orphans",
        means="A machine with our mark bills, and no record knows it.",
        metric="Orphans",
        statistic="Maximum",
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
        name="RecoveryFailed",
        means="A spot machine was taken away, and was neither started again nor replaced in time.",
        metric="RecoveriesFailed",
    ),
    Rule(
        name="DeletionsHeld",
        means="So many orphans were to be deleted at once that none was.",
        metric="DeletionsHeld",
        statistic="Maximum",
    ),
    Rule(
        name="ReconcilerSilent",
        means="No sweep has ended for some minutes: lost messages stay lost.",
        metric="Sweeps",
        period=Duration.minutes(1),
        compare=BELOW,
        of=5,
        among=5,
        missing=BAD,
    ),
    # A sweep that cannot read the list ends well all the same, and most of the reasons raise no other alarm.
    # It writes a 0: while there are sweeps no data is missing, and the alarm is in time.
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
    # Asked of Novita every five minutes, while anything costs money.
    Rule(
        name="BalanceLow",
        means="The money at Novita does not last for a day at the present rate.",
        metric="BalanceLow",
        period=Duration.minutes(15),
    ),
    # Judged every five minutes at the latest.
    Rule(
        name="BudgetPassed",
        means="A budget is spent.",
        metric="BudgetsPassed",
        statistic="Maximum",
        period=Duration.minutes(15),
    ),
    # Once a day for each machine.
    Rule(
        name="BillDiffers",
        means="Novita bills a machine by more than 10 % and 1 USD otherwise than we count.",
        metric="BillsDiffer",
        period=Duration.hours(1),
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
    # Steps that wait raise StepsLate, by the records themselves; a webhook has no other clock. A message may
    # be delayed by 15 minutes, and be hidden for 12 more by a crash.
    yield Rule(
        name="WebhooksLate",
        means="Webhooks wait in their queue for more than half an hour.",
        namespace="AWS/SQS",
        metric="ApproximateAgeOfOldestMessage",
        dimensions={"QueueName": service.queues.work["webhook"].queue_name},
        statistic="Maximum",
        threshold=1800,
        of=2,
        among=2,
    )
