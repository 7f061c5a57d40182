"""What a local copy is given or makes at its first start, and keeps in its folder: the API key, the webhook
secret, and the deployment's id, which marks its machines at Novita.
"""

import base64
import json
import secrets
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from functions.shared.domain.delivery.webhooks import read_master
from functions.shared.domain.ids import new_deployment_id
from ops.command import RefusalError
from ops.keys import KEY_FORMAT, SCOPES, create_key, is_active, new_key, revoke_key
from ops.novita_account import DEPLOYMENT_ID_KEY, read_deployment_id

LOCAL_KEY_ID = "key_local"


def api_key(file: Path, given: str | None) -> str:
    if given and not KEY_FORMAT.fullmatch(given):
        raise RefusalError("OSTLER_API_KEY must be ost_ and 43 characters of A-Z a-z 0-9 _ -")
    return _keep(file, given or _read(file) or new_key())


def webhook_secret(file: Path, given: str | None) -> str:
    secret = given or _read(file) or f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
    try:
        read_master(secret)
    except ValueError as error:
        raise RefusalError(f"WEBHOOK_SECRET must be whsec_ and base64: {error}") from None
    return _keep(file, secret)


def put_api_key(table: Any, key: str) -> None:
    """One key is the local one: another that was given before ends here."""
    if not is_active(table, key):
        revoke_key(table, LOCAL_KEY_ID)
        create_key(table, name="local", scopes=SCOPES, key=key, key_id=LOCAL_KEY_ID)


def put_deployment_id(table: Any, file: Path) -> None:
    """A table that lost it gets it back from the file: machines bought before are still ours."""
    item = {**DEPLOYMENT_ID_KEY, "kind": "deployment", "id": _read(file) or new_deployment_id()}
    try:
        table.put_item(Item=item, ConditionExpression="attribute_not_exists(pk)")
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
    file.write_text(f"{read_deployment_id(table)}\n")


def webhook_secret_value(current: str) -> str:
    return json.dumps({"current": current, "previous": ""})


def put_secret(secretsmanager: Any, secret_id: str, value: str) -> None:
    if secretsmanager.get_secret_value(SecretId=secret_id)["SecretString"] != value:
        secretsmanager.put_secret_value(SecretId=secret_id, SecretString=value)


def _read(file: Path) -> str | None:
    return file.read_text().strip() or None if file.exists() else None


def _keep(file: Path, value: str) -> str:
    if _read(file) != value:
        file.unlink(missing_ok=True)
        file.touch(mode=0o600)
        file.write_text(f"{value}\n")
    return value
