"""Runs the CDK's command line with the credentials and the region that everything else uses.

python -m ops.cdk --profile prod --region eu-west-1 -- npx aws-cdk bootstrap
"""

import os
import subprocess
import sys
from collections.abc import Sequence

from ops.command import RefusalError, command
from ops.target import Target, parse_cdk, say

# With these the CDK would look elsewhere, or not at app.py, which compares.
OWN_OPTIONS = ("--profile", "--region", "--app", "-a")


def run_cdk(target: Target, cdk: Sequence[str], *more: str) -> int:
    for option in cdk:
        if option.partition("=")[0] in OWN_OPTIONS:
            raise RefusalError(
                f"{option} would be for the CDK alone, and this command would look at another account or "
                "region than it. Use PROFILE=, REGION= and STAGE="
            )
    environment = target.cdk_environment(os.environ)
    ours = ["-c", f"stage={target.stage}"]  # the last one counts
    return subprocess.run([*cdk, *more, *ours], env=environment).returncode


@command
def main() -> int:
    target, cdk = parse_cdk("python -m ops.cdk", __doc__)
    say(f"account {target.account}, region {target.region}")
    return run_cdk(target, cdk)


if __name__ == "__main__":
    sys.exit(main())
