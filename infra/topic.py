"""The topic that every event is published to."""

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct


class Topic(Construct):
    def __init__(self, scope: Construct, construct_id: str, *, subscriber_accounts: Sequence[str]) -> None:
        super().__init__(scope, construct_id)
        # AWS's own key costs nothing while idle and needs no grants inside the account.
        key = kms.Alias.from_alias_name(self, "Key", "alias/aws/sns")
        topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True)
        self.arn = topic.topic_arn
        if subscriber_accounts:
            # Who subscribes needs no right on the key: SNS itself decrypts what it delivers.
            topic.add_to_resource_policy(
                iam.PolicyStatement(
                    actions=["sns:Subscribe"],
                    principals=[iam.AccountPrincipal(account) for account in subscriber_accounts],
                    resources=[self.arn],
                )
            )
