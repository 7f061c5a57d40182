"""Deploys the template and the functions' code to the emulator.

The code is ours alone, since the dependencies are in the emulator's environment: the asset that is deployed
for real holds wheels for arm64, which this machine may not be able to load.
"""

import hashlib
import io
import py_compile
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from infra import page
from local.emulator import ACCOUNT, REGION, Emulator
from local.paths import FUNCTIONS, ROOT
from local.template import adapt_template, minify
from local.waiting import wait_until
from ops.command import CommandError
from ops.stack import STACK_NAME

BUCKET = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"  # where the CDK would put it too
MAX_INLINE_TEMPLATE_BYTES = 51_200
DEPLOY_SECONDS = 120
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def deploy(emulator: Emulator, template: Mapping[str, Any], settings: Mapping[str, str]) -> str:
    """What it did: created, updated or unchanged."""
    s3, cloudformation = emulator.client("s3"), emulator.client("cloudformation")
    s3.create_bucket(Bucket=BUCKET)
    key = _code_key()
    _upload_code(s3, key)
    text = minify(adapt_template(template, bucket=BUCKET, code_key=key, settings=settings))
    exists = _status(cloudformation) is not None
    send = cloudformation.update_stack if exists else cloudformation.create_stack
    source = _template_source(emulator, s3, text)
    try:
        send(StackName=STACK_NAME, Capabilities=["CAPABILITY_NAMED_IAM"], **source)
    except ClientError as error:
        if "No updates are to be performed" in str(error):
            return "unchanged"
        raise CommandError(f"the emulator refuses the template: {error}") from error
    _wait(cloudformation, "UPDATE_COMPLETE" if exists else "CREATE_COMPLETE")
    _delete_old_code(s3, key)
    return "updated" if exists else "created"


def _upload_code(s3: Any, key: str) -> None:
    try:
        s3.head_object(Bucket=BUCKET, Key=key)
    except ClientError:
        s3.put_object(Bucket=BUCKET, Key=key, Body=_zip_code())


def _delete_old_code(s3: Any, key: str) -> None:
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
        raise CommandError("\n".join([f"the stack {STACK_NAME} is {status} on the emulator:", *reasons]))


def _source_files() -> list[Path]:
    return sorted(
        file
        for file in FUNCTIONS.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and file.name != "requirements.txt"
    )


def _code_key() -> str:
    """Named after the sources, as compiled code is not the same bytes each time."""
    digest = hashlib.sha256(sys.version.encode() + Path(page.__file__).read_bytes())
    for file in _source_files():
        digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes() + b"\0")
    return f"{digest.hexdigest()}.zip"


def _zip_code() -> bytes:
    """With compiled code inside, or each new process of each function would compile all of it again."""
    archive = io.BytesIO()
    with (
        zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped,
        tempfile.TemporaryDirectory() as folder,
    ):
        document = page.assemble(FUNCTIONS / page.FOLDER).encode()
        _add_to_zip(zipped, FUNCTIONS.relative_to(ROOT) / page.FOLDER / page.DOCUMENT, document)
        for file in _source_files():
            if (FUNCTIONS / page.FOLDER) in file.parents:
                continue
            name = file.relative_to(ROOT)
            _add_to_zip(zipped, name, file.read_bytes())
            if file.suffix == ".py":
                _add_to_zip(zipped, Path(cache_from_source(str(name))), _compile(file, name, Path(folder)))
    return archive.getvalue()


def _compile(file: Path, name: Path, folder: Path) -> bytes:
    target = folder / "compiled.pyc"
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH  # unpacking gives the source a new time
    py_compile.compile(str(file), str(target), dfile=str(name), doraise=True, invalidation_mode=mode)
    return target.read_bytes()


def _add_to_zip(zipped: zipfile.ZipFile, name: Path, content: bytes) -> None:
    entry = zipfile.ZipInfo(name.as_posix(), ZIP_EPOCH)
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    zipped.writestr(entry, content)
