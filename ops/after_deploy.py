"""What is left to do when the stack is deployed: the Novita key into its secret, and perhaps an API key.

The Novita key is taken from NOVITA_API_KEY, never from a command line, where others could read it.
"""

import os
import sys

import boto3

from ops.command import command
from ops.stack import STACK_NAME, DeployedStack


@command
def main() -> int:
    stack = DeployedStack.read(boto3.client("cloudformation"))
    if key := os.environ.get("NOVITA_API_KEY"):
        secrets = boto3.client("secretsmanager")
        secrets.put_secret_value(SecretId=stack.novita_secret_id, SecretString=key)
        print("The Novita key is in its secret; functions read it within 5 minutes.")
    else:
        print(
            "Next: give it your Novita key, with NOVITA_API_KEY=… make deploy, "
            f"or in the console as the value of the secret {stack.novita_secret_id}."
        )
    print(f"{STACK_NAME} is deployed: {stack.api_url}")
    if stack.auth == "keys":
        print(
            "Next: make yourself an API key with\n"
            "  .venv/bin/python -m ops.keys create --name me --scopes read,write,admin"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
