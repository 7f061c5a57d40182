"""A small Novita: what it answers to a call in each weather, and what the call does to its machines."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from functions.shared.novita.calls import NoResponse, NovitaResponse
from tests.explorer import promises
from tests.explorer.world import ANOTHER, OURS, Call, ModelMachine, Weather, World

Answer = NovitaResponse | NoResponse

# What a call may meet beside the weather; each of these is a fault.
FAULTS: dict[str, tuple[str, ...]] = {
    "get": ("down",),
    "list": ("down",),
    "find": ("down",),
    "create": ("no room", "refused", "not sent", "unclear, not bought", "unclear, bought"),
    "start": ("down", "done, and no answer", "refused", "no room"),
    "restart": ("down", "done, and no answer", "refused"),
    "stop": ("down", "done, and no answer", "refused"),
    "delete": ("down", "done, and no answer", "refused"),
    "probe": ("unhealthy",),
}
_NO_ANSWER = NoResponse(timed_out=True, sent=True)
_FAILURES: dict[str, Answer] = {
    "down": NovitaResponse(503),
    "done, and no answer": _NO_ANSWER,
    "unclear, not bought": _NO_ANSWER,
    "unclear, bought": _NO_ANSWER,
    "not sent": NoResponse(timed_out=False, sent=False),
    "no room": NovitaResponse(400, {"code": 400, "reason": "INSUFFICIENT_RESOURCE"}),
    "refused": NovitaResponse(400, {"code": 400, "reason": "PREPAID_INSTANCE_NOT_SUPPORT_RELEASE"}),
}
_DONE_ALL_THE_SAME = ("ok", "done, and no answer", "unclear, bought")
_NOT_FOUND = NovitaResponse(400, {"code": 400, "reason": "RESOURCE_NOT_FOUND", "message": "no such instance"})
_NO_ROUTE = NovitaResponse(404, {"code": 404, "message": "route not found"})
_WRONG_STATE = NovitaResponse(400, {"code": 400, "reason": "CONFLICT", "message": "invalid state change"})

# From which words an action is taken, what the machine is then, and what a machine becomes of itself.
_TAKEN_FROM = {"start": ("exited",), "restart": ("running",), "stop": ("creating", "running", "toStart")}
_BECOMES = {"start": "toStart", "restart": "toRestart", "stop": "toStop", "delete": "toRemove"}
OF_ITSELF = {
    "creating": "running",
    "toStart": "running",
    "toRestart": "running",
    "migrating": "running",
    "toStop": "exited",
    "toRemove": "removed",
}
# What a list that lags shows instead.
_BEFORE = {
    "running": "creating",
    "exited": "running",
    "toStart": "exited",
    "toRestart": "running",
    "migrating": "running",
    "toStop": "running",
    "toRemove": "running",
    "removed": "toRemove",
}
_LONGEST_GAP = timedelta(hours=1)  # a longer time without a not-found does not count as missing


def perform(world: World, call: Call, outcome: str) -> tuple[World, Answer]:
    world, answer = _perform(world, call, outcome)
    if isinstance(answer, NovitaResponse):
        answer = replace(answer, key_version=str(call.key.state.version))
    return world, answer


def _perform(world: World, call: Call, outcome: str) -> tuple[World, Answer]:
    if world.weather is Weather.ROUTES_LOST:
        return _denied(world, call, believed=world.terms.without_reason), _NO_ROUTE
    if outcome not in _DONE_ALL_THE_SAME:
        return world, _FAILURES[outcome]
    if call.kind == "create":
        world, answer = _create(world, call)
    elif call.kind in ("list", "find"):
        world, answer = _list(world, call)
    else:
        world, answer = _on_machine(world, call)
    return world, answer if outcome == "ok" else _FAILURES[outcome]


def _on_machine(world: World, call: Call) -> tuple[World, Answer]:
    machine = world.machine(call.machine_id)
    if machine is None or not reachable(machine, call):
        foreign = call.key.account == ANOTHER
        return _denied(world, call, believed=not foreign or world.terms.of_another_account), _NOT_FOUND
    world = world.with_machine(replace(machine, denied_since=None, denied_at=None, unfound=0))
    if call.kind == "get":
        return world, NovitaResponse(200, shown(machine, machine.word))
    if machine.word not in _TAKEN_FROM.get(call.kind, (machine.word,)):
        return world, _WRONG_STATE
    if call.kind == "start" and machine.crowded:
        return world, _FAILURES["no room"]
    promises.check_action(world, machine, call)
    return world.with_machine(replace(machine, word=_BECOMES[call.kind])), NovitaResponse(200, {})


def reachable(machine: ModelMachine, call: Call) -> bool:
    return machine.lives and machine.hidden_since is None and machine.account == call.key.account


def shown(machine: ModelMachine, word: str) -> dict[str, Any]:
    ports = [{"port": 8188, "endpoint": "https://8188.example", "type": "http"}] if word == "running" else []
    return {"id": machine.id, "name": machine.name, "status": word, "portMappings": ports}


def _with_notice(machine: ModelMachine, entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "spotStatus": "notified" if machine.notified else "running"}


def listed(world: World, call: Call) -> list[dict[str, Any]]:
    ours = [one for one in world.machines if one.account == OURS]
    match world.weather:
        case Weather.LIST_EMPTY:
            return []
        case Weather.LIST_OF_YESTERDAY:
            return [shown(one, "running") for one in ours]
        case Weather.LIST_LAGS:
            lagging = (one for one in ours if one.hidden_since is None and one.word in _BEFORE)
            return [shown(one, _BEFORE[one.word]) for one in lagging]
    seen = [one for one in world.machines if reachable(one, call)]
    return [_with_notice(one, shown(one, one.word)) for one in seen]


def _list(world: World, call: Call) -> tuple[World, Answer]:
    found = listed(world, call)
    if call.kind == "find":
        found = [one for one in found if one["name"] == call.name]
        machine = world.named(call.name)
        if machine is not None:
            world = world.with_machine(replace(machine, unfound=0 if found else min(machine.unfound + 1, 2)))
    return world, NovitaResponse(200, {"instances": found, "total": len(found)})


def _denied(world: World, call: Call, *, believed: bool) -> World:
    """Asked for by its id, and not found."""
    machine = world.machine(call.machine_id)
    if machine is None or not believed:
        return world
    since, last = machine.denied_since or world.now, machine.denied_at or world.now
    gap = world.now - last
    denied = replace(
        machine,
        denied_since=since,
        denied_at=world.now,
        denied_for=max(machine.denied_for, world.now - since),
        missed_for=(machine.missed_for if machine.denied_since else timedelta())
        + (gap if gap <= _LONGEST_GAP else timedelta()),
    )
    return world.with_machine(denied)


def _create(world: World, call: Call) -> tuple[World, Answer]:
    machine = ModelMachine(f"m-{len(world.machines) + 1}", call.name, account=call.key.account)
    promises.check_purchase(world, machine, call.key)
    return replace(world, machines=(*world.machines, machine)), NovitaResponse(200, {"id": machine.id})
