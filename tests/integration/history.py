"""An instance's history as its receiver rebuilds it: deduped on `webhook-id`, ordered by `sequence`."""

import json

from tests.integration.harness import Harness


def rebuilt(harness: Harness, url: str) -> list[str]:
    """The bodies, one for each event."""
    received = harness.simulator.inbox(url.rpartition("/")[2])
    by_id = {message["headers"]["webhook-id"]: message["body"] for message in received}
    return sorted(by_id.values(), key=lambda body: int(json.loads(body)["sequence"]))
