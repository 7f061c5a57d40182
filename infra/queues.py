"""The four queues of work, each with its own dead letters and its own bound on concurrency."""

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.budgets import BUDGETS

# One message at a time where a step is slow or costs money; looks at machines share one list read.
BATCH_SIZES = {"create": 1, "monitor": 5, "startup": 1, "webhook": 1}

# Dead letters: rare, and each a few writes. Lambda allows no fewer at once.
DEAD_LETTERS_AT_A_TIME = 10
FEWEST_AT_ONCE = 2

# AWS advises six times the function's timeout: a throttled batch is tried again while it is still hidden,
# instead of coming back and using up its receives. A step lost meanwhile is sent again by the sweep.
TIMEOUTS_HIDDEN = 6


class Queues(Construct):
    def __init__(self, scope: Construct, construct_id: str, *, max_receives: int) -> None:
        super().__init__(scope, construct_id)
        self.work: dict[str, sqs.Queue] = {}
        self.dead: dict[str, sqs.Queue] = {}
        for name in BATCH_SIZES:
            self.dead[name] = sqs.Queue(
                self,
                f"{name.capitalize()}Dead",
                encryption=sqs.QueueEncryption.SQS_MANAGED,
                enforce_ssl=True,
                retention_period=Duration.days(14),
                visibility_timeout=Duration.seconds(
                    TIMEOUTS_HIDDEN * BUDGETS["dead_letters"].timeout_seconds
                ),
            )
            self.work[name] = sqs.Queue(
                self,
                name.capitalize(),
                encryption=sqs.QueueEncryption.SQS_MANAGED,
                enforce_ssl=True,
                visibility_timeout=Duration.seconds(TIMEOUTS_HIDDEN * BUDGETS[name].timeout_seconds),
                dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead[name], max_receive_count=max_receives),
            )

    def url(self, name: str) -> str:
        return self.work[name].queue_url

    def dead_url(self, name: str) -> str:
        return self.dead[name].queue_url

    def arns(self, *names: str) -> list[str]:
        return [self.work[name].queue_arn for name in names]

    @property
    def dead_arns(self) -> list[str]:
        return [queue.queue_arn for queue in self.dead.values()]

    def feed(self, functions: Mapping[str, lambda_.IFunction], max_concurrency: int) -> None:
        for name, batch_size in BATCH_SIZES.items():
            lambda_.EventSourceMapping(
                self,
                f"{name.capitalize()}Source",
                target=functions[name],
                event_source_arn=self.work[name].queue_arn,
                batch_size=batch_size,
                report_batch_item_failures=True,
                max_concurrency=max_concurrency,
            )
            lambda_.EventSourceMapping(
                self,
                f"{name.capitalize()}DeadSource",
                target=functions["dead_letters"],
                event_source_arn=self.dead[name].queue_arn,
                batch_size=DEAD_LETTERS_AT_A_TIME,
                report_batch_item_failures=True,
                max_concurrency=FEWEST_AT_ONCE,
            )
