"""Where data lives: the table, its stream, the topic, the secrets; and what becomes of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.infra.template import Template, synthesise
from tests.unit.tables import INDEXES, projection

KEPT = ("AWS::DynamoDB::Table", "AWS::SecretsManager::Secret", "AWS::Logs::LogGroup")


def test_the_table_costs_nothing_while_idle_and_can_be_restored(template: Template) -> None:
    table = template.one("AWS::DynamoDB::Table")

    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
    assert table["SSESpecification"]["SSEEnabled"]
    assert table["DeletionProtectionEnabled"]


def test_items_expire_and_changes_leave_by_the_stream(template: Template) -> None:
    table = template.one("AWS::DynamoDB::Table")

    assert table["TimeToLiveSpecification"] == {"AttributeName": "expiresAt", "Enabled": True}
    assert table["StreamSpecification"] == {"StreamViewType": "NEW_IMAGE"}


def test_the_table_has_the_keys_that_the_functions_use(template: Template) -> None:
    table = template.one("AWS::DynamoDB::Table")
    types = {
        attribute["AttributeName"]: attribute["AttributeType"] for attribute in table["AttributeDefinitions"]
    }

    def keys(schema: list[dict[str, str]]) -> list[tuple[str, str]]:
        return [(key["AttributeName"], types[key["AttributeName"]]) for key in schema]

    assert keys(table["KeySchema"]) == [("pk", "S"), ("sk", "S")]
    indexes = {
        index["IndexName"]: (keys(index["KeySchema"]), index["Projection"])
        for index in table["GlobalSecondaryIndexes"]
    }
    assert indexes == {
        name: ([(partition, "S"), (sort, kind)], projection(carried))
        for name, (partition, sort, kind, carried) in INDEXES.items()
    }, "the unit tests' table has the same"


def test_the_stream_wakes_announce_only_for_events_that_are_due(template: Template) -> None:
    source = template.sources()["announce"]
    (pattern,) = source["FilterCriteria"]["Filters"]

    assert source["StartingPosition"] == "TRIM_HORIZON"
    assert json.loads(pattern["Pattern"]) == {
        "eventName": ["INSERT", "MODIFY"],
        "dynamodb": {"NewImage": {"kind": {"S": ["event"]}, "due": {"S": [{"exists": True}]}}},
    }


def test_a_crash_over_one_event_cannot_stop_the_stream(template: Template) -> None:
    source = template.sources()["announce"]

    assert source["BisectBatchOnFunctionError"]
    assert 0 < source["MaximumRetryAttempts"] <= 10
    assert "FunctionResponseTypes" not in source  # it deals with failed records itself


def test_the_topic_is_encrypted_and_refuses_plain_connections(template: Template) -> None:
    (statement,) = template.one("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]

    assert "KmsMasterKeyId" in template.one("AWS::SNS::Topic")
    assert statement["Effect"] == "Deny"
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_the_template_carries_no_secret_value(template: Template) -> None:
    secrets = template.all("AWS::SecretsManager::Secret").values()

    assert len(secrets) == 2
    assert not any("SecretString" in secret for secret in secrets)


def test_the_master_webhook_secret_is_generated_with_room_for_the_previous_one(template: Template) -> None:
    secrets = template.all("AWS::SecretsManager::Secret")
    (generated,) = (s["GenerateSecretString"] for name, s in secrets.items() if "WebhookMaster" in name)

    assert generated["GenerateStringKey"] == "current"
    assert json.loads(generated["SecretStringTemplate"]) == {"previous": ""}
    assert generated["PasswordLength"] == 64


def test_other_accounts_may_subscribe_if_they_are_named(template: Template, signed: Template) -> None:
    def subscribers(of: Template) -> list[dict[str, Any]]:
        statements = of.one("AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
        return [one for one in statements if one["Effect"] == "Allow"]

    (allowed,) = subscribers(signed)
    assert subscribers(template) == []
    assert allowed["Action"] == "sns:Subscribe"
    assert "123456789012" in json.dumps(allowed["Principal"])
    assert "210987654321" in json.dumps(allowed["Principal"])


@pytest.mark.parametrize("kind", KEPT)
def test_data_outlives_the_stack_unless_it_is_ephemeral(
    template: Template, chosen: Template, kind: str
) -> None:
    def fates(of: Template) -> set[tuple[str, str]]:
        resources = of.resources(kind).values()
        return {(resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) for resource in resources}

    assert fates(template) == {("RetainExceptOnCreate", "Retain")}, "a first deploy that fails leaves nothing"
    assert fates(chosen) == {("Delete", "Delete")}


def protected(template: Template) -> tuple[bool, bool]:
    """The table, and the stack."""
    manifest = json.loads((template.file.parent / "manifest.json").read_text())
    stack = manifest["artifacts"][template.name]["properties"]
    return template.one("AWS::DynamoDB::Table")["DeletionProtectionEnabled"], stack["terminationProtection"]


def test_neither_the_table_nor_the_stack_is_deleted_by_one_call_unless_it_is_ephemeral(
    template: Template, chosen: Template
) -> None:
    assert protected(template) == (True, True)
    assert protected(chosen) == (False, False)


def test_a_first_deploy_protects_nothing_yet_and_keeps_its_data(tmp_path: Path) -> None:
    first = synthesise(tmp_path, firstDeploy="true")

    assert protected(first) == (False, False)
    assert {one["DeletionPolicy"] for one in first.resources("AWS::DynamoDB::Table").values()} == {
        "RetainExceptOnCreate"
    }


# CloudFormation knows a resource by this name: under another it makes a new, empty one, and forgets the old.
PINNED = {
    "AWS::DynamoDB::Table": {"Table710B521B"},
    "AWS::SecretsManager::Secret": {"SecretsNovitaKeyD282CD20", "SecretsWebhookMaster06735B4D"},
    "AWS::SNS::Topic": {"Topic85E630E2"},
}


@pytest.mark.parametrize("which", ["template", "chosen"])
def test_what_holds_data_keeps_its_logical_id(which: str, request: pytest.FixtureRequest) -> None:
    template: Template = request.getfixturevalue(which)

    assert all(ids <= set(template.resources(kind)) for kind, ids in PINNED.items())


def test_the_outputs_say_where_everything_is(template: Template) -> None:
    assert {name for name in template.body["Outputs"] if not name.startswith("PublishOutput")} == {
        "ApiId",
        "ApiUrl",
        "Auth",
        "Stage",
        "TableName",
        "TopicArn",
        "NovitaSecretId",
        "WebhookSecretId",
        "CreateQueueUrl",
        "MonitorQueueUrl",
        "StartupQueueUrl",
        "WebhookQueueUrl",
    }
