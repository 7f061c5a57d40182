"""What the parts of the running simulator share."""

from dataclasses import dataclass, field

from aiohttp import web

from local.novita.apps import AppStats
from local.novita.calls import Calls
from local.novita.faults import Faults
from local.novita.inbox import Box
from local.novita.limits import Limiter
from local.novita.world import World


@dataclass
class Context:
    world: World
    own_url: str = ""
    faults: Faults = field(default_factory=Faults)
    calls: Calls = field(default_factory=Calls)
    limiter: Limiter = field(default_factory=Limiter)
    boxes: dict[str, Box] = field(default_factory=dict)
    app_stats: AppStats = field(default_factory=AppStats)

    def reset(self) -> None:
        """Empty, defaults. A call still under way goes on in the world that it began in."""
        fresh = Context(World(), self.own_url)
        vars(self).update(vars(fresh))

    def public_url(self, world: World) -> str:
        return world.settings.public_url.rstrip("/") or self.own_url


CONTEXT = web.AppKey("CONTEXT", Context)
WORLD = "world"


def context_of(request: web.Request) -> Context:
    return request.config_dict[CONTEXT]


def world_of(request: web.Request) -> World:
    """The world that the call began in."""
    found = request.get(WORLD)
    return found if isinstance(found, World) else context_of(request).world
