"""The v1 routes of what can be bought: clusters and products."""

from aiohttp import web

from local.novita import catalog_payloads
from local.novita.catalog import Product
from local.novita.context import state_of
from local.novita.errors import ApiError
from local.novita.query import contains, number, text

routes = web.RouteTableDef()
BILLING_METHODS = ("onDemand", "monthly", "spot")


@routes.get("/clusters")
async def clusters(request: web.Request) -> web.Response:
    state = state_of(request)
    return web.json_response(
        {"data": [catalog_payloads.cluster(state, one) for one in state.clusters.values()]}
    )


@routes.get("/products")
async def products(request: web.Request) -> web.Response:
    state = state_of(request)
    gpus = number(request, "gpuNum", most=8)
    cluster_id = text(request, "clusterId")
    cluster = state.clusters.get(cluster_id)
    region = cluster.region if cluster else None
    stock = state.stock()
    data = [
        catalog_payloads.product(state, one, stock, region, gpus)
        for one in state.products.values()
        if _asked_for(request, one) and (not cluster_id or region in one.regions)
    ]
    return web.json_response({"data": data})


@routes.get("/cpu/products")
async def cpu_products(_: web.Request) -> web.Response:
    return web.json_response({"data": []})


def _asked_for(request: web.Request, product: Product) -> bool:
    """Without a billing method only what is sold on demand is shown."""
    billing = request.query.get("billingMethod") or "onDemand"
    if billing not in BILLING_METHODS:
        raise ApiError("VALIDATOR_PARAM", f"billingMethod: not one of {', '.join(BILLING_METHODS)}")
    return (
        billing in product.billing_methods
        and contains(text(request, "productName"), product.name)
        and product.cpu_per_gpu >= number(request, "minCpuPerGpu")
        and product.memory_per_gpu >= number(request, "minMemoryPerGpu")
        and product.max_root_fs >= number(request, "minRootFSSize")
    )
