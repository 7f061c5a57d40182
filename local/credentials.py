"""The key and the master secret of a local copy: given, or made at the first start and kept in its folder."""

import base64
import json
import secrets
from pathlib import Path
from typing import Any

from functions.shared.domain.signature import read_master
from local.problems import RefusalError
from ops.keys import KEY, SCOPES, is_in_force, make, new_key, revoke

LOCAL_KEY_ID = "key_local"


def api_key(file: Path, given: str | None) -> str:
    if given and not KEY.fullmatch(given):
        raise RefusalError("OSTLER_API_KEY must be ost_ and 43 characters of A-Z a-z 0-9 _ -")
    return _kept(file, given or _read(file) or new_key())


def webhook_secret(file: Path, given: str | None) -> str:
    secret = given or _read(file) or f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
    try:
        read_master(secret)
    except ValueError as error:
        raise RefusalError(f"WEBHOOK_SECRET must be whsec_ and base64: {error}") from None
    return _kept(file, secret)


def allow_local_key(table: Any, key: str) -> None:
    """One key is the local one: another that was given before ends here."""
    if not is_in_force(table, key):
        revoke(table, LOCAL_KEY_ID)
        make(table, name="local", scopes=SCOPES, key=key, key_id=LOCAL_KEY_ID)


def webhook_secret_value(current: str) -> str:
    return json.dumps({"current": current, "previous": ""})


def put_secret(secretsmanager: Any, secret_id: str, value: str) -> None:
    if secretsmanager.get_secret_value(SecretId=secret_id)["SecretString"] != value:
        secretsmanager.put_secret_value(SecretId=secret_id, SecretString=value)


def _read(file: Path) -> str | None:
    return file.read_text().strip() or None if file.exists() else None


def _kept(file: Path, value: str) -> str:
    if _read(file) != value:
        file.unlink(missing_ok=True)
        file.touch(mode=0o600)
        file.write_text(f"{value}\n")
    return value
