"""What seconds have made, as if they had been hours: times that have passed, and money, in the API's answers.

A stack that has just been started has a history of seconds, and pictures of it would show zeros. Everything
that the page shows then is still the running service's, in its order and its proportions.
"""

import json
import re
from datetime import UTC, datetime
from typing import Any

from playwright.sync_api import Page, Route

FACTOR = 600
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_MONEY = ("soFarUsd", "totalUsd", "amountUsd", "spentUsd")
_RECENT = ("lastSyncedAt", "lastSweepAt", "lastComparedAt")  # these are as old as they are


def stretched(value: Any, now: datetime, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: stretched(inner, now, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [stretched(inner, now, name) for inner in value]
    if not isinstance(value, str) or name in _RECENT:
        return value
    if name in _MONEY:
        return f"{float(value) * FACTOR:.4f}"
    if not _TIME.fullmatch(value):
        return value
    moment = datetime.fromisoformat(value)
    if moment >= now:
        return value
    return f"{now - (now - moment) * FACTOR:%Y-%m-%dT%H:%M:%S}.000Z"


def serve(page: Page) -> None:
    """From here on the page sees it so, and all of it as from this moment."""
    now = datetime.now(UTC)

    def answer(route: Route) -> None:
        response = route.fetch()
        body = stretched(response.json(), now)
        route.fulfill(response=response, body=json.dumps(body))

    page.route(re.compile(r"/api/(instances|costs|budgets)"), answer)
