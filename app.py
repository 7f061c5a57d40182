"""The CDK app: builds the asset and synthesises the stacks, with the CDK CLI or without it."""

import json
import sys
from pathlib import Path

from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

from infra import asset
from infra.observability import WatchStack
from infra.options import ContextError, Options
from infra.stack import OstlerStack

DEFAULTS = json.loads((Path(__file__).parent / "cdk.json").read_text())["context"]


def build(code: Path, context: dict[str, object] | None = None, outdir: str | None = None) -> App:
    """Without the CLI nobody reads cdk.json, so its context is given here; what the CLI passes wins."""
    app = App(context={**DEFAULTS, **(context or {})}, outdir=outdir, analytics_reporting=False)
    options = Options.read(app.node.try_get_context)
    service = OstlerStack(app, "Ostler", asset=code, options=options)
    WatchStack(app, "OstlerWatch", service=service, options=options)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return app


def main() -> None:
    try:
        build(asset.build()).synth()
    except ContextError as problem:
        sys.exit(f"ostler: {problem}")


if __name__ == "__main__":
    main()
