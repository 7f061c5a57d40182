"""The architecture on one page."""

from pathlib import Path

from aws_cdk import CfnOutput, Stack
from constructs import Construct

from infra.api import Api
from infra.edge import Edge
from infra.environment import environments
from infra.functions import Functions
from infra.options import Options
from infra.queues import Queues
from infra.rights import rights
from infra.schedule import Schedule
from infra.secrets import Secrets
from infra.table import Table
from infra.topic import Topic


class OstlerStack(Stack):
    """
    callers → Api → api ──→ Queues → create, monitor, startup, webhook
                     │         └─ dead letters → dead_letters
                     │                            │       │
                     └──────→ Table ←─────────────┴───────┴── reconcile ← Schedule
                                │
                                └─ stream → announce → Topic, webhook queue
    """

    def __init__(self, scope: Construct, construct_id: str, *, asset: Path, options: Options) -> None:
        super().__init__(
            scope,
            construct_id,
            description="Ostler: looks after rented GPU machines",
            termination_protection=options.protected,
        )

        table = Table(self, "Table", removal=options.removal, protected=options.protected)
        self.queues = queues = Queues(self, "Queues", max_retries=options.max_retry_attempts)
        topic = Topic(self, "Topic", subscriber_accounts=options.subscriber_accounts)
        secrets = Secrets(self, "Secrets", removal=options.removal)
        edge = Edge(self, "Edge", options=options) if options.edge == "cloudfront" else None

        self.functions = functions = Functions(
            self,
            "Functions",
            asset=asset,
            environments=environments(table, queues, topic, secrets, options, edge),
            rights=rights(table, queues, topic, secrets, edge),
            options=options,
        ).by_name

        self.api = api = Api(self, "Api", function=functions["api"], options=options)
        queues.feed(functions, max_concurrency=options.max_concurrent_jobs)
        table.feed(functions["announce"])
        Schedule(self, "Schedule", reconcile=functions["reconcile"])

        for name, value in {
            **self._address(api, edge, options),
            "ApiId": api.id,
            "Auth": options.auth,
            "Stage": options.stage,
            "TableName": table.name,
            "TopicArn": topic.arn,
            "NovitaSecretId": secrets.novita_arn,
            "WebhookSecretId": secrets.webhook_arn,
            **{f"{name.capitalize()}QueueUrl": queues.url(name) for name in queues.work},
        }.items():
            CfnOutput(self, name, value=value)

    def _address(self, api: Api, edge: Edge | None, options: Options) -> dict[str, str]:
        """Where callers find it; and, with a domain, what its DNS record has to point to."""
        own = {"ApiUrl": f"https://{options.domain_name}"} if options.domain_name else {}
        if edge:
            name = edge.put_before(api.id).distribution_domain_name
            return {"ApiUrl": f"https://{name}", **own, **({"DomainTarget": name} if own else {})}
        return {**own, "DomainTarget": api.serve_under(options)} if own else {"ApiUrl": api.url}
