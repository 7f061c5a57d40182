"""What Novita says of machines, products and templates, in our words."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal


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
class Product:
    id: str
    name: str
    regions: tuple[str, ...]  # plain names: "US-CA-06", never "US-CA-06 (California)"
    available: bool
    price: Decimal | None  # USD for one GPU and hour, on demand; None when Novita named none
    spot_price: Decimal | None
    billing_methods: tuple[str, ...]
    memory_per_gpu: int = 0  # GB of system memory
    cpu_per_gpu: int = 0
    min_rootfs: int = 0
    max_rootfs: int = 0  # 0 = Novita named none


@dataclass(frozen=True)
class Offer:
    """One product in one region at one price: something that can be bought."""

    product_id: str
    product_name: str
    region: str
    cluster_id: str
    price: Decimal


@dataclass(frozen=True)
class Template:
    id: str
    name: str
    image: str
    image_auth: str = ""  # a registry-auth id, never a password
    ports: tuple[tuple[int, str], ...] = ()  # (8188, "http"), (22, "tcp")
    envs: tuple[tuple[str, str], ...] = ()
    start_command: str = ""
    entrypoint: str = ""
    min_cuda_version: str = ""
    rootfs_size: int = 0
    tools: tuple[tuple[str, str, str], ...] = ()  # (name, port, type)


@dataclass(frozen=True)
class Order:
    """One create call, complete."""

    name: str
    offer: Offer
    template: Template
    gpu_num: int
    rootfs_size: int
    billing_mode: str


@dataclass(frozen=True)
class RegistryAuth:
    """What opens a private registry; used for one call, never stored."""

    id: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Connection:
    """How to get into a machine; every field may hold a secret, so none is ever stored or logged."""

    ssh_command: str = field(default="", repr=False)
    ssh_password: str = field(default="", repr=False)
    jupyter_address: str = field(default="", repr=False)
    terminal_address: str = field(default="", repr=False)
    terminal_username: str = field(default="", repr=False)
    terminal_password: str = field(default="", repr=False)
