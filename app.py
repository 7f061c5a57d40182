"""The CDK app: builds the asset and synthesises the stacks, with the CDK CLI or without it."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from infra import asset
from infra.edge import RateRules
from infra.feature_flags import FEATURE_FLAGS
from infra.observability import WatchStack
from infra.options import ContextError, Options
from infra.stack import OstlerStack

CDK_JSON = Path(__file__).parent / "cdk.json"


def build(code: Path, context: dict[str, object] | None = None, outdir: str | None = None) -> App:
    app = App(context={**FEATURE_FLAGS, **(context or {})}, outdir=outdir, analytics_reporting=False)
    options = Options.read(app.node.try_get_context)
    service = OstlerStack(app, options.name, asset=code, options=options)
    if options.edge == "cloudfront":
        service.add_dependency(RateRules(app, options.edge_name, options=options))
    if options.watch != "off":
        WatchStack(app, options.watch_name, service=service, options=options)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return app


def chosen() -> dict[str, object]:
    """The CLI passes cdk.json's context itself, and what `-c` adds; without it nobody else reads that."""
    if "CDK_CONTEXT_JSON" in os.environ:
        return {}
    context: dict[str, object] = json.loads(CDK_JSON.read_text()).get("context", {})
    return context


class OtherTargetError(ValueError):
    """The CDK means another account or region than the command that runs it."""


def require_same_target(environment: Mapping[str, str]) -> None:
    """`ops` says what it looked at, the CDK's command line what it will deploy to or destroy."""
    for what in ("ACCOUNT", "REGION"):
        meant, found = (environment.get(f"{who}_{what}") for who in ("OSTLER", "CDK_DEFAULT"))
        if meant and found and meant != found:
            raise OtherTargetError(
                f"the CDK means {what.lower()} {found}, and the command that runs it {meant}: "
                "nothing is done. Use PROFILE= and REGION= instead of the CDK's own options"
            )


def _target(environment: Mapping[str, str]) -> asset.Target:
    """For an emulator, which runs functions with the Python of this machine."""
    return asset.HERE if environment.get("OSTLER_ASSET") == "here" else asset.LAMBDA


def main() -> None:
    try:
        require_same_target(os.environ)
        build(asset.build(target=_target(os.environ)), chosen()).synth()
    except (ContextError, OtherTargetError) as problem:
        sys.exit(f"ostler: {problem}")


if __name__ == "__main__":
    main()
