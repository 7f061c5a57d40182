"""The deployed stack: its functions and outputs, read from CloudFormation.

`local` reads it from the emulator: it imports from `ops`, and `ops` never from `local`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ops.command import CommandError

STACK_NAME = "Ostler"
DEFAULT_STAGE = "prod"


def stack_name(stage: str) -> str:
    """As infra/options.py names it, which is not imported here but compared."""
    return STACK_NAME if stage == DEFAULT_STAGE else f"{STACK_NAME}-{stage}"


@dataclass(frozen=True)
class DeployedStack:
    functions: tuple[str, ...]
    outputs: Mapping[str, str]
    arn: str = ""

    @classmethod
    def read(cls, cloudformation: Any, name: str = STACK_NAME) -> "DeployedStack":
        pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=name)
        resources = [item for page in pages for item in page["StackResourceSummaries"]]
        functions = [item for item in resources if item["ResourceType"] == "AWS::Lambda::Function"]
        described = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
        return cls(
            functions=tuple(sorted(item["PhysicalResourceId"] for item in functions)),
            outputs={one["OutputKey"]: one["OutputValue"] for one in described.get("Outputs", [])},
            arn=described["StackId"],
        )

    @property
    def api_id(self) -> str:
        return self._output("ApiId")

    @property
    def api_url(self) -> str:
        return self._output("ApiUrl")

    @property
    def auth(self) -> str:
        return self._output("Auth")

    @property
    def table_name(self) -> str:
        return self._output("TableName")

    @property
    def novita_secret_id(self) -> str:
        return self._output("NovitaSecretId")

    @property
    def webhook_secret_id(self) -> str:
        return self._output("WebhookSecretId")

    def _output(self, name: str) -> str:
        if name not in self.outputs:
            raise CommandError(f"the stack has no output {name}: did its deploy end well?")
        return self.outputs[name]
