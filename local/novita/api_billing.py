"""The routes of Novita's billing API, which lies beside that of the machines."""

from aiohttp import web

from local.novita.context import state_of

routes = web.RouteTableDef()


@routes.get("/billing/balance/detail")
async def balance(request: web.Request) -> web.Response:
    """In 1/10,000 USD."""
    settings = state_of(request).settings
    available = settings.balance if settings.balance_enough else 0
    return web.json_response(
        {
            "availableBalance": str(available),
            "cashBalance": str(available),
            "creditLimit": "0",
            "outstandingInvoices": "0",
        }
    )
