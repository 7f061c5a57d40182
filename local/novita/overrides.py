"""Machines and products injected or overridden by a control call, past all checks of the API."""

from typing import Any

from pydantic import ConfigDict, Field

from local.novita.catalog import Cluster, Product
from local.novita.errors import ApiError
from local.novita.machines import Machine, Spot, StatusError
from local.novita.orders import Order, check_ports
from local.novita.purchase import add_machine
from local.novita.state import SimulatorState
from local.novita.timeline import Step
from local.novita.wire import InputError, Wire, parse


class InjectedMachine(Order):
    """Like a create body, but every field may be left out and nothing is asked about stock or money."""

    model_config = ConfigDict(extra="forbid")
    product_id: str = "4090.16c62g"
    image_url: str = "ghcr.io/ostler-demo/comfyui:latest"
    status: str | None = Field(default=None, min_length=1)
    age_seconds: float = Field(default=0, ge=0)
    count: int = Field(default=1, ge=1, le=10_000)
    account: str = ""


class StatusErrorOverride(Wire):
    state: str = ""
    message: str = ""


class MachineOverride(Wire):
    name: str | None = None
    status: str | None = Field(default=None, min_length=1)
    status_error: StatusErrorOverride | None = None
    spot_status: str | None = None
    spot_reclaim_time: int | str | None = None
    endpoints: dict[str, str] | None = None
    hidden: bool | None = None
    hidden_seconds: float | None = Field(default=None, gt=0)
    account: str | None = None
    gpu_utilization: float | list[float | None] | None = None  # percent; of each GPU, null: not measured


class Reclaim(Wire):
    in_seconds: float = Field(default=0, ge=0)
    notice: bool = True  # else it is gone without a word
    removed: bool = False  # the machine is removed, not only stopped
    no_room_seconds: float = Field(default=0, ge=0)  # from when it is taken away


def inject_machines(state: SimulatorState, body: InjectedMachine) -> list[Machine]:
    """As many as `count` says; from two on the names end in a number."""
    machines = [inject_machine(state, body) for _ in range(body.count)]
    for number, machine in enumerate(machines, start=1):
        machine.name = f"{body.name}-{number}" if body.count > 1 else body.name
    return machines


def inject_machine(state: SimulatorState, body: InjectedMachine) -> Machine:
    product = state.products.get(body.product_id)
    if product is None:
        raise InputError(f"productId: {body.product_id} is not known")
    try:
        check_ports(body.port_list, len(body.tools))
    except ApiError as error:
        raise InputError(error.message) from None
    at = state.clock.now() - body.age_seconds
    machine = add_machine(state, body, product, _cluster(state, body.cluster_id, product), at)
    machine.account = body.account
    if body.status is not None:
        machine.statuses.steps = [Step(at, body.status)]
    return machine


def override_machine(state: SimulatorState, machine: Machine, body: MachineOverride) -> None:
    """Only what is named changes. A forced status stays until an action or a reclaim ends it."""
    now = state.clock.now()
    spot = _spot(machine.spot(now), body)
    addresses = _addresses(machine, body.endpoints or {})
    if body.name is not None:
        machine.name = body.name
    machine.addresses |= addresses
    machine.account = machine.account if body.account is None else body.account
    if body.hidden or body.hidden_seconds:
        machine.hide(now, body.hidden_seconds)
    elif body.hidden is not None:
        machine.show(now)
    if body.status is not None:
        machine.plan(now, [Step(now, body.status)])
    if "status_error" in body.model_fields_set:
        wrong = body.status_error or StatusErrorOverride()
        machine.errors.replan(now, [Step(now, StatusError(wrong.state, wrong.message))])
    if body.gpu_utilization is not None:
        machine.gpu_uses.replan(now, [Step(now, _gpu_uses(machine, body.gpu_utilization))])
    if spot != machine.spot(now):
        machine.spots.replan(now, [Step(now, spot)])


def reclaim(state: SimulatorState, machine: Machine, body: Reclaim) -> None:
    if machine.terms.billing_mode != "spot":
        raise InputError(f"{machine.id}: billingMode is {machine.terms.billing_mode}, not spot")
    now = state.clock.now()
    end = "removed" if body.removed else "exited"
    machine.reclaim(now, body.in_seconds, state.settings.stop_seconds, end=end, notice=body.notice)
    machine.no_room_until = now + body.in_seconds + body.no_room_seconds if body.no_room_seconds else 0


def patch_product(state: SimulatorState, id_: str, change: dict[str, Any]) -> Product:
    """`availability` and `availableDeploy` mean `available`; a number is the stock of each region."""
    known = state.products.get(id_)
    if known is None:
        raise InputError(f"product {id_} is not known")
    return _store_product(state, {**known.to_json(), **_normalised(change, known.regions), "id": id_})


def put_product(state: SimulatorState, id_: str, body: dict[str, Any]) -> Product:
    regions = body.get("regions")
    return _store_product(
        state, {**_normalised(body, regions if isinstance(regions, list) else []), "id": id_}
    )


def _store_product(state: SimulatorState, fields: dict[str, Any]) -> Product:
    product = parse(Product, fields)
    for region in (*product.regions, *product.stock):
        if state.cluster_of(region) is None:
            raise InputError(f"regions: {region} is not the region of any cluster")
    state.products[product.id] = product
    return product


def _normalised(change: dict[str, Any], regions: list[str]) -> dict[str, Any]:
    names = {"availability": "available", "availableDeploy": "available"}
    fields = {names.get(name, name): value for name, value in change.items()}
    stock = fields.get("stock")
    if stock is None and "stock" in fields:
        return {**fields, "stock": {}}
    if isinstance(stock, int) and not isinstance(stock, bool):
        named = fields.get("regions", regions)
        each = [region for region in named if isinstance(region, str)] if isinstance(named, list) else []
        return {**fields, "stock": dict.fromkeys(each, stock)}
    return fields


def _cluster(state: SimulatorState, cluster_id: str, product: Product) -> Cluster:
    region = product.regions[0] if product.regions else ""
    cluster = state.clusters.get(cluster_id) if cluster_id else state.cluster_of(region)
    if cluster is None:
        raise InputError(f"clusterId: {cluster_id or region} is not known")
    return cluster


def _addresses(machine: Machine, by_port: dict[str, str]) -> dict[str, str]:
    for port in by_port:
        if port not in (str(known.port) for known in machine.ports):
            raise InputError(f"endpoints: {port} is not a port of {machine.id}")
    return by_port


def _gpu_uses(machine: Machine, given: float | list[float | None]) -> list[float | None]:
    gpus = machine.terms.gpu_num
    uses: list[float | None] = given if isinstance(given, list) else [given] * gpus
    if len(uses) != gpus:
        raise InputError(f"gpuUtilization: {machine.id} has {gpus}")
    return uses


def _spot(before: Spot, body: MachineOverride) -> Spot:
    status = before.status if body.spot_status is None else body.spot_status
    if body.spot_reclaim_time is None:
        return Spot(status, before.reclaim_time)
    if not str(body.spot_reclaim_time).isdigit():
        raise InputError("spotReclaimTime: not unix seconds")
    return Spot(status, int(body.spot_reclaim_time))
