"""Where a machine's ports are reached from outside."""

from urllib.parse import urlsplit

from local.novita.machines import Machine
from local.novita.ports import Port

DOMAIN = "gpu-instance.novita.ai"


def endpoint(machine: Machine, port: Port, public_url: str, real: bool) -> str:
    if set_by_hand := machine.addresses.get(str(port.port)):
        return set_by_hand
    if port.type == "tcp":
        return tcp_address(machine, port.port, public_url, real)
    if real:
        return f"https://{machine.id}-{port.port}.{machine.bought.cluster_id}.{DOMAIN}"
    return f"{public_url}/_sim/app/{machine.id}/{port.port}"


def tcp_address(machine: Machine, port: int, public_url: str, real: bool) -> str:
    if real:
        return f"proxy.{machine.bought.cluster_id}.{DOMAIN}:{allocated_port(machine, port)}"
    return urlsplit(public_url).netloc


def allocated_port(machine: Machine, port: int) -> int:
    """A port of the proxy that looks drawn and is always the same."""
    return 30000 + (int(machine.id[:8], 16) + port) % 30000


def ssh_command(machine: Machine, public_url: str, real: bool) -> str:
    host, _, port = tcp_address(machine, 22, public_url, real).rpartition(":")
    return f"ssh -p {port} root@{host}"
