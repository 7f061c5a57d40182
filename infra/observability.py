"""The stack beside the service: alarms, whom they wake, and, if chosen, a dashboard."""

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_cloudwatch_actions as actions
from constructs import Construct

from infra.alarm_topic import AlarmTopic
from infra.alarms import OURS, of_aws
from infra.dashboard import Dashboard
from infra.options import Options
from infra.stack import OstlerStack


class WatchStack(Stack):
    """Apart from the service, which runs without it: the emulator does, and so may an account."""

    def __init__(
        self, scope: Construct, construct_id: str, *, service: OstlerStack, options: Options
    ) -> None:
        super().__init__(scope, construct_id, description="Ostler: alarms and dashboard")
        topic = AlarmTopic(self, "Alarms", email=options.alarm_email).topic
        alarms = [rule.raised_in(self, options) for rule in (*OURS, *of_aws(service))]
        for alarm in alarms:
            alarm.add_alarm_action(actions.SnsAction(topic))
            alarm.add_ok_action(actions.SnsAction(topic))
        if options.watch == "full":
            Dashboard(self, "Page", service=service, options=options, alarms=alarms)
        CfnOutput(self, "AlarmTopicArn", value=topic.topic_arn)
