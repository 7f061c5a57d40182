"""What is changed in the real template before the emulator gets it: addresses, keys and settings."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

CONCURRENCY = "MAX_CONCURRENT_JOBS"
RETRIES = "MAX_RETRY_ATTEMPTS"


def localised(
    template: Mapping[str, Any], *, bucket: str, bundle_key: str, settings: Mapping[str, str]
) -> dict[str, Any]:
    """Settings reach every function; the two that queues are made with reach these too."""
    result: dict[str, Any] = _with_arns_of_secrets(template, _names_of_type(template, "AWS::SecretsManager::Secret"))
    environment = {name: value for name, value in settings.items() if name != CONCURRENCY}
    # What checks that the account was bootstrapped for CDK.
    result.pop("Rules", None)
    result.get("Parameters", {}).pop("BootstrapVersion", None)
    for function in _of_type(result, "AWS::Lambda::Function"):
        if function["Handler"].startswith("functions."):
            function["Code"] = {"S3Bucket": bucket, "S3Key": bundle_key}
            function.setdefault("Environment", {}).setdefault("Variables", {}).update(environment)
    if concurrency := settings.get(CONCURRENCY):
        for source in _of_type(result, "AWS::Lambda::EventSourceMapping"):
            if "ScalingConfig" in source:
                source["ScalingConfig"]["MaximumConcurrency"] = int(concurrency)
    if retries := settings.get(RETRIES):
        for queue in _of_type(result, "AWS::SQS::Queue"):
            if "RedrivePolicy" in queue:
                queue["RedrivePolicy"]["maxReceiveCount"] = int(retries) + 1
    return result


def minified(template: Mapping[str, Any]) -> str:
    return json.dumps(template, separators=(",", ":"))


def _with_arns_of_secrets(node: Any, secrets: frozenset[str]) -> Any:
    """A copy in which secrets are referred to by `Id`: the ARN, as `Ref` is on AWS, but not on the emulator."""
    if isinstance(node, Mapping):
        if node.keys() == {"Ref"} and node["Ref"] in secrets:
            return {"Fn::GetAtt": [node["Ref"], "Id"]}
        return {key: _with_arns_of_secrets(value, secrets) for key, value in node.items()}
    if isinstance(node, list):
        return [_with_arns_of_secrets(value, secrets) for value in node]
    return node


def _names_of_type(template: Mapping[str, Any], kind: str) -> frozenset[str]:
    return frozenset(name for name, resource in template["Resources"].items() if resource["Type"] == kind)


def _of_type(template: Mapping[str, Any], kind: str) -> Iterator[dict[str, Any]]:
    for resource in template["Resources"].values():
        if resource["Type"] == kind:
            yield resource["Properties"]
