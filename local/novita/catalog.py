"""What is for sale by default: clusters, and products at prices in 1/100,000 USD per GPU-hour."""

from typing import Literal

from pydantic import Field, NonNegativeInt

from local.novita.wire import Wire

Billing = Literal["onDemand", "monthly", "spot"]


class Cluster(Wire):
    id: str
    region: str
    place: str


class Product(Wire):
    id: str
    name: str
    cpu_per_gpu: int = Field(ge=1)
    memory_per_gpu: int = Field(ge=1)
    disk_per_gpu: int = Field(default=200, ge=0)
    price: int = Field(ge=0)
    spot_price: int = Field(ge=0)
    regions: list[str]
    billing_methods: list[Billing] = Field(default=["onDemand", "monthly", "spot"])
    available: bool = True
    # GPUs that can be had in a region; a region that is not named has no end of them.
    stock: dict[str, NonNegativeInt] = Field(default={})
    min_root_fs: int = Field(default=10, ge=0, alias="minRootFS")
    max_root_fs: int = Field(default=1000, ge=1, alias="maxRootFS")
    min_local_storage: int = Field(default=0, ge=0)
    max_local_storage: int = Field(default=1000, ge=0)


CLUSTERS = (
    Cluster(id="cn-hongkong-1", region="CN-HK-01", place="Hong Kong"),
    Cluster(id="as-sgp-2", region="AS-SGP-02", place="Singapore"),
    Cluster(id="as-in-1", region="AS-IN-01", place="Mumbai"),
    Cluster(id="us-ca-6", region="US-CA-06", place="California"),
)

# id, name, cpus, GB of memory, price, spot price, regions, more. In CN-HK-01 one 4090 is cheapest on demand,
# another as spot; in US-CA-06 two cost the same and differ in memory; the cheapest of all can never be had.
ROWS: tuple[tuple[str, str, int, int, int, int, str, dict[str, object]], ...] = (
    ("4090.16c62g", "RTX 4090 24GB", 16, 62, 35000, 18000, "CN-HK-01 US-CA-06", {}),
    ("4090.18c96g", "RTX 4090 24GB", 18, 96, 33000, 19000, "CN-HK-01 AS-SGP-02", {}),
    ("4090.24c128g", "RTX 4090 24GB", 24, 128, 37000, 17000, "AS-SGP-02 AS-IN-01", {}),
    ("4090.16c92g", "RTX 4090 24GB", 16, 92, 35000, 18000, "US-CA-06", {}),
    ("4090.8c30g", "RTX 4090 24GB", 8, 30, 9900, 4900, "CN-HK-01 AS-SGP-02", {"available": False}),
    ("3090.8c32g", "RTX 3090 24GB", 8, 32, 20000, 10000, "AS-SGP-02 US-CA-06", {}),
    (
        "3090.12c48g",
        "RTX 3090 24GB",
        12,
        48,
        21000,
        0,
        "CN-HK-01",
        {"billingMethods": ["onDemand", "monthly"]},
    ),
    ("3090.10c40g", "RTX 3090 24GB", 10, 40, 24000, 9000, "AS-IN-01", {"billingMethods": ["spot"]}),
    (
        "h100.24c224g",
        "H100 SXM 80GB",
        24,
        224,
        189000,
        95000,
        "AS-SGP-02 US-CA-06",
        {"stock": {"AS-SGP-02": 8, "US-CA-06": 8}},
    ),
    ("h100.20c180g", "H100 SXM 80GB", 20, 180, 179000, 99000, "AS-IN-01", {"stock": {"AS-IN-01": 8}}),
    ("l40s.16c90g", "L40S 48GB", 16, 90, 55000, 28000, "US-CA-06", {"stock": {"US-CA-06": 16}}),
    ("l40s.14c80g", "L40S 48GB", 14, 80, 58000, 26000, "CN-HK-01", {"stock": {"CN-HK-01": 4}}),
)


def default_clusters() -> dict[str, Cluster]:
    return {cluster.id: cluster.model_copy() for cluster in CLUSTERS}


def default_products() -> dict[str, Product]:
    return {row[0]: _product(*row) for row in ROWS}


def _product(
    id_: str,
    name: str,
    cpus: int,
    memory: int,
    price: int,
    spot: int,
    regions: str,
    more: dict[str, object],
) -> Product:
    return Product.model_validate(
        {
            "id": id_,
            "name": name,
            "cpuPerGpu": cpus,
            "memoryPerGpu": memory,
            "price": price,
            "spotPrice": spot,
            "regions": regions.split(),
            **more,
        }
    )
