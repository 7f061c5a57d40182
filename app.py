"""The CDK app: builds the asset and synthesises the stacks, with the CDK CLI or without it."""

import json
import os
import sys
from pathlib import Path

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from infra import asset
from infra.feature_flags import FEATURE_FLAGS
from infra.observability import WatchStack
from infra.options import ContextError, Options
from infra.stack import OstlerStack

CDK_JSON = Path(__file__).parent / "cdk.json"


def build(code: Path, context: dict[str, object] | None = None, outdir: str | None = None) -> App:
    app = App(context={**FEATURE_FLAGS, **(context or {})}, outdir=outdir, analytics_reporting=False)
    options = Options.read(app.node.try_get_context)
    service = OstlerStack(app, options.name, asset=code, options=options)
    WatchStack(app, options.watch_name, service=service, options=options)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return app


def chosen() -> dict[str, object]:
    """The CLI passes cdk.json's context itself, and what `-c` adds; without it nobody else reads that."""
    if "CDK_CONTEXT_JSON" in os.environ:
        return {}
    context: dict[str, object] = json.loads(CDK_JSON.read_text()).get("context", {})
    return context


def main() -> None:
    try:
        build(asset.build(), chosen()).synth()
    except ContextError as problem:
        sys.exit(f"ostler: {problem}")


if __name__ == "__main__":
    main()
