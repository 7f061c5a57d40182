"""What is changed in the real template before the emulator gets it: addresses, keys and settings."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from functions.shared.domain.messages import MORE_DELIVERIES
from functions.shared.platform.settings import Settings

CONCURRENCY = "MAX_CONCURRENT_JOBS"
RETRIES = "MAX_RETRY_ATTEMPTS"


def adapt_template(
    template: Mapping[str, Any], *, bucket: str, code_key: str, settings: Mapping[str, str]
) -> dict[str, Any]:
    """Settings reach the functions that read them; the two that queues are made with reach these too."""
    secrets = frozenset(name for name, _ in _resources(template, "AWS::SecretsManager::Secret"))
    result: dict[str, Any] = _refer_by_arn(template, secrets)
    # What checks that the account was bootstrapped for CDK.
    result.pop("Rules", None)
    result.get("Parameters", {}).pop("BootstrapVersion", None)
    for function in _properties(result, "AWS::Lambda::Function"):
        if function["Handler"].startswith("functions."):
            function["Code"] = {"S3Bucket": bucket, "S3Key": code_key}
            read = _read_by(function["Handler"].split(".")[1])
            given = {name: value for name, value in settings.items() if name in read}
            function.setdefault("Environment", {}).setdefault("Variables", {}).update(given)
    work = {name: queue for name, queue in _resources(result, "AWS::SQS::Queue") if "RedrivePolicy" in queue}
    if retries := settings.get(RETRIES):
        for queue in work.values():
            queue["RedrivePolicy"]["maxReceiveCount"] = int(retries) + 1 + MORE_DELIVERIES
    if concurrency := settings.get(CONCURRENCY):
        for source in _properties(result, "AWS::Lambda::EventSourceMapping"):
            if source["EventSourceArn"].get("Fn::GetAtt", [""])[0] in work:
                source["ScalingConfig"]["MaximumConcurrency"] = int(concurrency)
    return result


def minify(template: Mapping[str, Any]) -> str:
    return json.dumps(template, separators=(",", ":"))


def _read_by(function: str) -> set[str]:
    by = {item.name.upper(): item.metadata["by"] for item in fields(Settings)}
    return {name for name, who in by.items() if who == "all" or function in who.split()}


def _refer_by_arn(node: Any, secrets: frozenset[str]) -> Any:
    """A copy that refers to secrets by `Id`: the ARN, which `Ref` is on AWS too, but not on the emulator."""
    if isinstance(node, Mapping):
        if node.keys() == {"Ref"} and node["Ref"] in secrets:
            return {"Fn::GetAtt": [node["Ref"], "Id"]}
        return {key: _refer_by_arn(value, secrets) for key, value in node.items()}
    if isinstance(node, list):
        return [_refer_by_arn(value, secrets) for value in node]
    return node


def _properties(template: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    return [properties for _, properties in _resources(template, kind)]


def _resources(template: Mapping[str, Any], kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, resource in template["Resources"].items():
        if resource["Type"] == kind:
            yield name, resource["Properties"]
