"""The id that marks our machines at Novita: made once, kept in the table, and in a file that outlives it."""

from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from functions.shared.domain.ids import new_deployment_id

KEY = {"pk": "deployment", "sk": "deployment"}


def agree_on_deployment_id(table: Any, file: Path) -> str:
    """A table that lost it gets it back from the file: machines bought before are still ours."""
    kept = file.read_text().strip() if file.exists() else ""
    try:
        made = kept or new_deployment_id()
        item = {**KEY, "kind": "deployment", "id": made}
        table.put_item(Item=item, ConditionExpression="attribute_not_exists(pk)")
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
    agreed = str(table.get_item(Key=KEY, ConsistentRead=True)["Item"]["id"])
    file.write_text(f"{agreed}\n")
    return agreed
