"""Consumer of the create queue: each message is one try at buying one machine."""

from datetime import timedelta
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.create.provision import Provision
from functions.shared.consume import consume_steps
from functions.shared.domain.instance import Queue
from functions.shared.domain.observation import Buy
from functions.shared.metrics import metered
from functions.shared.wiring import wiring


@metered
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    wired = wiring()
    provision = Provision(
        wired.instances,
        wired.novita,
        wired.catalog,
        wired.deployments.id,
        wired.clock,
        wired.remaining,
        timedelta(seconds=wired.settings.purchase_lease_seconds),
        wired.settings.offer_max_age,
        wired.settings.instance_poll_interval,
    )
    return consume_steps(event, context, wired, Queue.CREATE, {**wired.calls.means(), Buy: provision.buy})
