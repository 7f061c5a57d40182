"""The four queues of work, each with its own bound on concurrency, and one queue for all dead letters."""

from collections.abc import Mapping
from typing import Any

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

# Functions count failures and give a message up themselves. A queue's own maximum is for those that never
# came so far, by crashes or by throttling, which AWS counts as deliveries; it advises at least 5.
MORE_DELIVERIES = 4


class Queues(Construct):
    def __init__(self, scope: Construct, construct_id: str, *, max_retries: int) -> None:
        super().__init__(scope, construct_id)
        self.dead = self._queue("Dead", "dead_letters", retention_period=Duration.days(14))
        given_up = sqs.DeadLetterQueue(queue=self.dead, max_receive_count=max_retries + 1 + MORE_DELIVERIES)
        self.work = {
            name: self._queue(name.capitalize(), name, dead_letter_queue=given_up) for name in BATCH_SIZES
        }

    def _queue(self, construct_id: str, consumer: str, **more: Any) -> sqs.Queue:
        return sqs.Queue(
            self,
            construct_id,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            visibility_timeout=Duration.seconds(TIMEOUTS_HIDDEN * BUDGETS[consumer].timeout_seconds),
            **more,
        )

    def url(self, name: str) -> str:
        return self.work[name].queue_url

    def arns(self, *names: str) -> list[str]:
        return [self.work[name].queue_arn for name in names]

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
            "DeadSource",
            target=functions["dead_letters"],
            event_source_arn=self.dead.queue_arn,
            batch_size=DEAD_LETTERS_AT_A_TIME,
            report_batch_item_failures=True,
            max_concurrency=FEWEST_AT_ONCE,
        )
