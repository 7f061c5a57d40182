"""One page for whoever is on call: does it work, does it buy, how fast, what does Novita do, what waits."""

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.alarms import NAMESPACE, SERVICE
from infra.stack import OstlerStack

WIDTH = 8


class Dashboard(Construct):
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        service: OstlerStack,
        alarms: Sequence[cloudwatch.IAlarm],
    ) -> None:
        super().__init__(scope, construct_id)
        gateway = {"ApiId": service.api.id}
        queues = [queue.queue_name for queue in service.queues.work.values()]
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name="Ostler",
            default_interval=Duration.hours(6),
            widgets=[
                [cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms), width=24, height=5)],
                [_title("Does it work?")],
                _working(gateway),
                [_title("Does it buy?")],
                _buying(),
                [_title("How fast is it?")],
                _speed(gateway),
                [_title("What does Novita do?")],
                _novita(),
                [_title("What waits?")],
                _waiting(queues),
            ],
        )


def _working(gateway: dict[str, str]) -> list[cloudwatch.IWidget]:
    return [
        _graph("Sweeps", _ours("Sweeps"), _ours("Compared"), right=[_ours("SweepDuration", "Maximum")]),
        _graph("Requests", _aws("AWS/ApiGateway", "Count", gateway, "Sum")),
        _graph(
            "Errors",
            _aws("AWS/ApiGateway", "4xx", gateway, "Sum"),
            _aws("AWS/ApiGateway", "5xx", gateway, "Sum"),
            _by("ServerErrors", "status"),
        ),
    ]


def _buying() -> list[cloudwatch.IWidget]:
    return [
        _graph("Accepted and rented", _ours("InstancesAccepted"), right=[_ours("Machines", "Maximum")]),
        _graph("Purchases", _by("Purchases", "outcome")),
        _graph("Failures", _by("InstancesFailed", "code"), right=[_ours("IllegalMoves")]),
        _graph("Orphans and surplus", _ours("Orphans", "Maximum"), _by("Surplus", "action"), _ours("Brakes")),
    ]


def _speed(gateway: dict[str, str]) -> list[cloudwatch.IWidget]:
    ready = [_ours("TimeToReady", one) for one in ("p50", "p90", "Maximum")]
    answers = [_aws("AWS/ApiGateway", "Latency", gateway, one) for one in ("p50", "p99")]
    return [_graph("From request to ready", *ready), _graph("API", *answers)]


def _novita() -> list[cloudwatch.IWidget]:
    return [
        _graph("Calls", _by("NovitaCalls", "circuit")),
        _graph("Errors and refusals", _by("NovitaErrors", "circuit"), _by("AccountRefusals", "because")),
        _graph("Time to answer", _by("NovitaLatency", "circuit", "p90")),
        _graph("Circuits that refuse", _by("CircuitsOpen", "circuit", "Maximum")),
        _graph("Waits for a slot", _ours("LimiterWait", "Maximum"), right=[_ours("LimiterRefusals")]),
    ]


def _waiting(queues: Sequence[str]) -> list[cloudwatch.IWidget]:
    age = "ApproximateAgeOfOldestMessage"
    oldest = [_aws("AWS/SQS", age, {"QueueName": name}, "Maximum") for name in queues]
    return [
        _graph("Oldest message", *oldest),
        _graph("Late steps", _ours("OldestOverdue", "Maximum"), right=[_by("Overdue", "kind")]),
        _graph(
            "Dead letters",
            _by("DeadLetters", "queue"),
            right=[_ours("DeadLettersKept", "Maximum"), _ours("DeadLettersNotStored", "Maximum")],
        ),
        _graph("Webhook attempts", _by("WebhookAttempts", "state")),
    ]


def _title(text: str) -> cloudwatch.TextWidget:
    return cloudwatch.TextWidget(
        markdown=f"## {text}", width=24, height=1, background=cloudwatch.TextWidgetBackground.TRANSPARENT
    )


def _graph(
    title: str, *left: cloudwatch.IMetric, right: Sequence[cloudwatch.IMetric] = ()
) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, width=WIDTH, left=list(left), right=list(right))


def _ours(name: str, statistic: str = "Sum") -> cloudwatch.IMetric:
    return _aws(NAMESPACE, name, SERVICE, statistic)


def _aws(namespace: str, name: str, dimensions: dict[str, str], statistic: str) -> cloudwatch.IMetric:
    return cloudwatch.Metric(
        namespace=namespace, metric_name=name, dimensions_map=dimensions, statistic=statistic
    )


def _by(name: str, dimension: str, statistic: str = "Sum") -> cloudwatch.IMetric:
    """One line for each value that there is, whichever they are."""
    return cloudwatch.MathExpression(
        expression=f"SEARCH('{{{NAMESPACE},service,{dimension}}} MetricName=\"{name}\"', '{statistic}', 300)",
        using_metrics={},
        label="",
        period=Duration.minutes(5),
    )
