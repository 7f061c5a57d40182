"""One page for whoever is on call: does it work, does it buy, how fast, what does Novita do, what waits."""

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.alarms import NAMESPACE
from infra.options import Options
from infra.stack import OstlerStack

WIDTH = 8


class Dashboard(Construct):
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        service: OstlerStack,
        options: Options,
        alarms: Sequence[cloudwatch.IAlarm],
    ) -> None:
        super().__init__(scope, construct_id)
        ours = Metrics(options.service)
        gateway = {"ApiId": service.api.id}
        queues = [queue.queue_name for queue in service.queues.work.values()]
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=f"{options.name}-{Aws.REGION}",  # unlike alarms, dashboards are the account's
            default_interval=Duration.hours(6),
            widgets=[
                [cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms), width=24, height=5)],
                [_title("Does it work?")],
                _working(ours, gateway),
                [_title("Does it buy?")],
                _buying(ours),
                [_title("How fast is it?")],
                _speed(ours, gateway),
                [_title("What does Novita do?")],
                _novita(ours),
                [_title("What waits?")],
                _waiting(ours, queues),
            ],
        )


@dataclass(frozen=True)
class Metrics:
    """Those that the functions of this deployment measure, and no other's."""

    service: str

    def one(self, name: str, statistic: str = "Sum") -> cloudwatch.IMetric:
        return _aws(NAMESPACE, name, {"service": self.service}, statistic)

    def by(self, name: str, dimension: str, statistic: str = "Sum") -> cloudwatch.IMetric:
        """One line for each value that there is, whichever they are."""
        wanted = f'{{{NAMESPACE},service,{dimension}}} MetricName="{name}" service="{self.service}"'
        return cloudwatch.MathExpression(
            expression=f"SEARCH('{wanted}', '{statistic}', 300)",
            using_metrics={},
            label="",
            period=Duration.minutes(5),
        )


def _working(ours: Metrics, gateway: dict[str, str]) -> list[cloudwatch.IWidget]:
    return [
        _graph(
            "Sweeps", ours.one("Sweeps"), ours.one("Compared"), right=[ours.one("SweepDuration", "Maximum")]
        ),
        _graph("Requests", _aws("AWS/ApiGateway", "Count", gateway, "Sum")),
        _graph(
            "Errors",
            _aws("AWS/ApiGateway", "4xx", gateway, "Sum"),
            _aws("AWS/ApiGateway", "5xx", gateway, "Sum"),
            ours.by("ServerErrors", "status"),
        ),
    ]


def _buying(ours: Metrics) -> list[cloudwatch.IWidget]:
    return [
        _graph("Accepted and rented", ours.one("InstancesAccepted"), right=[ours.one("Machines", "Maximum")]),
        _graph("Purchases", ours.by("Purchases", "outcome")),
        _graph(
            "Failures",
            ours.by("InstancesFailed", "code"),
            ours.one("RecoveriesFailed"),
            right=[ours.one("IllegalMoves")],
        ),
        _graph(
            "Machines that do not fit",
            ours.one("Orphans", "Maximum"),
            ours.by("Surplus", "action"),
            ours.one("Missing", "Maximum"),
            ours.one("Stuck", "Maximum"),
            ours.one("DeletionsHeld", "Maximum"),
        ),
        _graph(
            "Money",
            ours.one("BalanceLow"),
            ours.one("BudgetsPassed", "Maximum"),
            ours.one("BillsDiffer"),
        ),
    ]


def _speed(ours: Metrics, gateway: dict[str, str]) -> list[cloudwatch.IWidget]:
    ready = [ours.one("TimeToReady", one) for one in ("p50", "p90", "Maximum")]
    answers = [_aws("AWS/ApiGateway", "Latency", gateway, one) for one in ("p50", "p99")]
    return [_graph("From request to ready", *ready), _graph("API", *answers)]


def _novita(ours: Metrics) -> list[cloudwatch.IWidget]:
    return [
        _graph("Calls", ours.by("NovitaCalls", "circuit")),
        _graph(
            "Errors and refusals", ours.by("NovitaErrors", "circuit"), ours.by("AccountRefusals", "because")
        ),
        _graph("Time to answer", ours.by("NovitaLatency", "circuit", "p90")),
        _graph("Circuits that refuse", ours.by("CircuitsOpen", "circuit", "Maximum")),
        _graph("Waits for a slot", ours.one("LimiterWait", "Maximum"), right=[ours.one("LimiterRefusals")]),
    ]


def _waiting(ours: Metrics, queues: Sequence[str]) -> list[cloudwatch.IWidget]:
    age = "ApproximateAgeOfOldestMessage"
    oldest = [_aws("AWS/SQS", age, {"QueueName": name}, "Maximum") for name in queues]
    return [
        _graph("Oldest message", *oldest),
        _graph("Late steps", ours.one("OldestOverdue", "Maximum"), right=[ours.by("Overdue", "kind")]),
        _graph(
            "Dead letters",
            ours.by("DeadLetters", "queue"),
            right=[ours.one("DeadLettersKept", "Maximum"), ours.one("DeadLettersNotStored", "Maximum")],
        ),
        _graph("Webhook attempts", ours.by("WebhookAttempts", "state")),
    ]


def _title(text: str) -> cloudwatch.TextWidget:
    return cloudwatch.TextWidget(
        markdown=f"## {text}", width=24, height=1, background=cloudwatch.TextWidgetBackground.TRANSPARENT
    )


def _graph(
    title: str, *left: cloudwatch.IMetric, right: Sequence[cloudwatch.IMetric] = ()
) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, width=WIDTH, left=list(left), right=list(right))


def _aws(namespace: str, name: str, dimensions: dict[str, str], statistic: str) -> cloudwatch.IMetric:
    return cloudwatch.Metric(
        namespace=namespace, metric_name=name, dimensions_map=dimensions, statistic=statistic
    )
