"""What Novita says of a machine, in our words; a status we do not know means "on its way"."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum, auto

from functions.shared.domain.errors import Fault


@dataclass(frozen=True)
class Endpoint:
    port: int
    type: str  # "http" or "tcp"
    address: str  # a URL for http, host:port for tcp; empty while Novita has not said


@dataclass(frozen=True)
class Mount:
    """Storage that a machine has."""

    type: str  # "local" or "network"
    path: str
    id: str = ""
    size: int | None = None  # GB


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
    started_at: datetime | None = None  # when it was last started and stopped, where Novita tells
    stopped_at: datetime | None = None
    price: Decimal | None = None  # USD for one GPU and hour
    storage_price: Decimal | None = None  # USD for one GB and day, while it is stopped
    ends_at: datetime | None = None  # of one that is paid by the month
    cluster_id: str = ""
    image: str = ""
    cpu_num: int | None = None
    memory: int | None = None  # GB
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True)
class Connection:
    """How to get into a machine; every field may hold a secret, so none is ever stored or logged."""

    ssh_command: str = field(default="", repr=False)
    ssh_password: str = field(default="", repr=False)
    jupyter_address: str = field(default="", repr=False)
    terminal_address: str = field(default="", repr=False)
    terminal_username: str = field(default="", repr=False)
    terminal_password: str = field(default="", repr=False)
    system_log: str = field(default="", repr=False)  # the boot's, until it runs
    instance_log: str = field(default="", repr=False)  # what runs in it


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


@dataclass(frozen=True)
class ShownError:
    """What Novita says is wrong with a machine, and since when it has said so at every look: in these words,
    or in others if neither can mend itself."""

    text: str
    since: datetime  # when the first of these looks was begun

    @property
    def fault(self) -> Fault:
        code = "IMAGE_PULL_FAILED" if self.for_good else "MACHINE_ERROR"
        return Fault(code, f"Novita says: {self.text}")

    @property
    def for_good(self) -> bool:
        """It cannot mend itself: there is no such image, or no right to pull it. Novita documents none of
        its words for that, so that they are those of registries and container runtimes; what is not known
        is waited for."""
        said = _plain(self.text)
        pulling = _NO_IMAGE.search(said) or (_PULLING.search(said) and _FOR_GOOD.search(said))
        return bool(pulling) and not _MAY_MEND.search(said)

    @property
    def gist(self) -> str:
        """Without numbers: "attempt 3" says nothing that "attempt 2" has not said."""
        return re.sub(r"\d+", "", _plain(self.text))


def _plain(text: str) -> str:
    """ErrImagePull and IMAGE_NOT_FOUND as words; without names of images, which may hold any word."""
    named = re.sub(r"\S*/\S*", " ", text)
    return " ".join(re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", named).lower().split())


_NO_IMAGE = re.compile(r"image not found|no such image|invalid image name|invalid reference format")
_PULLING = re.compile(r"\bpull|\bmanifest\b|\bregistry\b|\brepository\b")
_FOR_GOOD = re.compile(
    r"not found|does not exist|(manifest|name|tag) unknown|no matching manifest|unauthori[sz]ed|forbidden"
    r"|not authorized|(?<!permission )denied|authentication required|no basic auth|\b40[134]\b"
)
# A registry that is down or busy, a network, a full disk: these pass, whatever else is said.
_MAY_MEND = re.compile(
    r"time ?d? ?out|deadline exceeded|too ?many ?requests|rate limit|try again|temporar|connection|network"
    r"|host not found|no such host|\bdns\b|\blookup\b|unavailable|bad gateway|server error|\b(429|50\d)\b"
    r"|\beof\b|\btls\b|no space|out of memory|\boom\b"
)
