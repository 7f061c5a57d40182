"""The routes of Novita's billing API, which lies beside that of the machines."""

from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from local.novita.billing import available_balance, cost, days
from local.novita.context import account_of, state_of
from local.novita.errors import ApiError
from local.novita.query import number, required

routes = web.RouteTableDef()

_LONGEST = timedelta(days=31)


@routes.get("/billing/balance/detail")
async def balance(request: web.Request) -> web.Response:
    """In 1/10,000 USD."""
    available = available_balance(state_of(request))
    return web.json_response(
        {
            "availableBalance": str(available),
            "cashBalance": str(available),
            "creditLimit": "0",
            "outstandingInvoices": "0",
        }
    )


@routes.get("/billing/bill/list")
async def bills(request: web.Request) -> web.Response:
    """By days (UTC) from its own books; a day is billed some time after its end, or what is over of it."""
    state = state_of(request)
    owner, now = required(request, "ownerId"), state.clock.now()
    begin, end = number(request, "startTime"), number(request, "endTime", int(now))
    if required(request, "cycleType") != "Day":
        raise ApiError("VALIDATOR_PARAM", "cycleType: this simulator bills by the day")
    if end - begin > _LONGEST.total_seconds():
        raise ApiError("VALIDATOR_PARAM", "startTime: more than 31 days before endTime")
    machine, settings = state.machines.get(owner), state.settings
    if machine is None or machine.account != account_of(request):  # one that is gone has its bills still
        return web.json_response({"bills": []})
    shown: list[dict[str, Any]] = []
    for first, last in [] if settings.bills_absent else days(begin, end):
        if last + settings.bill_lag_seconds > now:
            continue
        amount = round(cost(machine, first, last, now) * settings.bill_factor)
        if amount or settings.bill_factor != 1:
            shown.append(
                {
                    "ownerID": owner,
                    "billTime": datetime.fromtimestamp(first, UTC).strftime("%Y-%m-%d"),
                    "amount": str(amount),
                    "voucherAmount": "0",
                    "payAmount": str(amount),
                    "pricePrecision": "10000",
                }
            )
    return web.json_response({"bills": shown})
