"""Routes of the caches: how full and how useful they are, clearing them, and removing what has expired."""

from collections.abc import Callable
from typing import Any, NotRequired, cast

from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from typing_extensions import TypedDict

from functions.api.bodies import IdempotencyKey
from functions.api.requests import idempotent, wired
from functions.shared.stores.cache import CacheSide
from functions.shared.stores.idempotency import ApiResult

router = APIGatewayHttpRouter()

_CACHE = ["cache"]
_MOST_SHOWN = 1000  # ids


class SideView(TypedDict):
    size: int
    bytes: NotRequired[int]
    hits: int
    misses: int
    hitRatio: float
    evictions: int
    ids: list[str]


class CacheStatsView(TypedDict):
    shared: SideView
    process: SideView


class ClearedView(TypedDict):
    epoch: int
    message: str


class CleanedView(TypedDict):
    shared: int
    process: int


@router.get(
    "/api/cache/stats",
    summary="How full and how useful the caches are",
    description=(
        "`shared` is the store of all processes, with what they counted until a minute ago; `process` is the "
        "one that answers. Details of instances, which records hold, are counted in `shared`."
    ),
    tags=_CACHE,
)
def stats() -> CacheStatsView:
    shared, process = wired().cache.sides()
    return {"shared": _side(shared), "process": _side(process)}


@router.post("/api/cache/clear", summary="Use nothing that is cached now", tags=_CACHE)
def clear(idempotency_key: IdempotencyKey = None) -> ClearedView:
    def work() -> ApiResult:
        message = "Nothing cached before is used: here from now on, everywhere within 5 s"
        return ApiResult(200, {"epoch": wired().cache.clear(), "message": message})

    return cast("ClearedView", _once("POST /api/cache/clear", idempotency_key, work))


@router.post("/api/cache/cleanup", summary="Remove what has expired", tags=_CACHE)
def cleanup(idempotency_key: IdempotencyKey = None) -> CleanedView:
    def work() -> ApiResult:
        shared, process = wired().cache.cleanup()
        return ApiResult(200, {"shared": shared, "process": process})

    return cast("CleanedView", _once("POST /api/cache/cleanup", idempotency_key, work))


def _once(route: str, key: str | None, work: Callable[[], ApiResult]) -> dict[str, Any]:
    request = idempotent(route, key, router.current_event.json_body)
    return wired().idempotency.kept_after(request, work, about=route).body


def _side(side: CacheSide) -> SideView:
    view: SideView = {
        "size": len(side.ids),
        "hits": side.counts.hits,
        "misses": side.counts.misses,
        "hitRatio": side.counts.hit_ratio,
        "evictions": side.counts.evictions,
        "ids": sorted(side.ids)[:_MOST_SHOWN],
    }
    if side.size_bytes is not None:
        view["bytes"] = side.size_bytes
    return view
