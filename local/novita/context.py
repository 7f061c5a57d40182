"""What the parts of the running simulator share."""

from dataclasses import dataclass, field

from aiohttp import web

from local.novita.apps import AppStats
from local.novita.calls import Calls
from local.novita.faults import ACCOUNT, LIST_AGE, Faults
from local.novita.inbox import Inbox
from local.novita.rate_limit import RateLimiter
from local.novita.state import SimulatorState


@dataclass
class Context:
    state: SimulatorState
    own_url: str = ""
    faults: Faults = field(default_factory=Faults)
    calls: Calls = field(default_factory=Calls)
    limiter: RateLimiter = field(default_factory=RateLimiter)
    inboxes: dict[str, Inbox] = field(default_factory=dict)
    app_stats: AppStats = field(default_factory=AppStats)

    def reset(self) -> None:
        """Empty, defaults. A call still under way goes on with the state that it began with."""
        fresh = Context(SimulatorState(), self.own_url)
        vars(self).update(vars(fresh))

    def public_url(self, state: SimulatorState) -> str:
        return state.settings.public_url.rstrip("/") or self.own_url


CONTEXT = web.AppKey("CONTEXT", Context)
STATE = "state"


def context_of(request: web.Request) -> Context:
    return request.config_dict[CONTEXT]


def state_of(request: web.Request) -> SimulatorState:
    """The state that the call began with: a reset meanwhile does not change it."""
    found = request.get(STATE)
    return found if isinstance(found, SimulatorState) else context_of(request).state


def account_of(request: web.Request) -> str:
    """The account whose machines the call is about: the key's, unless a fault mistakes it."""
    return str(request.get(ACCOUNT, ""))


def list_age_of(request: web.Request) -> float:
    """How many seconds ago the list that the call sees was true, where a fault says so."""
    return float(request.get(LIST_AGE, 0))
