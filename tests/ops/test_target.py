"""Which account, region and stage a command means: one answer for boto3 and the CDK, or none."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, NoRegionError

from local.paths import ROOT
from ops import cdk
from ops.command import RefusalError
from ops.stack import DeployedStack
from ops.target import Target, parse_cdk

KEYS = {"AWS_ACCESS_KEY_ID": "of-the-environment", "AWS_SECRET_ACCESS_KEY": "secret"}
CONFIG = """
[profile dev]
region = eu-west-1
[profile prod]
region = us-east-2
"""
CREDENTIALS = """
[dev]
aws_access_key_id = of-dev
aws_secret_access_key = secret
[prod]
aws_access_key_id = of-prod
aws_secret_access_key = secret
aws_session_token = token
"""


@pytest.fixture(autouse=True)
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody's machine with two profiles; each access key belongs to an account of its own."""
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, text in {"CONFIG_FILE": CONFIG, "SHARED_CREDENTIALS_FILE": CREDENTIALS}.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / name))
    monkeypatch.setattr(boto3.Session, "client", _client)


def _client(session: boto3.Session, service: str) -> Any:
    assert service == "sts"
    credentials = session.get_credentials()
    assert credentials
    return Sts(f"account {credentials.access_key}")


@dataclass(frozen=True)
class Sts:
    account: str

    def get_caller_identity(self) -> dict[str, str]:
        return {"Account": self.account}


def found(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], **given: str) -> tuple[str, str]:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    target = Target.find(os.environ, **given)
    return target.account, target.region


@pytest.mark.parametrize(
    ("environment", "given", "account", "region"),
    [
        ({}, {"profile": "dev"}, "of-dev", "eu-west-1"),
        ({}, {"profile": "dev", "region": "ap-south-1"}, "of-dev", "ap-south-1"),
        ({"AWS_PROFILE": "prod"}, {}, "of-prod", "us-east-2"),
        ({"AWS_PROFILE": "prod"}, {"profile": "dev"}, "of-dev", "eu-west-1"),
        ({**KEYS, "AWS_REGION": "eu-north-1"}, {}, "of-the-environment", "eu-north-1"),
        ({**KEYS, "AWS_DEFAULT_REGION": "eu-north-1"}, {}, "of-the-environment", "eu-north-1"),
        ({**KEYS, "AWS_REGION": "eu-north-1"}, {"profile": "prod"}, "of-prod", "eu-north-1"),
        (
            {**KEYS, "AWS_REGION": "eu-north-1", "AWS_DEFAULT_REGION": "us-west-1"},
            {"region": "sa-east-1"},
            "of-the-environment",
            "sa-east-1",
        ),
    ],
)
def test_what_is_said_comes_before_the_environment_and_that_before_the_profile(
    environment: dict[str, str],
    given: dict[str, str],
    account: str,
    region: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found(monkeypatch, environment, **given) == (f"account {account}", region)


def test_two_regions_that_boto3_and_the_cdk_would_read_differently_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    regions = {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-1"}

    with pytest.raises(
        RefusalError, match=r"AWS_REGION is eu-west-1 and AWS_DEFAULT_REGION is us-east-1.*REGION="
    ):
        found(monkeypatch, {**KEYS, **regions})


def test_keys_beside_a_profile_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusalError, match=r"AWS_PROFILE is prod and AWS_ACCESS_KEY_ID.*PROFILE="):
        found(monkeypatch, {**KEYS, "AWS_PROFILE": "prod"})


def test_without_a_region_nothing_is_guessed_though_the_cdk_would(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoRegionError):
        found(monkeypatch, KEYS)


def test_the_cdk_is_given_what_was_found_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "dev")
    target = Target.find(os.environ, profile="prod", region="eu-central-1")

    given = target.cdk_environment({**os.environ, "AWS_SESSION_TOKEN": "of another", "PATH": "/bin"})

    assert {name: given.get(name) for name in ("AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "AWS_PROFILE")} == {
        "AWS_ACCESS_KEY_ID": "of-prod",
        "AWS_SESSION_TOKEN": "token",
        "AWS_PROFILE": None,
    }
    assert given["AWS_REGION"] == given["AWS_DEFAULT_REGION"] == given["OSTLER_REGION"] == "eu-central-1"
    assert given["OSTLER_ACCOUNT"] == "account of-prod"
    assert given["PATH"] == "/bin"


def target(stage: str = "prod") -> Target:
    return Target.find(os.environ, profile="dev", stage=stage)


@pytest.mark.parametrize("option", ["--profile", "--profile=prod", "--region", "--app", "-a"])
def test_options_that_would_be_for_the_cdk_alone_are_refused(option: str) -> None:
    with pytest.raises(RefusalError, match=r"PROFILE=, REGION= and STAGE="):
        cdk.run_cdk(target(), ["echo", "deploy", "--all", option, "prod"])


def test_the_cdk_deploys_the_stage_that_was_meant(capfd: pytest.CaptureFixture[str]) -> None:
    assert cdk.run_cdk(target("dev"), ["echo", "deploy", "--all"], "-c", "firstDeploy=true") == 0

    assert capfd.readouterr().out == "deploy --all -c firstDeploy=true -c stage=dev\n"


@pytest.mark.parametrize("stage", ["Dev", "my-stage", "1st", "x" * 17])
def test_a_stage_that_cannot_be_one_is_named(stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_cdk("deploy", None, ["--stage", stage, "--", "cdk"])

    assert "must be 1 to 16 of a-z and 0-9" in capsys.readouterr().err


def test_a_stack_is_named_before_anything_is_done_to_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arn = "arn:aws:cloudformation:eu-west-1:account of-dev:stack/Ostler-dev/1"
    monkeypatch.setattr(Target, "client", lambda *_: None)
    monkeypatch.setattr(DeployedStack, "read", lambda _, name: DeployedStack((), {"Name": name}, arn))

    assert target("dev").stack().outputs == {"Name": "Ostler-dev"}

    assert capsys.readouterr().err == f"account account of-dev, region eu-west-1, stack {arn}\n"


@pytest.mark.parametrize("place", ["us-east-2:account of-dev", "eu-west-1:account of-prod"])
def test_a_stack_that_is_somewhere_else_is_refused(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arn = f"arn:aws:cloudformation:{place}:stack/Ostler/1"
    monkeypatch.setattr(Target, "client", lambda *_: None)
    monkeypatch.setattr(DeployedStack, "read", lambda *_: DeployedStack((), {}, arn))

    with pytest.raises(RefusalError, match="the stack is in"):
        target().stack()


def test_a_stack_that_is_not_there_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any) -> DeployedStack:
        raise ClientError({"Error": {"Code": "ValidationError", "Message": "does not exist"}}, "Describe")

    monkeypatch.setattr(Target, "client", lambda *_: None)
    monkeypatch.setattr(DeployedStack, "read", read)

    with pytest.raises(ClientError, match="does not exist"):
        target().stack()


@pytest.mark.parametrize("name", ["bootstrap", "deploy", "smoke", "keys", "restore", "teardown"])
def test_make_hands_the_target_to_every_command(name: str) -> None:
    """As it is typed; the module that runs says the rest."""
    typed = ["make", "-n", name, "PROFILE=work", "REGION=eu-west-1", "STAGE=dev"]

    said = subprocess.run(typed, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    (line,) = [one for one in said.splitlines() if " -m ops." in one]
    assert "--profile work --region eu-west-1 --stage dev" in line
