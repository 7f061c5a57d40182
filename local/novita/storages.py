"""Network storage: volumes of a cluster that outlive the machines they are mounted in."""

from pydantic import Field

from local.novita.wire import Lenient, Wire

PRICE = "200"  # 1/100,000 USD for a GB and day
GROWS_ONLY = "storageSize: a storage can only grow"


class Storage(Wire):
    storage_id: str
    storage_name: str
    storage_size: int
    cluster_id: str


class NewStorage(Lenient):
    cluster_id: str = Field(min_length=1, max_length=255)
    storage_name: str = Field(min_length=1, max_length=255)
    storage_size: int = Field(ge=10, le=102400)


class StorageChange(Lenient):
    storage_id: str = Field(min_length=1)
    storage_name: str = Field(min_length=1, max_length=255)
    storage_size: int = Field(ge=10, le=102400)


class StorageTarget(Lenient):
    storage_id: str = Field(min_length=1)
