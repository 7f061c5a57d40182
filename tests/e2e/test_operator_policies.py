"""The IAM policies to copy for people and pipelines: enough for the commands, over an emulator that asks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest
from botocore.exceptions import ClientError

from local.emulator import ACCOUNT, REGION
from ops.deploy import Deploy
from ops.keys import list_keys
from ops.novita_account import NovitaAccount
from ops.restore import restore_items, scan_items
from ops.smoke import SmokeTest, find_service
from ops.target import Target
from ops.teardown import Teardown
from tests.e2e.service import Service
from tests.infra.test_caller_policies import text_of


@contextmanager
def somebody_with(service: Service, policy: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    """Who may do what the policy says, and nothing else."""
    iam = service.stack.emulator.client("iam")
    iam.create_user(UserName=policy)
    document = text_of(policy, region=REGION, account=ACCOUNT, stack="Ostler")
    iam.put_user_policy(UserName=policy, PolicyName="its", PolicyDocument=document)
    made = iam.create_access_key(UserName=policy)["AccessKey"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", service.stack.emulator_url)
    environment = {
        "AWS_ACCESS_KEY_ID": made["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": made["SecretAccessKey"],
        "AWS_REGION": REGION,
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    try:
        yield Target.find(environment)
    finally:
        iam.delete_access_key(UserName=policy, AccessKeyId=made["AccessKeyId"])
        iam.delete_user_policy(UserName=policy, PolicyName="its")
        iam.delete_user(UserName=policy)


@contextmanager
def restored_table(service: Service) -> Iterator[str]:
    """With the items of now, under the name that the runbook gives it."""
    dynamodb, name = service.stack.emulator.client("dynamodb"), "Ostler-Table-restored"
    keys = {"pk": "HASH", "sk": "RANGE"}
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": one, "KeyType": kind} for one, kind in keys.items()],
        AttributeDefinitions=[{"AttributeName": one, "AttributeType": "S"} for one in keys],
    )
    for item in service.items():
        dynamodb.put_item(TableName=name, Item=item)
    try:
        yield name
    finally:
        dynamodb.delete_table(TableName=name)


def refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except ClientError as error:
        return "AccessDenied" in str(error)
    return False


def test_a_deployer_puts_the_key_makes_keys_restores_and_looks_before_a_teardown(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    novita = NovitaAccount("local", service.stack.novita_url, loopback=True)
    with restored_table(service) as restored, somebody_with(service, "deployer", monkeypatch) as target:
        table = target.table(target.stack().table_name)

        assert Deploy(target, lambda *_: 0).run({"NOVITA_API_KEY": "local"}) == 0
        assert Teardown.read(table, novita).run(lambda: 0, force=False, say=print) == 0
        restore_items(table, list(scan_items(target.table(restored))))
        assert list_keys(table)
        cloudformation = target.client("cloudformation")
        for protected in (False, True):
            cloudformation.update_termination_protection(
                StackName=target.stack().arn, EnableTerminationProtection=protected
            )
        assert refused(partial(target.client("sqs").list_queues))
        assert refused(partial(cloudformation.delete_stack, StackName=target.stack().arn))


def test_a_canary_makes_itself_a_key_and_sees_nothing_of_the_table(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with somebody_with(service, "smoke", monkeypatch) as target:
        with find_service({}, lambda: target) as client:
            local = replace(client, url=service.stack.api_url)
            assert SmokeTest(local, "", None, said.append).run(), said
        table = target.table(target.stack().table_name)

        assert refused(lambda: table.get_item(Key={"pk": "deployment", "sk": "deployment"}))
        assert refused(lambda: table.put_item(Item={"pk": "deployment", "sk": "deployment"}))
        assert refused(lambda: table.scan())
        assert refused(lambda: Deploy(target, lambda *_: 0).run({"NOVITA_API_KEY": "stolen"}))


def test_a_key_of_a_smoke_test_goes_by_itself(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        somebody_with(service, "smoke", monkeypatch) as target,
        find_service({}, lambda: target),
    ):
        pass

    keys = [item for item in service.items() if item["pk"]["S"].startswith("key#")]
    assert all("expiresAt" in item for item in keys if item["name"]["S"] == "smoke test")
