"""`make deploy`: the stacks, the Novita key into its secret, and what is left to do.

The key is taken from NOVITA_API_KEY, never from a command line, where others could read it. It is put even if
the alarms' stack failed: the service runs by then. What follows on the command line is the CDK's command.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from botocore.exceptions import ClientError

from ops.cdk import run_cdk
from ops.command import command
from ops.stack import DEFAULT_STAGE, DeployedStack
from ops.target import Target, parse_cdk, say

# A stack that was never whole: its first deploy failed, or was only looked at.
NEVER_MADE = (
    "CREATE_FAILED",
    "ROLLBACK_COMPLETE",
    "ROLLBACK_FAILED",
    "REVIEW_IN_PROGRESS",
    "DELETE_COMPLETE",
)


@dataclass(frozen=True)
class Deploy:
    target: Target
    cdk: Callable[..., int]  # with these options more; its exit code

    def run(self, environment: Mapping[str, str]) -> int:
        first = not self._is_made()
        if first:
            say(f"account {self.target.account}, region {self.target.region}: {self.target.name} will be new")
        else:
            self.target.stack()
        code = self.cdk("-c", "firstDeploy=true") if first else self.cdk()
        if not self._is_made():
            return code
        stack = self.target.stack()
        self._put_key(stack, environment.get("NOVITA_API_KEY"))
        if code == 0 and first:
            say("It is deployed for the first time; once more, to protect it against deletion.")
            code = self.cdk()
        self._tell(stack)
        return code

    def _is_made(self) -> bool:
        try:
            described = self.target.client("cloudformation").describe_stacks(StackName=self.target.name)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ValidationError":  # which is how it says: no such stack
                raise
            return False
        return described["Stacks"][0]["StackStatus"] not in NEVER_MADE

    def _put_key(self, stack: DeployedStack, key: str | None) -> None:
        if not key:
            print(
                "Next: give it your Novita key, with NOVITA_API_KEY=… make deploy, "
                f"or in the console as the value of the secret {stack.novita_secret_id}."
            )
            return
        secrets = self.target.client("secretsmanager")
        secrets.put_secret_value(SecretId=stack.novita_secret_id, SecretString=key)
        print("The Novita key is in its secret; functions read it within 5 minutes.")

    def _tell(self, stack: DeployedStack) -> None:
        print(f"{self.target.name} is deployed: {stack.api_url}")
        if stack.auth == "keys":
            stage = "" if self.target.stage == DEFAULT_STAGE else f"STAGE={self.target.stage} "
            print(
                "Next: make yourself an API key with\n"
                f'  make keys {stage}ARGS="create --name me --scopes read,write,admin"'
            )


@command
def main() -> int:
    target, cdk = parse_cdk("python -m ops.deploy", __doc__)
    return Deploy(target, partial(run_cdk, target, cdk)).run(os.environ)


if __name__ == "__main__":
    sys.exit(main())
