"""Alarms and dashboard: what they look at is there, and whoever should know is told."""

import json
import re

import pytest

from docs.generate import RUNBOOK
from functions.shared.platform.observability import METRICS, NAMESPACE
from tests.infra.template import Properties, Template

DIMENSIONS = {metric.name: metric.dimension for metric in METRICS}

# What AWS documents: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/
# sqs-available-cloudwatch-metrics.html and .../apigateway/latest/developerguide/http-api-metrics.html
OF_AWS = {
    ("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName"),
    ("AWS/ApiGateway", "5xx", "ApiId"),
}


@pytest.fixture(scope="session")
def alarms(template: Template) -> dict[str, Properties]:
    found = template.watch.all("AWS::CloudWatch::Alarm").values()
    return {alarm["AlarmName"].removeprefix("Ostler-"): alarm for alarm in found}


def watched(alarm: Properties, template: Template) -> tuple[str, str]:
    """The resource whose metric it is: the dimension's name, and the logical id that its value is of."""
    (dimension,) = alarm["Dimensions"]
    referred = dimension["Value"]["Fn::GetStackOutput"]
    assert referred["StackName"] == template.name
    value = template.body["Outputs"][referred["OutputName"]]["Value"]
    return dimension["Name"], value.get("Ref") or value["Fn::GetAtt"][0]


def test_an_alarm_on_our_own_metrics_names_one_that_the_functions_write(
    alarms: dict[str, Properties],
) -> None:
    ours = [alarm for alarm in alarms.values() if alarm["Namespace"] == NAMESPACE]

    assert len(ours) == 17
    for alarm in ours:
        names = {one["Name"] for one in alarm["Dimensions"]} - {"service"}
        assert names <= {DIMENSIONS[alarm["MetricName"]]}


def test_an_alarm_on_a_metric_of_aws_names_one_that_aws_documents(alarms: dict[str, Properties]) -> None:
    theirs = [alarm for alarm in alarms.values() if alarm["Namespace"] != NAMESPACE]

    assert {(one["Namespace"], one["MetricName"], one["Dimensions"][0]["Name"]) for one in theirs} == OF_AWS


def test_the_api_and_the_queue_that_no_record_stands_for_are_watched(
    alarms: dict[str, Properties], template: Template
) -> None:
    (api,) = template.resources("AWS::ApiGatewayV2::Api")

    assert watched(alarms["GatewayErrors"], template) == ("ApiId", api)
    assert watched(alarms["WebhooksLate"], template) == ("QueueName", template.queue_id("webhook"))


def test_a_message_may_be_as_old_as_the_longest_delay_and_one_crash_make_it(
    alarms: dict[str, Properties], template: Template
) -> None:
    longest_delay = 900
    hidden = template.queue("webhook")["VisibilityTimeout"]

    assert alarms["WebhooksLate"]["Threshold"] > longest_delay + hidden


def test_missing_data_is_judged_by_what_its_absence_means(alarms: dict[str, Properties]) -> None:
    judged = {name: alarm["TreatMissingData"] for name, alarm in alarms.items()}

    assert {judged.pop(name) for name in ("ReconcilerSilent", "NotCompared")} == {"breaching"}
    assert set(judged.values()) == {"notBreaching"}


def test_the_topic_is_told_when_an_alarm_is_raised_and_when_it_is_over(
    alarms: dict[str, Properties], template: Template
) -> None:
    (topic,) = template.watch.resources("AWS::SNS::Topic")

    for alarm in alarms.values():
        assert alarm["AlarmActions"] == alarm["OKActions"] == [{"Ref": topic}]


