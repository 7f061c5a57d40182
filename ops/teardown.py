"""`make teardown`: removes the stacks, but not while machines of ours live that nobody would know of then.

TEARDOWN=force does it all the same, also where Novita does not say what lives. What follows on the
command line is the CDK's command that removes them.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from functions.shared.domain.instance.status import Status
from ops.cdk import run_cdk
from ops.command import RefusalError, command
from ops.novita_account import DEFAULT_BASE_URL, NovitaAccount, read_deployment_id
from ops.stack import DeployedStack
from ops.target import Target, parse_cdk, say

AT_REST = frozenset({Status.TERMINATED, Status.FAILED})


@dataclass(frozen=True)
class Teardown:
    """What has to be known is read before anything is removed."""

    deployment_id: str
    novita: NovitaAccount
    unfinished: tuple[str, ...]  # instances that have a machine, or may still be given one

    @classmethod
    def read(cls, table: Any, novita: NovitaAccount) -> "Teardown":
        return cls(read_deployment_id(table), novita, tuple(sorted(_unfinished(table))))

    def run(self, remove: Callable[[], int], *, force: bool, say: Callable[[str], None]) -> int:
        if force:
            self._try_living_machines(say)
        else:
            self._refuse_for(self._living_machines())
        if code := remove():
            return code
        left = self._try_living_machines(say)  # one may have been bought between the look and the end
        for name in left or ():
            say(f"still living at Novita, and billed: {name}")
        return 0 if left == [] else 1

    def _refuse_for(self, machines: list[str]) -> None:
        if not self.unfinished and not machines:
            return
        left = [*(f"  instance {one}" for one in self.unfinished), *(f"  machine {one}" for one in machines)]
        raise RefusalError(
            "nobody would look after these any more. Delete the instances by the API and wait until they "
            "are terminated, or leave them behind with TEARDOWN=force.\n" + "\n".join(left)
        )

    def _try_living_machines(self, say: Callable[[str], None]) -> list[str] | None:
        """None, and a word about it, if Novita does not say."""
        try:
            return self._living_machines()
        except RefusalError as error:
            say(f"{error}\nmachines with -{self.deployment_id}- in their names may live on there, and bill")
            return None

    def _living_machines(self) -> list[str]:
        return self.novita.living_machines(self.deployment_id) if self.deployment_id else []


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


def _novita_key(target: Target, secret_id: str) -> str:
    """Empty where it is gone already, as after half a teardown: Novita then refuses to say what lives."""
    try:
        return str(target.client("secretsmanager").get_secret_value(SecretId=secret_id)["SecretString"])
    except ClientError as error:
        print(f"ostler: the Novita key cannot be read: {error}", file=sys.stderr)
        return ""


def _remove(target: Target, stack: DeployedStack, cdk: list[str]) -> int:
    """Not protected for as long as that takes; if it is not removed after all, it is as it was before."""
    cloudformation = target.client("cloudformation")
    before = cloudformation.describe_stacks(StackName=stack.arn)["Stacks"][0]
    cloudformation.update_termination_protection(StackName=stack.arn, EnableTerminationProtection=False)
    try:
        return run_cdk(target, cdk)
    finally:
        if before.get("EnableTerminationProtection") and not _is_removed(cloudformation, stack):
            cloudformation.update_termination_protection(
                StackName=stack.arn, EnableTerminationProtection=True
            )


def _is_removed(cloudformation: Any, stack: DeployedStack) -> bool:
    try:
        status = cloudformation.describe_stacks(StackName=stack.arn)["Stacks"][0]["StackStatus"]
    except ClientError:
        return True
    return bool(status.startswith("DELETE"))


@command
def main() -> int:
    target, cdk = parse_cdk("python -m ops.teardown", __doc__)
    stack = target.stack()
    table = target.table(stack.table_name)
    base_url = os.environ.get("NOVITA_API_BASE_URL") or DEFAULT_BASE_URL
    teardown = Teardown.read(table, NovitaAccount(_novita_key(target, stack.novita_secret_id), base_url))
    return teardown.run(
        lambda: _remove(target, stack, cdk), force=os.environ.get("TEARDOWN") == "force", say=say
    )


if __name__ == "__main__":
    sys.exit(main())
