"""What AWS's own checkers say of the templates."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from aws_cdk import Stack
from aws_cdk import aws_sqs as sqs

import app
from tests.infra.template import Template


def test_cfn_lint_finds_nothing(template: Template, chosen: Template, signed: Template) -> None:
    command = [str(Path(sys.executable).with_name("cfn-lint")), "--ignore-checks", "W3005"]

    done = subprocess.run(
        [
            *command,
            "--template",
            *(
                str(one.file)
                for each in (template, chosen, signed)
                for one in (each, each.watch)
                if one.file.exists()
            ),
            str(chosen.edge.file),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_cdk_nag_finds_nothing_without_a_reason(
    template: Template, chosen: Template, signed: Template
) -> None:
    for each in (template, chosen, signed):
        report = json.loads((each.file.parent / "validation-report.json").read_text())
        assert not any(plugin["violations"] for plugin in report["pluginReports"])


def test_cdk_nag_stops_a_synthesis_that_breaks_a_rule(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    broken = app.build(tmp_path / "code", outdir=str(tmp_path / "out"))
    sqs.Queue(Stack(broken, "Another"), "Loose")  # neither dead letters nor TLS

    with pytest.raises(RuntimeError, match="AwsSolutions-SQS4"):
        broken.synth()
