"""The app and the commands that run the CDK over it: they mean the same deployment, or nothing is done."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import app
from infra.options import Options
from ops.stack import stack_name


@pytest.mark.parametrize("stage", ["prod", "dev", "test2"])
def test_commands_and_templates_call_a_stage_the_same(stage: str) -> None:
    assert stack_name(stage) == Options.read({"stage": stage}.get).name


# What the CDK's command line tells the app, against what the command that runs it looked at.
SAME = {
    "OSTLER_ACCOUNT": "1",
    "OSTLER_REGION": "eu-west-1",
    "CDK_DEFAULT_ACCOUNT": "1",
    "CDK_DEFAULT_REGION": "eu-west-1",
}


def test_the_app_goes_on_where_the_cdk_means_the_same_or_nobody_compares() -> None:
    app.require_same_target(SAME)
    app.require_same_target({})
    app.require_same_target({"CDK_DEFAULT_ACCOUNT": "2", "CDK_DEFAULT_REGION": "eu-west-1"})


@pytest.mark.parametrize(
    ("name", "value"), [("CDK_DEFAULT_ACCOUNT", "2"), ("CDK_DEFAULT_REGION", "us-east-1")]
)
def test_the_app_ends_before_anything_is_deployed_or_destroyed_elsewhere(name: str, value: str) -> None:
    environment = {**os.environ, **SAME, name: value}

    ended = subprocess.run(
        [sys.executable, "app.py"],
        cwd=Path(app.__file__).parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode != 0
    assert f"the CDK means {name.rpartition('_')[2].lower()} {value}" in ended.stderr
    assert "PROFILE= and REGION=" in ended.stderr
