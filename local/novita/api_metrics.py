"""The route of Novita's metrics, which lies beside that of billing."""

from typing import Any

from aiohttp import web

from local.novita.context import account_of, state_of
from local.novita.machines import Machine
from local.novita.query import DIGITS, required

routes = web.RouteTableDef()

_SHORTEST, _WINDOW = 15, 60  # seconds


@routes.get("/metrics/gpu/instance")
async def gpu_metrics(request: web.Request) -> web.Response:
    """What is not a number means the default; what is newer than the lag is not there yet."""
    state = state_of(request)
    machine = state.require_machine(required(request, "instanceId"), account_of(request))
    now = state.clock.now()
    end = _seconds(request, "endTime", int(now))
    begin = _seconds(request, "startTime", end - _WINDOW)
    every = max(_SHORTEST, _seconds(request, "interval", _SHORTEST))
    known = int(min(end, now - state.settings.metrics_lag_seconds))
    times = list(range(begin - begin % every + every, known + 1, every))
    shown = [gpu for gpu in range(machine.terms.gpu_num) if machine.tells_use_of(gpu)]
    series = [{"gpuId": f"gpu-{gpu}", "items": _items(machine, gpu, times)} for gpu in shown]
    flat: list[dict[str, Any]] = []
    return web.json_response(
        {
            "cpuUtilization": flat,
            "memUtilization": flat,
            "rootDiskUtilization": flat,
            "gpuUtilization": {"avg": flat, "gpuIds": series},
            "gpuMemUtilization": {"avg": flat, "gpuIds": []},
        }
    )


def _seconds(request: web.Request, name: str, default: int) -> int:
    given = request.query.get(name, "")
    return int(given) if DIGITS.fullmatch(given) else default


def _items(machine: Machine, gpu: int, times: list[int]) -> list[dict[str, Any]]:
    found = ((t, machine.gpu_use(gpu, t)) for t in times)
    return [{"timestamp": str(t), "value": used} for t, used in found if used is not None]
