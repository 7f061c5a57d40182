"""What can be done to a machine that stands: start, stop, restart, migrate, edit, upgrade, remove."""

from pydantic import Field

from local.novita import lifecycle
from local.novita.billing import has_money
from local.novita.errors import ApiError
from local.novita.machines import Machine, TakenAction
from local.novita.orders import Env, NetworkStorage, Port, check_ports
from local.novita.purchase import bring_up, check_image
from local.novita.state import SimulatorState
from local.novita.wire import Lenient

BRINGS_UP = frozenset({"start", "migrate"})


class Target(Lenient):
    instance_id: str = Field(min_length=1)


class Edit(Target):
    ports: list[Port] | None = None
    expand_root_disk: int = Field(default=0, ge=0)


class NetworkVolume(Lenient):
    volume_mounts: list[dict[str, str]]


class Upgrade(Target):
    image_url: str = Field(min_length=1, max_length=500)
    image_auth_id: str = ""
    envs: list[Env] = Field(max_length=100)
    command: str = Field(max_length=2047)
    entrypoint: str = Field(default="", max_length=2047)
    save: bool
    network_volume: NetworkVolume


def act(state: SimulatorState, name: str, id_: str) -> Machine:
    machine = state.require_machine(id_)
    now = state.clock.now()
    failing = bool(machine.error(now).message) and state.settings.stop_while_failing
    if not (name == "stop" and failing and machine.status(now) not in lifecycle.REMOVING):
        lifecycle.check_allowed(name, machine.status(now))
    if name in BRINGS_UP:
        _check_gpus(state, name, machine)
        machine.clear_reclaim(now)
    steps = lifecycle.action_steps(lifecycle.ACTIONS[name], now, state.settings)
    if name == "start":
        bring_up(machine, now, steps, state.settings)
    else:
        machine.plan(now, steps)
    machine.actions.append(TakenAction(now, name))
    return machine


def remove(state: SimulatorState, id_: str) -> Machine:
    machine = state.require_machine(id_)
    now = state.clock.now()
    if machine.terms.billing_mode == "monthly":
        raise ApiError("PREPAID_INSTANCE_NOT_SUPPORT_RELEASE", "a monthly instance cannot be released")
    if machine.status(now) not in lifecycle.REMOVING:
        machine.plan(now, lifecycle.action_steps(lifecycle.REMOVE, now, state.settings))
        machine.actions.append(TakenAction(now, "delete"))
    return machine


def edit(state: SimulatorState, change: Edit) -> None:
    machine = state.require_machine(change.instance_id)
    status = machine.status(state.clock.now())
    if status not in ("running", "exited"):
        raise ApiError("CONFLICT", f"invalid state change: cannot edit an instance that is {status}")
    size = machine.rootfs_size + change.expand_root_disk
    if size > machine.terms.max_root_fs:
        raise ApiError("VALIDATOR_PARAM", f"expandRootDisk: {size} GB is more than the product allows")
    if change.ports is not None:
        check_ports(change.ports, len(machine.tools))
        machine.ports = change.ports
    machine.rootfs_size = size


def upgrade(state: SimulatorState, change: Upgrade) -> None:
    lifecycle.check_allowed("upgrade", state.require_machine(change.instance_id).status(state.clock.now()))
    mounts = [
        NetworkStorage.model_validate(
            {"Id": one.get("id", ""), "mountPoint": one.get("mountPath", "/network")}
        )
        for one in change.network_volume.volume_mounts
    ]
    for mount in mounts:
        state.require_storage(mount.id)
    check_image(state, change.image_url, "", change.image_auth_id)
    machine = act(state, "upgrade", change.instance_id)
    machine.image_url, machine.image_auth_id = change.image_url, change.image_auth_id
    machine.mounts = mounts
    machine.envs, machine.command, machine.entrypoint = change.envs, change.command, change.entrypoint


def _check_gpus(state: SimulatorState, name: str, machine: Machine) -> None:
    """A stopped machine has given its GPUs back; a moving one needs others before it leaves its own."""
    if not has_money(state):
        raise ApiError("BALANCE_NOT_ENOUGH", "balance not enough")
    terms = machine.terms
    product = state.products.get(terms.product_id)
    crowded = state.clock.now() < machine.no_room_until
    if product is None or crowded or state.stock().free(product, terms.region) < terms.gpu_num:
        reason = "INSUFFICIENT_RESOURCE" if name == "start" else "MIGRATE_INSUFFICIENT_RESOURCE"
        raise ApiError(reason, f"no {terms.gpu_num} GPUs of {terms.product_id} in {terms.region}")
