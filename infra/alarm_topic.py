"""The topic that alarms are published to, and who subscribes."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

CLOUDWATCH = iam.ServicePrincipal("cloudwatch.amazonaws.com")


class AlarmTopic(Construct):
    def __init__(self, scope: Construct, construct_id: str, *, email: str) -> None:
        super().__init__(scope, construct_id)
        ours = {"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
        # Without a key: alarms may not use the one that AWS keeps for SNS, and would be lost. One of our own
        # costs a dollar a month, for names of alarms and numbers.
        self.topic = sns.Topic(self, "Topic", enforce_ssl=True)
        # A policy of its own takes the place of the one that lets the account's alarms in.
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                actions=["sns:Publish"],
                principals=[CLOUDWATCH],
                resources=[self.topic.topic_arn],
                conditions=ours,
            )
        )
        if email:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))
