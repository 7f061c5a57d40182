"""Fault profiles: each fault alone, and all of them together."""

import json
from dataclasses import dataclass
from typing import Any

from tests.integration.proxy import Fault, Kind


@dataclass(frozen=True)
class FaultProfile:
    """What goes wrong, and how often: all rates are chances between 0 and 1."""

    wire: tuple[Fault, ...] = ()
    novita: tuple[dict[str, Any], ...] = ()  # faults of the simulator
    novita_settings: tuple[tuple[str, Any], ...] = ()
    crashes: float = 0  # at each call, before it or after its effect
    meanwhile: float = 0  # something else happens at a call
    skew_seconds: float = 0  # clocks are off by up to so much, either way
    stream_lost: float = 0
    stream_doubled: float = 0
    two_sweeps: float = 0
    receivers_fail: float = 0
    hang: float = 0  # an invocation's requests to receivers and applications have no answer
    hides: float = 0  # in a turn, a machine lives on unseen for up to ten minutes
    reclaims: float = 0  # in a turn, a spot machine is taken away
    other_account: float = 0  # in a turn, another account's key is put in for a while
    crowd: int = 0  # requests of one caller in every turn, with a key that may only read
    settings: tuple[tuple[str, str], ...] = ()  # of the service
    lasts: float = 120  # seconds, after the last request


