"""A month of costs and two budgets, in the API's own shape, for a page that has no such month behind it."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Route

_SHARES = {"RTX 4090 24GB": 9.2, "H100 SXM 80GB": 21.4, "L40S 48GB": 4.1, "RTX 3090 24GB": 1.3}


def _amount(name: str, day: date) -> float:
    """Less at weekends, and never the same twice."""
    rest = 0.35 if day.weekday() > 4 else 1.0
    return round(_SHARES[name] * rest * (0.7 + (day.toordinal() * 7 + len(name) * 13) % 10 / 16), 4)


def costs(query: str) -> dict[str, Any]:
    asked = parse_qs(query)
    first, last = (date.fromisoformat(asked[name][0]) for name in ("from", "to"))
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    groups = [
        {
            "key": name,
            "amountUsd": f"{sum(_amount(name, day) for day in days):.4f}",
            "days": [{"date": day.isoformat(), "amountUsd": str(_amount(name, day))} for day in days],
        }
        for name in _SHARES
    ]
    total = sum(float(str(group["amountUsd"])) for group in groups)
    found = {"from": first.isoformat(), "to": last.isoformat(), "groupBy": asked["groupBy"][0]}
    found["asOf"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return {**found, "totalUsd": f"{total:.4f}", "estimated": True, "groups": groups}


def budgets() -> dict[str, Any]:
    start = datetime.now(UTC).replace(day=1)
    end = (start + timedelta(days=32)).replace(day=1)
    month = {"period": "month", "thresholds": [50, 80, 100]}
    month |= {"periodStart": f"{start:%Y-%m-%d}", "periodEnd": f"{end:%Y-%m-%d}"}
    return {
        "budgets": [
            {
                **month,
                "name": "company",
                "limitUsd": "900",
                "scope": "all",
                "action": "notify",
                "spentUsd": "512.40",
                "reached": [50],
            },
            {
                **month,
                "name": "art",
                "limitUsd": "100",
                "action": "refuse",
                "spentUsd": "86.10",
                "scope": {"tag": {"name": "team", "value": "art"}},
                "reached": [50, 80],
            },
        ]
    }


def serve(page: Page) -> None:
    def answer(route: Route) -> None:
        parts = urlsplit(route.request.url)
        route.fulfill(json=costs(parts.query) if parts.path == "/api/costs" else budgets())

    page.route(re.compile(r"/api/(costs|budgets)"), answer)
