"""Clusters, products, templates and registry logins as Novita's lists show them."""

from typing import Any

from local.novita.catalog import Cluster, Product
from local.novita.state import SimulatorState
from local.novita.stock import Stock, inventory_state
from local.novita.templates import RegistryAuth

MONTHLY_HOURS = 720


def cluster(state: SimulatorState, one: Cluster) -> dict[str, Any]:
    names = {product.name for product in state.products.values() if one.region in product.regions}
    return {
        "id": one.id,
        "name": state.region_name(one.region),
        "availableGpuType": sorted(names),
        "supportNetworkStorage": True,
        "supportInstanceNetwork": True,
    }


def product(
    state: SimulatorState, one: Product, stock: Stock, region: str | None, gpus: int
) -> dict[str, Any]:
    settings = state.settings
    free = stock.most_free(one, region)
    monthly = one.price * MONTHLY_HOURS
    return {
        "id": one.id,
        "name": one.name,
        "cpuPerGpu": one.cpu_per_gpu,
        "memoryPerGpu": one.memory_per_gpu,
        "diskPerGpu": one.disk_per_gpu,
        "availableDeploy": free >= max(gpus, 1),
        **({"inventoryState": inventory_state(free)} if settings.inventory_state_present else {}),
        "minRootFS": one.min_root_fs,
        "maxRootFS": one.max_root_fs,
        "minLocalStorage": one.min_local_storage,
        "maxLocalStorage": one.max_local_storage,
        "regions": [state.region_name(name) for name in one.regions],
        "price": _number(one.price, settings.price_as),
        "spotPrice": _number(one.spot_price, settings.spot_price_as),
        "monthlyPrice": [{"price": _number(monthly, settings.price_as), "month": 1}],
        "billingMethods": one.billing_methods,
    }


def template(state: SimulatorState, one: dict[str, Any]) -> dict[str, Any]:
    if state.settings.template_times_as == "createdAt":
        return one
    return {("createTime" if name == "createdAt" else name): value for name, value in one.items()}


def auth(state: SimulatorState, one: RegistryAuth) -> dict[str, Any]:
    shown = one.to_json()
    return {**shown, "password": "******"} if state.settings.mask_auth_passwords else shown


def _number(value: int, as_: str) -> int | str:
    return str(value) if as_ == "string" else value
