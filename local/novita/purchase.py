"""A create call carried out: what is asked for is checked against what is there, and a machine stands."""

import math
import random
import secrets

from local.novita import lifecycle
from local.novita.billing import has_money
from local.novita.catalog import Billing, Cluster, Product
from local.novita.errors import ApiError
from local.novita.machines import Machine, PurchaseTerms, Spot, StatusError
from local.novita.masking import masked
from local.novita.orders import Order
from local.novita.settings import Settings
from local.novita.state import SimulatorState
from local.novita.stock import Stock
from local.novita.timeline import Step

MISSING_IMAGE = "ghcr.io/ostler-demo/missing"  # and all whose names go on after it


def buy(state: SimulatorState, order: Order) -> Machine:
    product = _product(state, order)
    cluster = _cluster(state, order, product)
    _check_terms(order, product)
    cluster = _cluster_of_storages(state, order, product, cluster)
    check_image(state, order.image_url, order.image_auth, order.image_auth_id)
    _check_account(state)
    cluster = cluster or _any_cluster(state, order, product)
    if state.stock().free(product, cluster.region) < order.gpus:
        raise ApiError("INSUFFICIENT_RESOURCE", f"no {order.gpus} GPUs of {product.id} in {cluster.region}")
    return add_machine(state, order, product, cluster)


def add_machine(
    state: SimulatorState, order: Order, product: Product, cluster: Cluster, at: float | None = None
) -> Machine:
    """The machine itself, without a question about stock or money."""
    now = state.clock.now() if at is None else at
    state.machines_created += 1
    machine = Machine(
        id=secrets.token_hex(8),
        ordinal=state.machines_created,
        name=order.name,
        created_at=now,
        terms=_terms(order, product, cluster),
        image_url=order.image_url,
        image_auth_id=order.image_auth_id,
        command=order.command,
        entrypoint=order.entrypoint,
        rootfs_size=order.rootfs,
        kind=order.kind or "gpu",
        ports=order.port_list,
        envs=order.envs,
        tools=order.tools,
        mounts=order.network_storages,
        create_body=masked(order.model_dump(mode="json", by_alias=True, exclude_unset=True)),
    )
    machine.spots.replan(now, [Step(now, Spot("running" if order.billing == "spot" else None))])
    _boot(machine, now, state.settings)
    state.machines[machine.id] = machine
    return machine


def _product(state: SimulatorState, order: Order) -> Product:
    product = state.products.get(order.product_id)
    if product is None or order.kind == "cpu":
        raise ApiError("RESOURCE_NOT_FOUND", f"product {order.product_id} not found")
    return product


def _cluster(state: SimulatorState, order: Order, product: Product) -> Cluster | None:
    if not order.cluster_id:
        return None
    cluster = state.clusters.get(order.cluster_id)
    if cluster is None:
        raise ApiError("RESOURCE_NOT_FOUND", f"cluster {order.cluster_id} not found")
    if cluster.region not in product.regions:
        raise ApiError("VALIDATOR_PARAM", f"clusterId: {cluster.id} does not sell {product.id}")
    return cluster


def _any_cluster(state: SimulatorState, order: Order, product: Product) -> Cluster:
    stock = state.stock()
    found = [cluster for cluster in state.clusters.values() if _has(stock, product, cluster, order.gpus)]
    if not found:
        raise ApiError("INSUFFICIENT_RESOURCE", f"no {order.gpus} GPUs of {product.id} in any cluster")
    return random.Random(state.machines_created).choice(found)


def _has(stock: Stock, product: Product, cluster: Cluster, gpus: int) -> bool:
    return stock.free(product, cluster.region) >= gpus


