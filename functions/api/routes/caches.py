"""Routes of the caches: how full and how useful they are, clearing them, and removing what has expired."""

from collections.abc import Callable
from typing import Any, NotRequired, cast

from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from typing_extensions import TypedDict

from functions.api.bodies import IdempotencyKey
from functions.api.requests import idempotent, use_case, wired
from functions.api.use_cases.read_caches import CacheSide, ReadCaches
from functions.shared.stores.cache import CacheCounts
from functions.shared.stores.idempotency import ApiResult

router = APIGatewayHttpRouter()

_CACHE = ["cache"]
_MOST_SHOWN = 1000  # ids


class CacheView(TypedDict):
    size: int
    bytes: NotRequired[int]
    hits: int
    misses: int
    sets: int
    hitRatio: float
    evictions: int
    ids: list[str]


class SideView(CacheView):
    caches: dict[str, CacheView]


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
        "one that answers. Each has totals, and the same for each cache. `details` are those of instances, "
        "which records hold: `size` is the number of machines that the last sweep knew, and there are no ids."
    ),
    tags=_CACHE,
)
def stats() -> CacheStatsView:
    shared, process = use_case(ReadCaches)()
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
    caches = {
        name: _cache(one.size, one.counts, one.ids, one.size_bytes) for name, one in side.caches.items()
    }
    everything = [id_ for one in side.caches.values() for id_ in one.ids]
    totals = _cache(len(everything), side.total, everything, side.size_bytes)
    return cast("SideView", {**totals, "caches": caches})


def _cache(size: int, counts: CacheCounts, ids: list[str], size_bytes: int | None) -> CacheView:
    view: CacheView = {
        "size": size,
        "hits": counts.hits,
        "misses": counts.misses,
        "sets": counts.sets,
        "hitRatio": counts.hit_ratio,
        "evictions": counts.evictions,
        "ids": sorted(ids)[:_MOST_SHOWN],
    }
    if size_bytes is not None:
        view["bytes"] = size_bytes
    return view
