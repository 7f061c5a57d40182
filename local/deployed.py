"""What a deployed stack says about itself, on the emulator and on AWS alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STACK_NAME = "Ostler"


@dataclass(frozen=True)
class Deployed:
    functions: tuple[str, ...]
    outputs: Mapping[str, str]

    @classmethod
    def read(cls, cloudformation: Any, stack_name: str = STACK_NAME) -> "Deployed":
        pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack_name)
        resources = [item for page in pages for item in page["StackResourceSummaries"]]
        functions = [item for item in resources if item["ResourceType"] == "AWS::Lambda::Function"]
        outputs = cloudformation.describe_stacks(StackName=stack_name)["Stacks"][0].get("Outputs", [])
        return cls(
            functions=tuple(sorted(item["PhysicalResourceId"] for item in functions)),
            outputs={output["OutputKey"]: output["OutputValue"] for output in outputs},
        )

    @property
    def api_id(self) -> str:
        return self.outputs["ApiId"]

    @property
    def table_name(self) -> str:
        return self.outputs["TableName"]

    @property
    def novita_secret_id(self) -> str:
        return self.outputs["NovitaSecretId"]

    @property
    def webhook_secret_id(self) -> str:
        return self.outputs["WebhookSecretId"]
