"""An instance as Novita's get and list show it: numbers as strings here and there, times as strings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from local.novita.machines import Machine, StatusError
from local.novita.orders import Port
from local.novita.settings import Settings

DOMAIN = "gpu-instance.novita.ai"


@dataclass(frozen=True)
class View:
    """From where a machine is looked at: the time it is seen as of, and the readings in force."""

    t: float
    settings: Settings
    public_url: str
    cluster_name: str
    in_list: bool = False
    storage_sizes: Mapping[str, int] = field(default_factory=dict)


def instance(machine: Machine, view: View) -> dict[str, Any]:
    terms = machine.terms
    running = machine.status(view.t) == "running"
    error = machine.error(view.t)
    return {
        "id": machine.id,
        "name": machine.name,
        "clusterId": terms.cluster_id,
        "clusterName": view.cluster_name,
        "productId": terms.product_id,
        "productName": terms.product_name,
        "status": machine.status(view.t),
        "statusError": _status_error(error, view.settings),
        "imageUrl": machine.image_url,
        "imageAuthId": machine.image_auth_id,
        "command": machine.command,
        "entrypoint": machine.entrypoint,
        "kind": machine.kind,
        "cpuNum": str(terms.cpus),
        "memory": str(terms.memory),
        "gpuNum": str(terms.gpu_num),
        "rootfsSize": machine.rootfs_size,
        "portMappings": _ports(machine, view),
        "envs": [{"key": env.key, "value": env.value} for env in machine.envs],
        "tools": [tool.to_json() for tool in machine.tools],
        "volumeMounts": _mounts(machine, view),
        "network": {"id": "", "ip": ""},
        "node": _node(terms.max_root_fs, view.settings),
        "jobs": [],
        **_billing(machine, view),
        **_times(machine, view),
        **_connections(machine, view, running),
    }


def _ports(machine: Machine, view: View) -> list[dict[str, Any]]:
    """Endpoints are known from some time after the machine first ran; the list may not have them at all."""
    ports = [{"port": port.port, "type": port.type} for port in machine.ports]
    if view.in_list and not view.settings.endpoint_in_list:
        return ports
    ran = machine.last("running", view.t - view.settings.endpoints_after_seconds) is not None
    real = view.settings.real_endpoints
    return [
        {**shown, "endpoint": endpoint(machine, port, view.public_url, real) if ran else ""}
        for shown, port in zip(ports, machine.ports, strict=True)
    ]


def _mounts(machine: Machine, view: View) -> list[dict[str, Any]]:
    """By the documentation sizes are numbers, and texts in the list."""
    sizes = {one.id: view.storage_sizes.get(one.id, 0) for one in machine.mounts}
    return [
        {
            "type": "network",
            "size": str(sizes[one.id]) if view.in_list else sizes[one.id],
            "id": one.id,
            "mountPath": one.mount_point,
        }
        for one in machine.mounts
    ]


def _status_error(error: StatusError, settings: Settings) -> Any:
    if settings.status_error_as == "object":
        return {"state": error.state, "message": error.message}
    return ": ".join(part for part in (error.state, error.message) if part)


def _node(max_root_fs: int, settings: Settings) -> Any:
    node = {"maxRootfsSize": max_root_fs}
    return [node] if settings.node_as == "array" else node


def _billing(machine: Machine, view: View) -> dict[str, Any]:
    spot = machine.spot(view.t)
    status = view.settings.spot_status_when_not_spot if spot.status is None else spot.status
    monthly = machine.terms.billing_mode == "monthly"
    shown = {"spotStatus": status, "spotReclaimTime": str(spot.reclaim_time)}
    return {
        "billingMode": "" if view.settings.blank_billing_mode else machine.terms.billing_mode,
        "instancePrice": str(machine.terms.unit_price),  # of one GPU: Novita's console multiplies it
        "endTime": str(int(machine.created_at) + 30 * 86400) if monthly else "-1",
        **(shown if view.in_list or view.settings.spot_in_get else {}),
        "freeStorageSize": 60,
        "keepDataDay": 7,
    }


def _times(machine: Machine, view: View) -> dict[str, str]:
    if not view.settings.timestamps_present:
        return {}
    started, stopped = _started(machine, view), machine.last("exited", view.t)
    told = view.settings.times_told
    return {
        "createdAt": str(int(machine.created_at)),
        "lastStartedAt": str(int(started or 0) if told else 0),
        "lastStoppedAt": str(int(stopped or 0) if told else 0),
    }


def _started(machine: Machine, view: View) -> float | None:
    if view.settings.started_at_means == "running":
        return machine.last("running", view.t)
    return machine.billed_since(view.t)


def _connections(machine: Machine, view: View, running: bool) -> dict[str, Any]:
    real = view.settings.real_endpoints
    password = sha256(machine.id.encode()).hexdigest()[:16]
    jupyter = next((tool for tool in machine.tools if tool.name.lower() == "jupyter"), None)
    base = f"{view.public_url}/_sim/app/{machine.id}"
    return {
        "connectComponentSSH": {
            "sshCommand": ssh_command(machine, view.public_url, real),
            "password": password,
            "isRunning": running,
        },
        "connectComponentWebTerminal": {
            "address": f"{base}/2222",
            "username": "root",
            "password": password,
            "isRunning": running,
        },
        "connectComponentJupyter": {
            "port": jupyter.port if jupyter else "",
            "address": f"{base}/{jupyter.port}" if jupyter else "",
            "isRunning": running and jupyter is not None,
        },
        "connectComponentLog": {
            "systemLogAddress": f"{base}/2223",
            "instanceLogAddress": f"{base}/2224",
            "isRunning": running,
        },
    }


def endpoint(machine: Machine, port: Port, public_url: str, real: bool) -> str:
    if override := machine.addresses.get(str(port.port)):
        return override
    if port.type == "tcp":
        return tcp_address(machine, port.port, public_url, real)
    if real:
        return f"https://{machine.id}-{port.port}.{machine.terms.cluster_id}.{DOMAIN}"
    return f"{public_url}/_sim/app/{machine.id}/{port.port}"


def tcp_address(machine: Machine, port: int, public_url: str, real: bool) -> str:
    if real:
        return f"proxy.{machine.terms.cluster_id}.{DOMAIN}:{allocated_port(machine, port)}"
    return urlsplit(public_url).netloc


def allocated_port(machine: Machine, port: int) -> int:
    """A port of the proxy that looks drawn and is always the same."""
    return 30000 + (int(machine.id[:8], 16) + port) % 30000


def ssh_command(machine: Machine, public_url: str, real: bool) -> str:
    host, _, port = tcp_address(machine, 22, public_url, real).rpartition(":")
    return f"ssh -p {port} root@{host}"
