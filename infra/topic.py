"""The topic that every event is published to."""

from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct


class Topic(Construct):
    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        # AWS's own key costs nothing while idle and needs no grants inside the account.
        key = kms.Alias.from_alias_name(self, "Key", "alias/aws/sns")
        self.arn = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True).topic_arn
