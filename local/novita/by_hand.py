"""Machines and products changed behind Novita's back, as a control call asks for it."""

from typing import Any

from pydantic import ConfigDict, Field

from local.novita.catalog import Cluster, Product
from local.novita.errors import ApiError
from local.novita.machines import Machine, Spot, StatusError
from local.novita.orders import Order
from local.novita.ports import check_ports
from local.novita.purchase import put
from local.novita.timeline import Step
from local.novita.wire import InputError, Wire, parse
from local.novita.world import World


class MachineByHand(Order):
    """Like a create body, but every field may be left out and nothing is asked about stock or money."""

    model_config = ConfigDict(extra="forbid")
    product_id: str = "4090.16c62g"
    image_url: str = "ghcr.io/ostler-demo/comfyui:latest"
    status: str | None = Field(default=None, min_length=1)
    age_seconds: float = Field(default=0, ge=0)
    count: int = Field(default=1, ge=1, le=10_000)


class ForcedError(Wire):
    state: str = ""
    message: str = ""


class Force(Wire):
    name: str | None = None
    status: str | None = Field(default=None, min_length=1)
    status_error: ForcedError | None = None
    spot_status: str | None = None
    spot_reclaim_time: int | str | None = None
    endpoints: dict[str, str] | None = None


class Reclaim(Wire):
    in_seconds: float = Field(default=0, ge=0)


def put_machines(world: World, body: MachineByHand) -> list[Machine]:
    """As many as `count` says; from two on the names end in a number."""
    machines = [put_machine(world, body) for _ in range(body.count)]
    for number, machine in enumerate(machines, start=1):
        machine.name = f"{body.name}-{number}" if body.count > 1 else body.name
    return machines


def put_machine(world: World, body: MachineByHand) -> Machine:
    product = world.products.get(body.product_id)
    if product is None:
        raise InputError(f"productId: {body.product_id} is not known")
    try:
        check_ports(body.port_list, len(body.tools))
    except ApiError as error:
        raise InputError(error.message) from None
    at = world.clock.now() - body.age_seconds
    machine = put(world, body, product, _cluster(world, body.cluster_id, product), at)
    if body.status is not None:
        machine.statuses.steps = [Step(at, body.status)]
    return machine


def force(world: World, machine: Machine, body: Force) -> None:
    """Only what is named changes. A forced status stays until an action or a reclaim ends it."""
    now = world.clock.now()
    spot = _spot(machine.spot(now), body)
    addresses = _addresses(machine, body.endpoints or {})
    if body.name is not None:
        machine.name = body.name
    machine.addresses |= addresses
    if body.status is not None:
        machine.plan(now, [Step(now, body.status)])
    if "status_error" in body.model_fields_set:
        wrong = body.status_error or ForcedError()
        machine.errors.replan(now, [Step(now, StatusError(wrong.state, wrong.message))])
    if spot != machine.spot(now):
        machine.spots.replan(now, [Step(now, spot)])


def reclaim(world: World, machine: Machine, body: Reclaim) -> None:
    if machine.bought.billing_mode != "spot":
        raise InputError(f"{machine.id}: billingMode is {machine.bought.billing_mode}, not spot")
    machine.reclaim(world.clock.now(), body.in_seconds, world.settings.stop_seconds)


def change_product(world: World, id_: str, change: dict[str, Any]) -> Product:
    """`availability` and `availableDeploy` mean `available`; a number is the stock of each region."""
    known = world.products.get(id_)
    if known is None:
        raise InputError(f"product {id_} is not known")
    return _keep(world, {**known.sent(), **_renamed(change, known.regions), "id": id_})


def put_product(world: World, id_: str, body: dict[str, Any]) -> Product:
    regions = body.get("regions")
    return _keep(world, {**_renamed(body, regions if isinstance(regions, list) else []), "id": id_})


def _keep(world: World, fields: dict[str, Any]) -> Product:
    product = parse(Product, fields)
    for region in (*product.regions, *product.stock):
        if world.cluster_of(region) is None:
            raise InputError(f"regions: {region} is not the region of any cluster")
    world.products[product.id] = product
    return product


def _renamed(change: dict[str, Any], regions: list[str]) -> dict[str, Any]:
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


def _cluster(world: World, cluster_id: str, product: Product) -> Cluster:
    region = product.regions[0] if product.regions else ""
    cluster = world.clusters.get(cluster_id) if cluster_id else world.cluster_of(region)
    if cluster is None:
        raise InputError(f"clusterId: {cluster_id or region} is not known")
    return cluster


def _addresses(machine: Machine, by_port: dict[str, str]) -> dict[str, str]:
    for port in by_port:
        if port not in (str(known.port) for known in machine.ports):
            raise InputError(f"endpoints: {port} is not a port of {machine.id}")
    return by_port


def _spot(before: Spot, body: Force) -> Spot:
    status = before.status if body.spot_status is None else body.spot_status
    if body.spot_reclaim_time is None:
        return Spot(status, before.reclaim_time)
    if not str(body.spot_reclaim_time).isdigit():
        raise InputError("spotReclaimTime: not unix seconds")
    return Spot(status, int(body.spot_reclaim_time))
