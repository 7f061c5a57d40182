"""What Novita says of a machine, in our words; a status we do not know means "on its way"."""

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto


@dataclass(frozen=True)
class Endpoint:
    port: int
    type: str  # "http" or "tcp"
    address: str  # a URL for http, host:port for tcp; empty while Novita has not said


@dataclass(frozen=True)
class Machine:
    id: str
    name: str
    status: str  # Novita's own word
    endpoints: tuple[Endpoint, ...] = ()
    region: str = ""
    product_id: str = ""
    product_name: str = ""
    gpu_num: int | None = None
    rootfs_size: int | None = None  # GB
    billing_mode: str = ""
    spot_status: str = ""
    spot_reclaim_at: datetime | None = None
    error: str = ""  # statusError, as one line
    created_at: datetime | None = None


@dataclass(frozen=True)
class Connection:
    """How to get into a machine; every field may hold a secret, so none is ever stored or logged."""

    ssh_command: str = field(default="", repr=False)
    ssh_password: str = field(default="", repr=False)
    jupyter_address: str = field(default="", repr=False)
    terminal_address: str = field(default="", repr=False)
    terminal_username: str = field(default="", repr=False)
    terminal_password: str = field(default="", repr=False)


class MachineState(Enum):
    ON_ITS_WAY = auto()
    RUNNING = auto()
    EXITED = auto()
    MIGRATING = auto()
    GONE = auto()


_MEANING = {
    "running": MachineState.RUNNING,
    "exited": MachineState.EXITED,
    "migrating": MachineState.MIGRATING,
    "removed": MachineState.GONE,
}


def machine_state(machine: Machine) -> MachineState:
    return _MEANING.get(machine.status, MachineState.ON_ITS_WAY)


def has_addresses(machine: Machine, *, expected: bool) -> bool:
    """Whether every port has the address that a caller would use."""
    if not machine.endpoints:
        return not expected
    return all(endpoint.address for endpoint in machine.endpoints)


def endpoints_digest(endpoints: Iterable[Endpoint]) -> str:
    """Short, to see whether they have changed; empty where there are none."""
    known = [[one.port, one.type, one.address] for one in endpoints]
    return f"{zlib.crc32(json.dumps(known).encode()):08x}" if known else ""


def spot_notice(status: str, reclaim_at: datetime | None) -> str:
    return f"{status} {reclaim_at.isoformat() if reclaim_at else ''}".strip()