def test_alarms_may_use_the_topic_which_has_no_key_that_would_keep_them_out(template: Template) -> None:
    here = {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
    policy = template.watch.one("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
    theirs = [one for one in policy if one["Principal"] == {"Service": "cloudwatch.amazonaws.com"}]

    assert [(one["Action"], one["Condition"]) for one in theirs] == [("sns:Publish", here)]
    (topic,) = template.watch.resources("AWS::SNS::Topic").values()
    assert "KmsMasterKeyId" not in topic.get("Properties", {})
    assert template.watch.resources("AWS::KMS::Key") == {}


def test_by_default_there_is_no_dashboard_and_what_no_alarm_judges_is_not_measured(
    template: Template, chosen: Template, signed: Template, alarms: dict[str, Properties]
) -> None:
    def measured(of: Template) -> set[str]:
        return {one["Environment"]["Variables"]["METRICS"] for one in of.functions().values()}

    assert template.watch.all("AWS::CloudWatch::Dashboard") == {}
    assert (measured(template), measured(chosen), measured(signed)) == ({"alarms"}, {"all"}, {"off"})
    assert not signed.watch.file.exists()
    judged = {alarm["MetricName"] for alarm in alarms.values() if alarm["Namespace"] == NAMESPACE}
    assert judged == {metric.name for metric in METRICS if metric.alarm}


def test_somebody_is_told_by_mail_if_an_address_is_given(template: Template, chosen: Template) -> None:
    assert template.watch.all("AWS::SNS::Subscription") == {}
    subscription = chosen.watch.one("AWS::SNS::Subscription")
    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "on-call@page.example")


def test_the_dashboard_shows_only_what_is_measured_and_nearly_all_of_it(chosen: Template) -> None:
    body = json.dumps(chosen.watch.one("AWS::CloudWatch::Dashboard")["DashboardBody"])
    shown = re.sub(r'\\+"', '"', body)
    single = set(re.findall(r'\["Ostler","(\w+)"', shown))
    searched = set(re.findall(r'\{Ostler,service,(\w+)\} MetricName="(\w+)" service="ostler-test"', shown))

    assert single <= DIMENSIONS.keys()
    assert all(DIMENSIONS[name] == dimension for dimension, name in searched)
    # The events behind states that are shown.
    assert DIMENSIONS.keys() - single - {name for _, name in searched} == {
        "CircuitsOpened",
        "CircuitsClosed",
        "OrphansFound",
        "OrphansDeleted",
    }


def test_the_runbook_has_a_chapter_for_every_alarm_and_no_other(alarms: dict[str, Properties]) -> None:
    text = RUNBOOK.read_text().partition("## Alarms\n")[2].partition("\n## ")[0]
    chapters = re.findall(r"(?m)^### (.+)$", text)

    assert sorted(chapters) == sorted({name.partition("-")[0] for name in alarms})
    for part in ("Means", "Look", "Do", "Over"):
        assert text.count(f"**{part}**: ") == len(chapters)
    for name, alarm in alarms.items():
        assert alarm["AlarmDescription"].endswith(f"See docs/runbook.md, {name.partition('-')[0]}.")


def test_the_service_needs_nothing_of_the_stack_that_watches_it(template: Template) -> None:
    assert "Fn::GetStackOutput" not in json.dumps(template.body)
    assert "AWS::CloudWatch" not in json.dumps(template.body)


def test_the_service_can_replace_what_the_alarms_watch(template: Template) -> None:
    """An export that another stack imports could not be changed before that stack is gone."""
    assert not any("Export" in output for output in template.body["Outputs"].values())
    assert "Fn::ImportValue" not in json.dumps(template.watch.body)


def test_two_stages_share_no_name(template: Template, chosen: Template) -> None:
    def names(of: Template) -> set[str]:
        alarms = of.watch.all("AWS::CloudWatch::Alarm").values()
        return {of.name, of.watch.name, *(one["AlarmName"] for one in alarms)}

    assert names(template).isdisjoint(names(chosen))
    assert {"Ostler", "OstlerWatch", "Ostler-DeadLetters"} < names(template)
    assert {"Ostler-test", "OstlerWatch-test", "Ostler-test-DeadLetters"} < names(chosen)


def test_a_dashboard_is_named_after_its_region_since_an_account_has_them_for_all(chosen: Template) -> None:
    name = chosen.watch.one("AWS::CloudWatch::Dashboard")["DashboardName"]

    assert name == {"Fn::Join": ["", ["Ostler-test-", {"Ref": "AWS::Region"}]]}


def test_a_stage_measures_and_is_judged_under_a_name_of_its_own(chosen: Template) -> None:
    written = {one["Environment"]["Variables"]["SERVICE_NAME"] for one in chosen.functions().values()}
    alarms = chosen.watch.all("AWS::CloudWatch::Alarm").values()
    judged = {
        dimension["Value"]
        for alarm in alarms
        for dimension in alarm["Dimensions"]
        if dimension["Name"] == "service"
    }
    shown = json.dumps(chosen.watch.one("AWS::CloudWatch::Dashboard")["DashboardBody"])

    assert written == judged == {"ostler-test"}
    assert not re.search(r"(service\W+)ostler\b(?!-test)", shown)


def test_no_physical_name_is_given_that_a_second_stage_could_meet(template: Template) -> None:
    """What CloudFormation names itself is unique; what is named here has the deployment's name in it."""
    named = ("TableName", "QueueName", "TopicName", "FunctionName", "RoleName", "Name", "BucketName")

    for resource in template.body["Resources"].values():
        given = {name for name in named if isinstance(resource.get("Properties", {}).get(name), str)}
        assert given <= ({"Name"} if resource["Type"] == "AWS::ApiGatewayV2::Api" else set())