def _cluster_of_storages(
    state: SimulatorState, order: Order, product: Product, cluster: Cluster | None
) -> Cluster | None:
    """A storage can be mounted in its own cluster only."""
    storages = [state.require_storage(one.id) for one in order.network_storages]
    for one in storages:
        if cluster is None and state.clusters[one.cluster_id].region in product.regions:
            cluster = state.clusters[one.cluster_id]
        if cluster is None or one.cluster_id != cluster.id:
            raise ApiError("NETWORK_STORAGE_UNAVAILABLE", f"storage {one.storage_id} is in {one.cluster_id}")
    return cluster


def _check_terms(order: Order, product: Product) -> None:
    if order.billing not in product.billing_methods:
        raise ApiError("UNSUPPORTED_BILLING_MODE", f"{product.id} is not sold as {order.billing}")
    if not product.min_root_fs <= order.rootfs <= product.max_root_fs:
        bounds = f"{product.min_root_fs} to {product.max_root_fs}"
        raise ApiError("VALIDATOR_PARAM", f"rootfsSize: {order.rootfs} is not within {bounds} GB")
    if order.network_id:
        raise ApiError("NETWORK_NOT_FOUND", f"network {order.network_id} not found")


def _check_account(state: SimulatorState) -> None:
    if not has_money(state):
        raise ApiError("BALANCE_NOT_ENOUGH", "balance not enough")
    limit = state.settings.instance_limit
    if limit and len(state.live_machines()) >= limit:
        raise ApiError("CREATE_INSTANCE_LIMIT", f"no more than {limit} instances")


def _terms(order: Order, product: Product, cluster: Cluster) -> PurchaseTerms:
    return PurchaseTerms(
        product_id=product.id,
        product_name=product.name,
        cluster_id=cluster.id,
        region=cluster.region,
        gpu_num=order.gpus,
        cpus=product.cpu_per_gpu * order.gpus,
        memory=product.memory_per_gpu * order.gpus,
        billing_mode=order.billing,
        unit_price=price_of(product, order.billing),
        max_root_fs=product.max_root_fs,
    )


def price_of(product: Product, billing: Billing) -> int:
    return product.spot_price if billing == "spot" else product.price


def _boot(machine: Machine, t: float, settings: Settings) -> None:
    bring_up(machine, t, lifecycle.boot_steps(t, boot_seconds(settings, machine.ordinal)), settings)


def bring_up(machine: Machine, t: float, steps: list[Step[str]], settings: Settings) -> None:
    """Through these steps; all but the last where its image cannot be pulled, which is shown instead."""
    why = next(
        (why for prefix, why in settings.unpullable_images.items() if machine.image_url.startswith(prefix)),
        None,
    )
    if why is None:
        machine.plan(t, steps)
        return
    machine.plan(t, steps[:-1])
    failure = StatusError("pulling", f"failed to pull image {machine.image_url}: {why}")
    machine.errors.replan(t, [Step(t, StatusError()), Step(steps[-1].at, failure)])


def boot_seconds(settings: Settings, ordinal: int) -> float:
    """Log-normal with the setting as its median; the same seed and ordinal give the same draw."""
    draw = random.Random(f"{settings.boot_seed}:{ordinal}").gauss(0, 1)
    return settings.boot_seconds * math.exp(settings.boot_seconds_sigma * draw)


def check_image(state: SimulatorState, image: str, login: str, auth_id: str) -> None:
    settings = state.settings
    if image.startswith(MISSING_IMAGE):
        raise ApiError("IMAGE_NOT_FOUND", f"image {image} not found")
    if auth_id and auth_id not in state.auths:
        raise ApiError("RESOURCE_NOT_FOUND", f"repository auth {auth_id} not found")
    if not image.startswith(tuple(settings.private_images)):
        return
    if auth_id and not settings.image_auth_id_accepted:
        raise ApiError("VALIDATOR_PARAM", "imageAuthId: not supported, give imageAuth")
    logins = {f"{auth.username}:{auth.password}" for auth in state.auths.values()}
    if not auth_id and login not in logins:
        raise ApiError("IMAGE_NOT_FOUND", f"image {image} not found or its registry refuses the login")