TABLE = frozenset(
    {"GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "TransactWriteItems", "BatchGetItem"}
)
WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"})
SEND = frozenset({"SendMessage"})
QUEUE = frozenset({"SendMessage", "ChangeMessageVisibility"})
TOPIC = frozenset({"Publish"})
AWS = TABLE | QUEUE | TOPIC | {"GetSecretValue"}

_EMPTY = json.dumps({"instances": [], "total": 0})
# The path of Novita's list, and how a page of it is asked for.
_LIST: dict[str, Any] = {"kind": "garbage", "path": "/gpu/instances", "contentType": "application/json"}
_GET: dict[str, Any] = {"path": "/gpu/instance", "method": "GET"}
_CREATE = "/gpu/instance/create"
_OPERATIONS = tuple(f"/gpu/instance/{action}" for action in ("start", "stop", "restart", "delete"))
# A gateway that has lost its routes: a 404 without Novita's own reason.
_NO_ROUTE: dict[str, Any] = {
    "kind": "garbage",
    "status": 404,
    "body": json.dumps({"code": 404, "message": "route not found"}),
    "contentType": "application/json",
}
_LONG = 1800  # so that what is at rest is lied about, too
_OF_YESTERDAY: dict[str, Any] = {"kind": "stale", "path": "/gpu/instances", "ageSeconds": 120}


def _actions(rate: float, *, without_create: bool = False, **fault: Any) -> tuple[dict[str, Any], ...]:
    paths = _OPERATIONS if without_create else (_CREATE, *_OPERATIONS)
    return tuple({**fault, "path": path, "rate": rate} for path in paths)


def _mistaken(rate: float) -> tuple[dict[str, Any], ...]:
    """Answers that are another account's; what is bought there would be nobody's."""
    reads = ({"kind": "account", **_GET}, {"kind": "account", "path": "/gpu/instances"})
    return (
        *({**read, "rate": rate} for read in reads),
        *_actions(rate, without_create=True, kind="account"),
    )


ALONE: dict[str, FaultProfile] = {
    "messages doubled": FaultProfile(wire=(Fault(Kind.DOUBLE, SEND, 0.5),)),
    "messages delayed and reordered": FaultProfile(wire=(Fault(Kind.HOLD, SEND, 0.6),)),
    "messages lost": FaultProfile(wire=(Fault(Kind.LOSE, SEND, 0.6),)),
    "table throttled": FaultProfile(wire=(Fault(Kind.THROTTLE, TABLE, 0.02, 5),)),
    "answers of the table lost": FaultProfile(wire=(Fault(Kind.LOST_ANSWER, TABLE, 0.08, 2),)),
    "calls to the table doubled": FaultProfile(wire=(Fault(Kind.DOUBLE, WRITES, 0.2),)),
    "connections dropped": FaultProfile(wire=(Fault(Kind.DROP, AWS, 0.03, 4),)),
    "queue refusing": FaultProfile(wire=(Fault(Kind.REFUSE, QUEUE, 0.5, 3),)),
    "topic refusing": FaultProfile(
        wire=(Fault(Kind.REFUSE, TOPIC, 0.5, 4), Fault(Kind.LOST_ANSWER, TOPIC, 0.2))
    ),
    "stream records lost and doubled": FaultProfile(stream_lost=0.3, stream_doubled=0.3),
    "Novita failing after commit": FaultProfile(novita=_actions(0.5, kind="status", status=500, commit=True)),
    "Novita gone after commit": FaultProfile(novita=_actions(0.5, kind="disconnect", commit=True)),
    "Novita failing before commit": FaultProfile(novita=_actions(0.5, kind="status", status=502)),
    "list lagging": FaultProfile(
        novita_settings=(("listLagSeconds", 90),),
        novita=({"kind": "disconnect", "path": _CREATE, "commit": True, "rate": 0.6},),
    ),
    "list empty": FaultProfile(
        novita=(
            {**_LIST, "body": _EMPTY, "rate": 0.5},
            {"kind": "disconnect", "path": _CREATE, "commit": True, "rate": 0.6},
        )
    ),
    "list with a page missing": FaultProfile(
        novita_settings=(("maxPageSize", 2),), novita=({**_LIST, "body": _EMPTY, "rate": 0.3},)
    ),
    "clocks a minute apart": FaultProfile(skew_seconds=60),
    "times not told": FaultProfile(novita_settings=(("timesTold", False),), crashes=0.01),
    "two reconcilers at once": FaultProfile(two_sweeps=1.0),
    "functions dying": FaultProfile(crashes=0.02),
    "functions at the same time": FaultProfile(meanwhile=0.05),
    "receivers failing": FaultProfile(receivers_fail=0.4),
    "404s without a reason": FaultProfile(
        novita=({**_NO_ROUTE, **_GET, "rate": 0.4}, *_actions(0.4, **_NO_ROUTE)), lasts=_LONG
    ),
    "another account's answers": FaultProfile(novita=_mistaken(0.3), lasts=_LONG),
    "another account's key": FaultProfile(other_account=0.1, lasts=_LONG),
    "list of yesterday": FaultProfile(novita=({**_OF_YESTERDAY, "rate": 0.5},), lasts=_LONG),
    "machines that go away and come back": FaultProfile(hides=0.2, lasts=_LONG),
    "one caller crowding": FaultProfile(crowd=4, settings=(("NOVITA_RATE_LIMIT", "60"),)),
    "receivers and applications hanging": FaultProfile(hang=0.4),
}
# In these a machine may be bought beside one that nobody knew of; in no other.
MAY_BUY_TWO = frozenset({"list empty", "list lagging"})

ALL = FaultProfile(
    wire=(
        Fault(Kind.DOUBLE, SEND, 0.08),
        Fault(Kind.HOLD, SEND, 0.08),
        Fault(Kind.LOSE, SEND, 0.08),
        Fault(Kind.REFUSE, QUEUE, 0.02, 4),
        Fault(Kind.THROTTLE, TABLE, 0.006, 5),
        Fault(Kind.LOST_ANSWER, AWS, 0.015, 3),
        Fault(Kind.DROP, AWS, 0.005, 4),
        Fault(Kind.DOUBLE, WRITES, 0.01),
        Fault(Kind.SLOW, TABLE, 0.002),
        Fault(Kind.THROTTLE, TOPIC | QUEUE, 0.02, 4),
    ),
    novita=(
        *_actions(0.15, kind="status", status=500, commit=True),
        *_actions(0.1, kind="disconnect", commit=True),
        *_actions(0.06, kind="status", status=503),
        {"kind": "status", "status": 429, "retryAfter": 2, "path": "", "rate": 0.01},
        {"kind": "disconnect", "path": "/gpu/instance", "method": "GET", "rate": 0.03},
        {**_LIST, "body": _EMPTY, "rate": 0.2},
        {**_OF_YESTERDAY, "rate": 0.05},
        {**_NO_ROUTE, **_GET, "rate": 0.05},
        *_actions(0.03, **_NO_ROUTE),
        *_mistaken(0.03),
    ),
    novita_settings=(("listLagSeconds", 20), ("maxPageSize", 20)),  # so that an empty answer may be one page
    crashes=0.008,
    meanwhile=0.04,
    skew_seconds=60,
    stream_lost=0.1,
    stream_doubled=0.1,
    two_sweeps=0.3,
    receivers_fail=0.2,
    hang=0.05,
    hides=0.02,
    other_account=0.005,
    crowd=1,
    lasts=_LONG,
)
