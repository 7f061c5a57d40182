"""`make deploy`: the key is put as soon as the service is there, and what is left to do is told."""

from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from ops.deploy import Deploy
from ops.stack import DeployedStack
from ops.target import Target

OUTPUTS = {"ApiUrl": "https://a.example", "Auth": "keys", "NovitaSecretId": "arn:secret"}


@dataclass
class Account:
    """What CloudFormation and Secrets Manager hold, and what the CDK was told to do."""

    status: str = ""  # of the stack; none: there is none
    auth: str = "keys"
    exit_codes: list[int] = field(default_factory=list)
    ran: list[tuple[str, ...]] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    makes: bool = True

    def cdk(self, *more: str) -> int:
        self.ran.append(more)
        if self.makes:
            self.status = "CREATE_COMPLETE"
        return self.exit_codes.pop(0) if self.exit_codes else 0

    def describe_stacks(self, **_: str) -> Any:
        if not self.status:
            raise ClientError({"Error": {"Code": "ValidationError", "Message": "no such stack"}}, "Describe")
        return {"Stacks": [{"StackStatus": self.status}]}

    def put_secret_value(self, **given: str) -> None:
        self.secrets[given["SecretId"]] = given["SecretString"]


@dataclass(frozen=True)
class FakeTarget(Target):
    on: Account = field(kw_only=True)
    account = "1"

    def client(self, service: str) -> Any:
        assert service in ("cloudformation", "secretsmanager")
        return self.on

    def stack(self) -> DeployedStack:
        return DeployedStack((), {**OUTPUTS, "Auth": self.on.auth}, "arn:stack")


def deploy(account: Account, stage: str = "prod", **environment: str) -> int:
    target = FakeTarget(boto3.Session(region_name="us-east-1"), "us-east-1", stage, on=account)
    return Deploy(target, account.cdk).run(environment)


def test_the_first_deploy_is_made_without_protection_and_once_more_with_it() -> None:
    account = Account()

    assert deploy(account) == 0
    assert account.ran == [("-c", "firstDeploy=true"), ()]


@pytest.mark.parametrize("status", ["ROLLBACK_COMPLETE", "REVIEW_IN_PROGRESS"])
def test_after_a_first_one_that_failed_the_next_is_the_first(status: str) -> None:
    account = Account(status)

    deploy(account)

    assert account.ran[0] == ("-c", "firstDeploy=true")


def test_a_later_deploy_is_protected_all_the_time() -> None:
    account = Account("UPDATE_COMPLETE")

    assert deploy(account) == 0
    assert account.ran == [()]


def test_the_key_is_put_even_if_the_alarms_stack_fails() -> None:
    account = Account(exit_codes=[1])

    assert deploy(account, NOVITA_API_KEY="sk_1") == 1
    assert account.secrets == {"arn:secret": "sk_1"}
    assert len(account.ran) == 1


def test_no_key_is_put_where_there_is_no_service(capsys: pytest.CaptureFixture[str]) -> None:
    account = Account(exit_codes=[1], makes=False)

    assert deploy(account, NOVITA_API_KEY="sk_1") == 1
    assert account.secrets == {}
    assert "is deployed" not in capsys.readouterr().out


@pytest.mark.parametrize(("auth", "needs_a_key"), [("keys", True), ("jwt", False), ("iam", False)])
def test_a_key_is_asked_for_where_keys_let_in(
    auth: str, needs_a_key: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    deploy(Account(auth=auth), stage="dev")

    said = capsys.readouterr().out
    assert "Ostler-dev is deployed: https://a.example" in said
    assert ("make keys STAGE=dev ARGS=" in said) is needs_a_key
    assert "NOVITA_API_KEY" in said
