"""The deployed roles as principals: what each function could do with the table if it were taken over."""

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from local.emulator import REGION
from ops.keys import create_key, key_pk, new_key, revoke_key
from tests.e2e.service import Service
from tests.infra.template import NAMES

ANYBODY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}],
}


def table_as(service: Service, function: str) -> Any:
    """The table, with the rights of the function: its role, which for once trusts whoever tests it."""
    emulator = service.stack.emulator
    name = function.title().replace("_", "")
    functions = emulator.client("lambda").list_functions()["Functions"]
    arn = next(one["Role"] for one in functions if f"Functions{name}" in one["FunctionName"])
    iam, role = emulator.client("iam"), arn.rpartition("/")[2]
    trusted = iam.get_role(RoleName=role)["Role"]["AssumeRolePolicyDocument"]
    iam.update_assume_role_policy(RoleName=role, PolicyDocument=json.dumps(ANYBODY))
    try:
        given = emulator.client("sts").assume_role(RoleArn=arn, RoleSessionName="test")["Credentials"]
    finally:
        iam.update_assume_role_policy(RoleName=role, PolicyDocument=json.dumps(trusted))
    session = boto3.Session(
        given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], region_name=REGION
    )
    tables = session.resource("dynamodb", endpoint_url=emulator.url)
    return tables.Table(service.stack.table_name)


def refused(call: Any, **params: Any) -> bool:
    try:
        call(**params)
    except ClientError as error:
        return str(error.response["Error"]["Code"]) == "AccessDeniedException"
    return False


@pytest.mark.parametrize("function", NAMES)
def test_a_function_can_neither_make_nor_change_an_api_key_and_only_the_api_reads_one(
    service: Service, function: str
) -> None:
    key = new_key()
    own = service.stack.emulator.table(service.stack.table_name)
    made = create_key(own, name="victim", scopes=["read"], key=key)
    table, item = table_as(service, function), {"pk": key_pk(key), "sk": "key"}

    assert refused(table.put_item, Item={**item, "scopes": ["admin"]})
    assert refused(table.update_item, Key=item, AttributeUpdates={"scopes": {"Value": ["admin"]}})
    assert refused(table.delete_item, Key=item)
    assert refused(table.get_item, Key=item) is (function != "api")
    assert own.get_item(Key=item)["Item"]["scopes"] == ["read"]
    revoke_key(own, made.id)
