"""The pipeline to copy: it runs commands that there are, and does nothing before somebody sets it up."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

yaml: Any = import_module("yaml")  # cfn-lint brings it, without types

ROOT = Path(__file__).parents[2]
WORKFLOWS = {path.stem: path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")}
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


def parsed(name: str) -> Any:
    return yaml.safe_load(WORKFLOWS[name])


def test_there_is_one_for_checks_one_for_deploys_and_a_canary() -> None:
    assert WORKFLOWS.keys() == {"check", "deploy", "deploy-stage", "canary"}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_it_runs_what_the_makefile_has(name: str) -> None:
    commands = re.findall(r"run: make ([a-z]+)", WORKFLOWS[name])

    assert set(commands) <= TARGETS
    assert name == "deploy" or commands


def test_checks_are_those_that_anybody_runs() -> None:
    assert "run: make check" in WORKFLOWS["check"]
    assert "id-token" not in WORKFLOWS["check"], "which have no business at AWS"


@pytest.mark.parametrize(("name", "variable"), [("deploy", "DEPLOY"), ("canary", "SMOKE")])
def test_nothing_is_deployed_or_asked_before_a_role_is_named(name: str, variable: str) -> None:
    assert f"if: vars.OSTLER_{variable}_ROLE != ''" in WORKFLOWS[name]


def test_no_aws_key_is_kept_anywhere() -> None:
    for text in WORKFLOWS.values():
        assert "AWS_SECRET_ACCESS_KEY" not in text
        assert "role-to-assume" not in text or "id-token: write" in text


def test_a_stage_is_tried_after_its_deploy_and_prod_comes_after_dev() -> None:
    stage = WORKFLOWS["deploy-stage"]

    assert stage.index("make deploy STAGE=") < stage.index("make smoke STAGE=")
    assert re.search(r"prod:\n\s+needs: dev", WORKFLOWS["deploy"])


def test_the_canary_buys_nothing() -> None:
    canary = parsed("canary")

    assert canary[True]["schedule"] == [{"cron": "17 * * * *"}], "`on` is a boolean to YAML"
    assert [step["run"] for step in canary["jobs"]["smoke"]["steps"] if "run" in step] == [
        "make smoke STAGE=prod"
    ]
    assert "SMOKE_BUY" not in WORKFLOWS["canary"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_whatever_takes_a_role_may_and_what_is_called_is_there(name: str) -> None:
    workflow = parsed(name)

    for job in workflow["jobs"].values():
        if called := job.get("uses"):
            assert (ROOT / called).is_file()
        takes_a_role = called or any("role-to-assume" in step.get("with", {}) for step in job["steps"])
        assert (workflow["permissions"].get("id-token") == "write") is bool(takes_a_role)
