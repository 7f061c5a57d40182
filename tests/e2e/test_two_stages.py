"""Two stages in one account, deployed and removed with the real command line of the CDK, over the emulator.

The emulator runs functions with this machine's Python, so that the asset is built for it; the rest is what
`make deploy` does in an account.
"""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.emulator import ACCESS_KEY, ACCOUNT, REGION, SECRET_KEY, Emulator
from local.novita.client import Simulator
from local.novita.process import running
from local.paths import ROOT
from local.ports import Ports
from local.template import adapt_template, minify
from local.waiting import wait_until
from ops.command import RefusalError
from ops.smoke import SmokeTest, find_service
from ops.target import Target
from tests.infra.template import Template, synthesise

pytestmark = pytest.mark.soak

STAGES = {"prod": "Ostler", "dev": "Ostler-dev"}
CDK = re.search(r"^CDK := (.*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


@dataclass
class Account:
    emulator: Emulator
    environment: dict[str, str]
    novita_url: str
    said: str = field(default="", init=False)

    def make(self, command: str, stage: str, **more: str) -> int:
        """A command as somebody types it; what it says is kept."""
        variables = {"STAGE": stage, **more}
        given = [f"{name}={value}" for name, value in variables.items() if value]
        return self.run(["make", command, *given])

    def run(self, command: list[str], **environment: str) -> int:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        self.said = done.stdout + done.stderr
        return done.returncode

    def deploy(self, stage: str) -> int:
        """On whatever Node.js there is, of which nobody wants to hear each time."""
        settings = json.dumps({"NOVITA_API_BASE_URL": self.novita_url})
        code = self.make(
            "deploy", stage, ARGS=f"--require-approval never -c {shlex.quote(f'settings={settings}')}"
        )
        assert not re.search("end-of-life|NodeVersionSupportWarning", self.said)
        return code

    def smoke(self, stage: str) -> list[str]:
        """At the emulator's address, which the stack does not know."""
        said: list[str] = []
        target = Target.find(os.environ, stage=stage)
        with find_service({}, lambda: target) as client:
            url = f"{self.emulator.url}/_aws/execute-api/{target.stack().api_id}/$default"
            assert SmokeTest(replace(client, url=url), "", None, said.append).run(), said
        return said

    def template(self, text: str, name: str) -> dict[str, Any]:
        """As CloudFormation takes one that is too long to be sent with the call."""
        s3, bucket = self.emulator.client("s3"), f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
        s3.put_object(Bucket=bucket, Key=name, Body=text.encode())
        return {
            "TemplateURL": f"{self.emulator.url}/{bucket}/{name}",
            "Capabilities": ["CAPABILITY_NAMED_IAM"],
        }

    def stacks(self) -> set[str]:
        found = self.emulator.client("cloudformation").describe_stacks()["Stacks"]
        return {one["StackName"] for one in found if one["StackStatus"].endswith("_COMPLETE")} - {
            "CDKToolkit"
        }

    def stack(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.emulator.client("cloudformation").describe_stacks(StackName=name)[
            "Stacks"
        ][0]
        return found

    def alarms(self) -> set[str]:
        pages = self.emulator.client("cloudwatch").get_paginator("describe_alarms").paginate()
        return {alarm["AlarmName"] for page in pages for alarm in page["MetricAlarms"]}


@pytest.fixture(scope="module")
def novita() -> Iterator[Simulator]:
    with running() as simulator:
        yield simulator


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory, novita: Simulator) -> Iterator[Account]:
    with (
        Emulator(tmp_path_factory.mktemp("account"), Ports.free().emulator) as emulator,
        pytest.MonkeyPatch.context() as patched,
    ):
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patched.delenv(name)
        for name, value in {
            "AWS_ENDPOINT_URL": emulator.url,
            "AWS_ENDPOINT_URL_S3": emulator.url,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        }.items():
            patched.setenv(name, value)
        environment = {
            **os.environ,
            "NO_PROXY": "127.0.0.1",
            "OSTLER_ASSET": "here",
            "NOVITA_API_KEY": "local",
            "NOVITA_API_BASE_URL": novita.api_url,
        }
        made = Account(emulator, environment, novita.api_url)
        assert made.make("bootstrap", "") == 0, made.said
        yield made


def test_two_stages_live_side_by_side_and_the_end_of_one_leaves_the_other_whole(account: Account) -> None:
    for stage, name in STAGES.items():
        assert account.deploy(stage) == 0, account.said
        assert f"stack/{name}/" in account.said

    assert account.stacks() == {"Ostler", "OstlerWatch", "Ostler-dev", "OstlerWatch-dev"}
    for stage, name in STAGES.items():
        assert account.stack(name)["EnableTerminationProtection"]
        assert account.smoke(stage)[-1] == "7 of 7 checks passed"
    alarms = account.alarms()
    of_dev = {name for name in alarms if name.startswith("Ostler-dev-")}
    assert {name.replace("-dev", "", 1) for name in of_dev} == alarms - of_dev

    assert account.make("teardown", "dev", ARGS="--force") == 0, account.said

    assert account.stacks() == {"Ostler", "OstlerWatch"}
    assert account.alarms() == alarms - of_dev
    assert account.stack("Ostler")["EnableTerminationProtection"]
    assert account.smoke("prod")[-1] == "7 of 7 checks passed"
    with pytest.raises(ClientError, match="does not exist"):
        account.smoke("dev")


def test_a_stack_that_somebody_thinks_better_of_removing_stays_protected(account: Account) -> None:
    assert account.deploy("prod") == 0, account.said

    assert account.make("teardown", "prod", ARGS="--unknown-option") != 0

    assert account.stack("Ostler")["EnableTerminationProtection"]


@pytest.mark.parametrize("command", ["deploy", "teardown", "bootstrap"])
def test_an_option_for_the_cdk_alone_is_refused(account: Account, command: str) -> None:
    assert account.make(command, "", ARGS="--profile prod") != 0

    assert f"Error {RefusalError.exit_code}" in account.said
    assert "Use PROFILE=, REGION= and STAGE=" in account.said


@pytest.mark.parametrize("what", ["deploy", "destroy"])
def test_the_cdk_does_nothing_where_it_means_another_region_than_the_command(
    account: Account, what: str
) -> None:
    assert CDK
    before = account.stacks()
    elsewhere = {"OSTLER_ACCOUNT": ACCOUNT, "OSTLER_REGION": "eu-west-1"}

    assert account.run([*CDK[1].split(), what, "--all", "--force"], **elsewhere) != 0

    assert f"the CDK means region {REGION}, and the command that runs it eu-west-1" in account.said
    assert account.stacks() == before


def kept(account: Account, name: str) -> set[str]:
    """Tables, secrets and logs of a stack, whether or not the stack is there."""
    client = account.emulator.client
    tables = client("dynamodb").list_tables()["TableNames"]
    secrets = [one["Name"] for one in client("secretsmanager").list_secrets()["SecretList"]]
    logs = [one["logGroupName"] for one in client("logs").describe_log_groups()["logGroups"]]
    return {one for one in (*tables, *secrets, *logs) if name in one}


def wait_for(account: Account, name: str, status: str) -> None:
    def settled() -> bool:
        return not account.stack(name)["StackStatus"].endswith("_IN_PROGRESS")

    assert wait_until(settled, 60, pause=0.2)
    assert account.stack(name)["StackStatus"] == status


def broken(template: Template) -> str:
    """It has something that the emulator refuses, after everything else was made."""
    body = adapt_template(template.body, bucket="nobodys", code_key="lost.zip", settings={})
    refused = {"Type": "AWS::CloudWatch::Alarm", "Properties": {"Metrics": [{"Id": "math"}]}}
    body["Resources"]["Refused"] = {**refused, "DependsOn": list(body["Resources"])}
    return minify(body)


def test_a_first_deploy_that_fails_leaves_nothing_and_a_later_one_keeps_the_data(
    account: Account, tmp_path: Path
) -> None:
    cloudformation = account.emulator.client("cloudformation")
    (tmp_path / "first").mkdir()
    (tmp_path / "later").mkdir()
    first = broken(synthesise(tmp_path / "first", stage="first", firstDeploy="true"))

    cloudformation.create_stack(StackName="Ostler-first", **account.template(first, "first"))
    wait_for(account, "Ostler-first", "ROLLBACK_COMPLETE")

    assert kept(account, "Ostler-first") == set()

    assert account.deploy("prod") == 0, account.said
    before = kept(account, "Ostler-")
    later = broken(synthesise(tmp_path / "later"))
    cloudformation.update_stack(StackName="Ostler", **account.template(later, "later"))
    wait_for(account, "Ostler", "UPDATE_ROLLBACK_COMPLETE")

    assert kept(account, "Ostler-") == before
    assert account.smoke("prod")[-1] == "7 of 7 checks passed"
