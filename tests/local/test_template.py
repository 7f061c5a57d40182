"""What is changed in the template, and that nothing else is."""

from copy import deepcopy
from typing import Any

from functions.shared.domain.messages import MORE_DELIVERIES
from local.template import adapt_template

TEMPLATE: dict[str, Any] = {
    "Rules": {"CheckBootstrapVersion": {}},
    "Parameters": {"BootstrapVersion": {"Type": "String"}},
    "Resources": {
        "Key": {"Type": "AWS::SecretsManager::Secret", "Properties": {}},
        "Table": {"Type": "AWS::DynamoDB::Table", "Properties": {"KeySchema": []}},
        "Create": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Handler": "functions.create.handler.handler",
                "Code": {"S3Bucket": "assets", "S3Key": "real.zip"},
                "Environment": {"Variables": {"TABLE_NAME": {"Ref": "Table"}, "SECRET_ID": {"Ref": "Key"}}},
            },
        },
        "Dead": {"Type": "AWS::SQS::Queue", "Properties": {}},
        "Work": {"Type": "AWS::SQS::Queue", "Properties": {"RedrivePolicy": {"maxReceiveCount": 8}}},
        "Source": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "EventSourceArn": {"Fn::GetAtt": ["Work", "Arn"]},
                "ScalingConfig": {"MaximumConcurrency": 10},
            },
        },
        "DeadSource": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "EventSourceArn": {"Fn::GetAtt": ["Dead", "Arn"]},
                "ScalingConfig": {"MaximumConcurrency": 2},
            },
        },
        "Stream": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {"EventSourceArn": {"Fn::GetAtt": ["Table", "StreamArn"]}, "BatchSize": 25},
        },
    },
}


def _adapt_template(**settings: str) -> dict[str, Any]:
    return adapt_template(TEMPLATE, bucket="here", code_key="ours.zip", settings=settings)


def test_code_and_settings_are_the_local_ones() -> None:
    before = deepcopy(TEMPLATE)

    create = _adapt_template(SETTLE_SECONDS="5", WEBHOOK_TIMEOUT="5")["Resources"]["Create"]["Properties"]

    assert create["Code"] == {"S3Bucket": "here", "S3Key": "ours.zip"}
    assert create["Environment"]["Variables"] == {
        "TABLE_NAME": {"Ref": "Table"},
        "SECRET_ID": {"Fn::GetAtt": ["Key", "Id"]},
        "SETTLE_SECONDS": "5",
    }
    assert before == TEMPLATE


def test_the_two_settings_of_queues_reach_them() -> None:
    changed = _adapt_template(MAX_CONCURRENT_JOBS="3", MAX_RETRY_ATTEMPTS="0")["Resources"]

    assert changed["Source"]["Properties"]["ScalingConfig"]["MaximumConcurrency"] == 3
    assert changed["DeadSource"] == TEMPLATE["Resources"]["DeadSource"]
    assert changed["Stream"] == TEMPLATE["Resources"]["Stream"]
    assert changed["Work"]["Properties"]["RedrivePolicy"]["maxReceiveCount"] == 1 + MORE_DELIVERIES
    variables = changed["Create"]["Properties"]["Environment"]["Variables"]
    assert variables["MAX_RETRY_ATTEMPTS"] == "0"
    assert "MAX_CONCURRENT_JOBS" not in variables


def test_everything_else_stays() -> None:
    changed = _adapt_template()

    assert "Rules" not in changed
    assert changed["Parameters"] == {}
    unchanged = ("Key", "Table", "Dead", "Work", "Source", "DeadSource", "Stream")
    assert {name: changed["Resources"][name] for name in unchanged} == {
        name: TEMPLATE["Resources"][name] for name in unchanged
    }
