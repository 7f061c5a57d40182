"""`make teardown`: removes the stacks, but not while machines of ours live that nobody would know of then.

TEARDOWN=force does it all the same, also where Novita does not say what lives. What follows on the
command line is the command that removes them.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.exceptions import ClientError

from functions.shared.domain.status import Status
from local.deployment_id import KEY
from local.problems import RefusalError
from local.provider import REAL_ADDRESS
from ops.command import command
from ops.novita import living_machines
from ops.stack import Deployed

AT_REST = frozenset({Status.TERMINATED, Status.FAILED})


@dataclass(frozen=True)
class Teardown:
    """What has to be known is read before anything is removed."""

    deployment: str
    novita_url: str
    novita_key: str
    unfinished: tuple[str, ...]  # instances that have a machine, or may still be given one
    loopback: bool = False

    @classmethod
    def read(cls, table: Any, novita_url: str, novita_key: str, *, loopback: bool = False) -> "Teardown":
        kept = table.get_item(Key=KEY, ConsistentRead=True).get("Item")
        return cls(
            str(kept["id"]) if kept else "",
            novita_url,
            novita_key,
            tuple(sorted(_unfinished(table))),
            loopback,
        )

    def __call__(self, remove: Callable[[], int], *, force: bool, say: Callable[[str], None]) -> int:
        if force:
            self._look(say)
        else:
            self._refuse_for(self._living())
        if code := remove():
            return code
        left = self._look(say)  # one may have been bought between the look and the end
        for one in left or ():
            say(f"still living at Novita, and billed: {one}")
        return 0 if left == [] else 1

    def _refuse_for(self, living: list[str]) -> None:
        if self.unfinished or living:
            raise RefusalError(
                "nobody would look after these any more. Delete the instances by the API and wait until they "
                "are terminated, or leave them behind with TEARDOWN=force.\n"
                + "\n".join(
                    [
                        *(f"  instance {one}" for one in self.unfinished),
                        *(f"  machine {one}" for one in living),
                    ]
                )
            )

    def _look(self, say: Callable[[str], None]) -> list[str] | None:
        """What lives; none and a word about it if Novita does not say."""
        try:
            return self._living()
        except RefusalError as problem:
            say(f"{problem}\nmachines with -{self.deployment}- in their names may live on there, and bill")
            return None

    def _living(self) -> list[str]:
        if not self.deployment:
            return []
        return living_machines(self.novita_url, self.novita_key, self.deployment, loopback=self.loopback)


def _unfinished(table: Any) -> list[str]:
    found: list[str] = []
    start: dict[str, Any] = {}
    while True:
        page = table.scan(
            FilterExpression="sk = :record",
            ExpressionAttributeValues={":record": "record"},
            ConsistentRead=True,
            **start,
        )
        found += [
            item["pk"]
            for item in page["Items"]
            if item["statusKey"].removeprefix("instances#") not in AT_REST or "dueAt" in item
        ]
        if "LastEvaluatedKey" not in page:
            return found
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def _novita_key(secret_id: str) -> str:
    """None where it is gone already, as after half a teardown: Novita then refuses to say what lives."""
    try:
        return str(boto3.client("secretsmanager").get_secret_value(SecretId=secret_id)["SecretString"])
    except ClientError as error:
        print(f"ostler: the Novita key cannot be read: {error}", file=sys.stderr)
        return ""


@command
def main() -> int:
    deployed = Deployed.read(boto3.client("cloudformation"))
    table = boto3.resource("dynamodb").Table(deployed.table_name)
    address = os.environ.get("NOVITA_API_BASE_URL") or REAL_ADDRESS
    teardown = Teardown.read(table, address, _novita_key(deployed.novita_secret_id))
    return teardown(
        lambda: subprocess.run(sys.argv[1:]).returncode,
        force=os.environ.get("TEARDOWN") == "force",
        say=lambda line: print(line, file=sys.stderr),
    )


if __name__ == "__main__":
    sys.exit(main())
