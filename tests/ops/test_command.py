"""Ordinary mistakes of whoever runs a command: one line, no traceback."""

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from ops import cdk, deploy, keys, restore, smoke, teardown
from ops.command import CommandError, RefusalError, command
from ops.stack import DeployedStack

COMMANDS = [
    (cdk.main, ["--", "echo", "bootstrapped"]),
    (deploy.main, ["--", "echo", "deployed"]),
    (keys.main, ["list"]),
    (restore.main, ["--from", "ostler-restored"]),
    (smoke.main, []),
    (teardown.main, ["--", "echo", "removed"]),
]
NAMES = ["cdk", "deploy", "keys", "restore", "smoke", "teardown"]
each_command = pytest.mark.parametrize(("main", "arguments"), COMMANDS, ids=NAMES)


@pytest.fixture(autouse=True)
def nobodys_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("AWS_", "OSTLER_", "SMOKE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)


def ran(
    main: Callable[[], int],
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> tuple[int, str]:
    monkeypatch.setattr("sys.argv", ["command", *arguments])
    code = main()
    return code, capfd.readouterr().err


@each_command
def test_no_region_is_one_line(
    main: Callable[[], int],
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert ran(main, arguments, monkeypatch, capfd) == (1, "ostler: You must specify a region.\n")


@each_command
def test_no_credentials_are_one_line(
    main: Callable[[], int],
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")

    assert ran(main, arguments, monkeypatch, capfd) == (1, "ostler: Unable to locate credentials\n")


@each_command
@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-1"}, "AWS_REGION is eu-west-1 and"),
        (
            {"AWS_REGION": "eu-west-1", "AWS_PROFILE": "prod", "AWS_ACCESS_KEY_ID": "x"},
            "AWS_PROFILE is prod and AWS_ACCESS_KEY_ID is set too",
        ),
    ],
)
def test_what_the_cdk_and_boto3_would_read_differently_is_refused_by_every_command(
    main: Callable[[], int],
    arguments: list[str],
    environment: dict[str, str],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    code, said = ran(main, arguments, monkeypatch, capfd)

    assert code == RefusalError.exit_code
    assert said.startswith(f"ostler: {why}")


class NothingButLooks:
    """An account in which a stack of that name is somewhere else; whatever would change it is not there."""

    def get_caller_identity(self) -> dict[str, str]:
        return {"Account": "123456789012"}

    def describe_stacks(self, **_: str) -> dict[str, list[dict[str, Any]]]:
        arn = "arn:aws:cloudformation:us-east-1:210987654321:stack/Ostler/1"
        return {"Stacks": [{"StackId": arn, "StackStatus": "CREATE_COMPLETE", "Outputs": []}]}

    def get_paginator(self, name: str) -> Any:
        assert name == "list_stack_resources"
        return SimpleNamespace(paginate=lambda **_: [{"StackResourceSummaries": []}])


@pytest.mark.parametrize(("main", "arguments"), COMMANDS[1:], ids=[*NAMES[1:]])  # all that are about a stack
def test_a_stack_in_another_account_is_named_and_nothing_is_put_or_removed_there(
    main: Callable[[], int],
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("NOVITA_API_KEY", "sk_1")
    monkeypatch.setattr(boto3.Session, "client", lambda *_, **__: NothingButLooks())

    code, said = ran(main, arguments, monkeypatch, capfd)

    assert code == RefusalError.exit_code
    assert "account 123456789012, region us-east-1, stack arn:aws:cloudformation:us-east-1:2109" in said
    assert said.endswith("the stack is in us-east-1/210987654321, not in us-east-1/123456789012\n")


def test_what_aws_refuses_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    @command
    def main() -> int:
        raise ClientError(
            {"Error": {"Code": "ValidationError", "Message": "Stack with id Ostler does not exist"}},
            "ListStackResources",
        )

    assert main() == 1
    said = capfd.readouterr().err
    assert said.startswith("ostler: ")
    assert said.endswith("Stack with id Ostler does not exist\n")


def test_a_stack_that_was_not_finished_says_so() -> None:
    with pytest.raises(CommandError, match="no output TableName"):
        _ = DeployedStack((), {}).table_name
