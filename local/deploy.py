"""Puts the template and the functions' code on the emulator, and says what came of it."""

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from local.bundle import bundle, bundle_key
from local.emulator import ACCOUNT, REGION, Emulator
from local.problems import StartError
from local.template import localised, minified
from local.waiting import wait_until
from ops.stack import STACK_NAME

BUCKET = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"  # where the CDK would put it too
MAX_INLINE_TEMPLATE_BYTES = 51_200
DEPLOY_SECONDS = 120


def deploy(emulator: Emulator, template: Mapping[str, Any], settings: Mapping[str, str]) -> str:
    """Says what it did."""
    s3, cloudformation = emulator.client("s3"), emulator.client("cloudformation")
    s3.create_bucket(Bucket=BUCKET)
    key = bundle_key()
    _upload_code(s3, key)
    text = minified(localised(template, bucket=BUCKET, bundle_key=key, settings=settings))
    exists = _status(cloudformation) is not None
    send = cloudformation.update_stack if exists else cloudformation.create_stack
    source = _template_source(emulator, s3, text)
    try:
        send(StackName=STACK_NAME, Capabilities=["CAPABILITY_NAMED_IAM"], **source)
    except ClientError as error:
        if "No updates are to be performed" in str(error):
            return "unchanged"
        raise StartError(f"the emulator refuses the template: {error}") from error
    _wait(cloudformation, "UPDATE_COMPLETE" if exists else "CREATE_COMPLETE")
    _drop_old_code(s3, key)
    return "updated" if exists else "created"


def _upload_code(s3: Any, key: str) -> None:
    try:
        s3.head_object(Bucket=BUCKET, Key=key)
    except ClientError:
        s3.put_object(Bucket=BUCKET, Key=key, Body=bundle())


def _drop_old_code(s3: Any, key: str) -> None:
    for item in s3.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        if item["Key"].endswith(".zip") and item["Key"] != key:
            s3.delete_object(Bucket=BUCKET, Key=item["Key"])


def _template_source(emulator: Emulator, s3: Any, text: str) -> dict[str, str]:
    if len(text.encode()) <= MAX_INLINE_TEMPLATE_BYTES:
        return {"TemplateBody": text}
    s3.put_object(Bucket=BUCKET, Key=f"{STACK_NAME}.template.json", Body=text.encode())
    return {"TemplateURL": f"{emulator.url}/{BUCKET}/{STACK_NAME}.template.json"}


def _status(cloudformation: Any) -> str | None:
    try:
        return str(cloudformation.describe_stacks(StackName=STACK_NAME)["Stacks"][0]["StackStatus"])
    except ClientError:
        return None


def _wait(cloudformation: Any, wanted: str) -> None:
    def settled() -> bool:
        return not str(_status(cloudformation)).endswith("_IN_PROGRESS")

    wait_until(settled, DEPLOY_SECONDS, pause=0.1)
    if (status := _status(cloudformation)) != wanted:
        events = cloudformation.describe_stack_events(StackName=STACK_NAME)["StackEvents"]
        reasons = [
            f"  {event['LogicalResourceId']}: {event['ResourceStatusReason']}"
            for event in reversed(events)
            if event["ResourceStatus"].endswith("_FAILED") and event.get("ResourceStatusReason")
        ]
        raise StartError("\n".join([f"the stack {STACK_NAME} is {status} on the emulator:", *reasons]))
