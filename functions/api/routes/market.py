"""Routes that show what Novita sells; none of them buys anything."""

from typing import Annotated, Any, NotRequired, cast

from aws_lambda_powertools.event_handler.openapi.params import Body, Path, Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from typing_extensions import TypedDict

from functions.api.bodies import TEMPLATE_ID, QuoteBody, like
from functions.api.requests import wired
from functions.api.views import ExpiryView, LimitsView, usd_per_hour
from functions.shared.domain.instance.boot_times import expected_ready_at
from functions.shared.domain.instance.expiry import expected_expiry

router = APIGatewayHttpRouter()

_MARKET = ["market"]
_WHILE_WAITING_SECONDS = 10.0  # nobody's purchase waits for these, so they may take longer than a create


class OfferView(TypedDict):
    productId: str
    productName: str
    region: str
    pricePerGpuHour: str


class QuoteView(TypedDict):
    productId: str
    productName: str
    region: str
    billingMode: str
    gpuNum: int
    pricePerGpuHour: str
    pricePerHour: str
    perHourUsd: str
    perDayUsd: str
    alternatives: list[OfferView]
    regions: dict[str, str]
    limits: NotRequired[LimitsView]
    expiry: NotRequired[ExpiryView]


class ProductView(TypedDict):
    id: str
    name: str
    regions: list[str]
    available: bool
    billingMethods: list[str]
    pricePerGpuHour: NotRequired[str]
    spotPricePerGpuHour: NotRequired[str]
    cpuPerGpu: int
    memoryPerGpu: int
    minRootfsSize: int
    maxRootfsSize: NotRequired[int]


class ProductsView(TypedDict):
    products: list[ProductView]


class TemplateView(TypedDict):
    id: str
    name: str
    image: str
    private: bool
    ports: list[dict[str, Any]]
    envs: list[str]


@router.post(
    "/api/quotes",
    summary="What a create would buy",
    description="`expiry`: by its limits, if it ran as soon as such machines have come up lately.",
    tags=_MARKET,
)
def quote(body: Annotated[QuoteBody, Body()]) -> QuoteView:
    rules, spec = wired().limit_rules, body.spec(lambda: wired().health_check)
    limits = rules.first(body.asked_limits(), wired().clock())
    choice = wired().catalog.quote(spec, within=_WHILE_WAITING_SECONDS)
    best = choice.offers[0]
    boot = wired().boot_times.expected("create", best.product_id, best.region)
    runs_at = expected_ready_at(wired().clock(), boot)
    view: QuoteView = {
        "productId": best.product_id,
        "productName": best.product_name,
        "region": best.region,
        "billingMode": body.billingMode,
        "gpuNum": body.gpuNum,
        "pricePerGpuHour": str(best.price),
        "pricePerHour": str(best.price * body.gpuNum),
        "perHourUsd": usd_per_hour(best.price * body.gpuNum),
        "perDayUsd": usd_per_hour(best.price * body.gpuNum * 24),
        "alternatives": [
            {
                "productId": offer.product_id,
                "productName": offer.product_name,
                "region": offer.region,
                "pricePerGpuHour": str(offer.price),
            }
            for offer in choice.offers[1:]
        ],
        "regions": {
            **{offer.region: "OFFERED" for offer in choice.offers},
            **{region: str(reason) for region, reason in choice.reasons.items()},
        },
    }
    if limits.as_json():
        view["limits"] = cast("LimitsView", limits.as_json())
    if expiry := expected_expiry(limits, rules.ceilings, runs_at).as_json():
        view["expiry"] = cast("ExpiryView", expiry)
    return view


@router.get("/api/products", summary="What Novita sells, in USD", tags=_MARKET)
def products(
    name: Annotated[str | None, Query(min_length=1, max_length=200, **like("RTX 4090"))] = None,
    billingMode: Annotated[str, Query(pattern="^(spot|onDemand)$")] = "spot",  # noqa: N803  # the API's own name
) -> ProductsView:
    catalog = wired().catalog
    found = catalog.products(name, billingMode, catalog.products_ttl, within=_WHILE_WAITING_SECONDS)
    return {"products": [_product(one) for one in found]}


def _product(product: Any) -> ProductView:
    view: ProductView = {
        "id": product.id,
        "name": product.name,
        "regions": list(product.regions),
        "available": product.available,
        "billingMethods": list(product.billing_methods),
        "cpuPerGpu": product.cpu_per_gpu,
        "memoryPerGpu": product.memory_per_gpu,
        "minRootfsSize": product.min_rootfs,
    }
    if product.max_rootfs:
        view["maxRootfsSize"] = product.max_rootfs
    if product.price is not None:
        view["pricePerGpuHour"] = str(product.price)
    if product.spot_price is not None:
        view["spotPricePerGpuHour"] = str(product.spot_price)
    return view


@router.get("/api/templates/<template_id>", summary="A template, without the values it sets", tags=_MARKET)
def template(
    template_id: Annotated[str, Path(max_length=255, json_schema_extra=TEMPLATE_ID)],
) -> TemplateView:
    found = wired().catalog.template(template_id, within=_WHILE_WAITING_SECONDS)
    return {
        "id": found.id,
        "name": found.name,
        "image": found.image,
        "private": bool(found.image_auth),
        "ports": [{"port": port, "type": type_} for port, type_ in found.ports],
        "envs": [key for key, _ in found.envs],
    }
