"""Everything the simulator holds that outlives a request: what `--state` keeps and `reset` empties."""

import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from local.novita.canned_response import CannedResponse
from local.novita.catalog import Cluster, Product, default_clusters, default_products
from local.novita.clock import Clock
from local.novita.errors import ApiError
from local.novita.machines import Machine
from local.novita.settings import Settings
from local.novita.stock import Stock
from local.novita.storages import Storage
from local.novita.templates import RegistryAuth, default_auths, default_templates


@dataclass
class SimulatorState:
    clock: Clock = field(default_factory=Clock)
    settings: Settings = field(default_factory=Settings)
    clusters: dict[str, Cluster] = field(default_factory=default_clusters)
    products: dict[str, Product] = field(default_factory=default_products)
    templates: dict[str, dict[str, Any]] = field(default_factory=default_templates)
    auths: dict[str, RegistryAuth] = field(default_factory=default_auths)
    storages: dict[str, Storage] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    app_responses: dict[str, CannedResponse] = field(default_factory=dict)
    machines_created: int = 0

    def stock(self) -> Stock:
        return Stock(self.machines.values(), self.clock.now())

    def cluster_of(self, region: str) -> Cluster | None:
        return next((cluster for cluster in self.clusters.values() if cluster.region == region), None)

    def region_name(self, region: str) -> str:
        cluster = self.cluster_of(region)
        suffixed = cluster and self.settings.region_names == "suffixed"
        return f"{region} ({cluster.place})" if cluster and suffixed else region

    def require_storage(self, id_: str) -> Storage:
        if id_ not in self.storages:
            raise ApiError("NETWORK_STORAGE_NOT_FOUND", f"storage {id_} not found")
        return self.storages[id_]

    def require_machine(self, id_: str, account: str | None = None) -> Machine:
        """A machine that an action can reach: known, the account's if one is named, not gone or hidden."""
        machine = self.machines.get(id_)
        now = self.clock.now()
        foreign = machine is not None and account not in (None, machine.account)
        if machine is None or foreign or not machine.visible(now, self.settings.removed_visible_seconds):
            raise ApiError("RESOURCE_NOT_FOUND", f"instance {id_} not found")
        return machine

    def machine_for_get(self, id_: str, account: str | None = None) -> Machine:
        """A machine as get sees it: not in its first seconds."""
        machine = self.require_machine(id_, account)
        if self.clock.now() < machine.created_at + self.settings.get_lag_seconds:
            raise ApiError("RESOURCE_NOT_FOUND", f"instance {id_} not found")
        return machine

    def live_machines(self) -> list[Machine]:
        now = self.clock.now()
        return [machine for machine in self.machines.values() if machine.removed_at(now) is None]

    def list_time(self, age_seconds: float = 0) -> float:
        """What the list shows is as old as it lags, or older where a fault says so."""
        return self.clock.now() - max(self.settings.list_lag_seconds, age_seconds)

    def listed_machines(self, account: str | None = None, age_seconds: float = 0) -> list[Machine]:
        """The account's machines as the list knows them, newest first: what was true some time ago."""
        t = self.list_time(age_seconds)
        keep = self.settings.removed_visible_seconds
        seen = [
            machine
            for machine in self.machines.values()
            if account in (None, machine.account) and machine.visible(t, keep)
        ]
        return sorted(seen, key=lambda machine: machine.ordinal, reverse=True)


STATE_JSON = TypeAdapter(SimulatorState)


def load_state(path: Path) -> SimulatorState:
    """A file that cannot be read is moved aside and the simulator starts empty."""
    if not path.exists():
        return SimulatorState()
    try:
        return STATE_JSON.validate_json(path.read_bytes())
    except OSError as error:
        print(f"state {path} is not readable, starting empty: {error}", file=sys.stderr)
        return SimulatorState()
    except ValidationError as error:
        aside = path.with_name(f"{path.name}.corrupt-{int(time.time())}")
        path.replace(aside)
        print(f"state {path} cannot be read, moved to {aside}: {_summary(error)}", file=sys.stderr)
        return SimulatorState()


def save_state(path: Path, state: SimulatorState) -> None:
    """Written aside, then moved: registry passwords are in it, so only the owner may read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(STATE_JSON.dump_json(state, by_alias=True))
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def _summary(error: Exception) -> str:
    return str(error).replace("\n", " ")[:200]
