"""Which deployment a command means: account, region and stage, the same for the AWS SDK and for the CDK.

The two read the environment differently. boto3 takes AWS_DEFAULT_REGION and prefers keys to AWS_PROFILE; the
CDK takes AWS_REGION first, prefers AWS_PROFILE to keys, and falls back to us-east-1. So it is resolved here,
once; what could mean two things is refused; and the CDK is given the result.
"""

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import boto3
from botocore.exceptions import NoCredentialsError, NoRegionError

from ops.command import RefusalError
from ops.stack import DEFAULT_STAGE, DeployedStack, stack_name

STAGE = re.compile(r"[a-z][a-z0-9]{0,15}")

# What would make another account of what was resolved here.
SOURCES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN")


@dataclass(frozen=True)
class Target:
    session: boto3.Session
    region: str
    stage: str = DEFAULT_STAGE

    @classmethod
    def find(
        cls,
        environment: Mapping[str, str],
        *,
        profile: str | None = None,
        region: str | None = None,
        stage: str | None = None,
    ) -> "Target":
        session = boto3.Session(
            profile_name=_profile(profile, environment), region_name=_region(region, environment)
        )
        if not session.region_name:
            raise NoRegionError
        if not session.get_credentials():
            raise NoCredentialsError
        return cls(session, session.region_name, stage or DEFAULT_STAGE)

    @cached_property
    def account(self) -> str:
        return str(self.session.client("sts").get_caller_identity()["Account"])

    @property
    def name(self) -> str:
        return stack_name(self.stage)

    def client(self, service: str) -> Any:
        return self.session.client(service)  # type: ignore[call-overload]  # any service, not a literal

    def table(self, name: str) -> Any:
        return self.session.resource("dynamodb").Table(name)

    def stack(self) -> DeployedStack:
        """The deployed one: named before anything is done to it, and refused if it is somewhere else."""
        stack = DeployedStack.read(self.client("cloudformation"), self.name)
        say(f"account {self.account}, region {self.region}, stack {stack.arn}")
        place = tuple(stack.arn.split(":")[3:5])
        if place != (self.region, self.account):
            raise RefusalError(f"the stack is in {'/'.join(place)}, not in {self.region}/{self.account}")
        return stack

    def cdk_environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """For the CDK to mean the same; app.py compares what it is told with what the CDK then says."""
        credentials = self.session.get_credentials()
        if not credentials:
            raise NoCredentialsError
        found = credentials.get_frozen_credentials()
        kept = {name: value for name, value in environment.items() if name not in SOURCES}
        return {
            **kept,
            "AWS_ACCESS_KEY_ID": str(found.access_key),
            "AWS_SECRET_ACCESS_KEY": str(found.secret_key),
            **({"AWS_SESSION_TOKEN": found.token} if found.token else {}),
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "OSTLER_ACCOUNT": self.account,
            "OSTLER_REGION": self.region,
        }


def _profile(given: str | None, environment: Mapping[str, str]) -> str | None:
    named = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE")
    if not given and named and environment.get("AWS_ACCESS_KEY_ID"):
        raise RefusalError(
            f"AWS_PROFILE is {named} and AWS_ACCESS_KEY_ID is set too: the CDK would take the one, the rest "
            "the other. Unset one of them, or say which with PROFILE="
        )
    return given or named


def _region(given: str | None, environment: Mapping[str, str]) -> str | None:
    found = {
        name: environment[name] for name in ("AWS_REGION", "AWS_DEFAULT_REGION") if environment.get(name)
    }
    if not given and len(set(found.values())) > 1:
        both = " and ".join(f"{name} is {value}" for name, value in found.items())
        raise RefusalError(f"{both}: the CDK would take the one, the rest the other. Say which with REGION=")
    return given or next(iter(found.values()), None)


def say(line: str) -> None:
    """Beside what a command is asked for, which may be read by a program."""
    print(line, file=sys.stderr, flush=True)


def target_parser(prog: str, about: str | None = None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=about)
    parser.add_argument("--profile", help="of your AWS configuration (make: PROFILE=)")
    parser.add_argument("--region", help="AWS region (make: REGION=)")
    parser.add_argument(
        "--stage", type=_stage, help=f"which deployment, {DEFAULT_STAGE} if none (make: STAGE=)"
    )
    return parser


def parse_target(arguments: argparse.Namespace) -> Target:
    return Target.find(os.environ, profile=arguments.profile, region=arguments.region, stage=arguments.stage)


def parse_cdk(prog: str, about: str | None, argv: Sequence[str] | None = None) -> tuple[Target, list[str]]:
    """The target, and the CDK's command after it: `--stage dev -- npx … deploy`."""
    parser = target_parser(prog, about)
    parser.add_argument("command", nargs="+", help="the CDK's, after --")
    arguments = parser.parse_args(argv)
    return parse_target(arguments), list(arguments.command)


def _stage(text: str) -> str:
    if not STAGE.fullmatch(text):
        raise argparse.ArgumentTypeError("must be 1 to 16 of a-z and 0-9, with a letter first")
    return text
