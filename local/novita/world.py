"""Everything the simulator holds that outlives a request: what `--state` keeps and `reset` empties."""

from dataclasses import dataclass, field
from typing import Any

from local.novita.answers import Answer
from local.novita.catalog import Cluster, Product, default_clusters, default_products
from local.novita.clock import Clock
from local.novita.errors import ApiError
from local.novita.machines import Machine
from local.novita.settings import Settings
from local.novita.stock import Stock
from local.novita.templates import RegistryAuth, default_auths, default_templates


@dataclass
class World:
    clock: Clock = field(default_factory=Clock)
    settings: Settings = field(default_factory=Settings)
    clusters: dict[str, Cluster] = field(default_factory=default_clusters)
    products: dict[str, Product] = field(default_factory=default_products)
    templates: dict[str, dict[str, Any]] = field(default_factory=default_templates)
    auths: dict[str, RegistryAuth] = field(default_factory=default_auths)
    machines: dict[str, Machine] = field(default_factory=dict)
    app_answers: dict[str, Answer] = field(default_factory=dict)
    machines_made: int = 0

    def stock(self) -> Stock:
        return Stock(self.machines.values(), self.clock.now())

    def cluster_of(self, region: str) -> Cluster | None:
        return next((cluster for cluster in self.clusters.values() if cluster.region == region), None)

    def region_name(self, region: str) -> str:
        cluster = self.cluster_of(region)
        suffixed = cluster and self.settings.region_names == "suffixed"
        return f"{region} ({cluster.place})" if cluster and suffixed else region

    def held(self, id_: str) -> Machine:
        """A machine that an action can reach: known and not gone."""
        machine = self.machines.get(id_)
        now = self.clock.now()
        if machine is None or not machine.visible(now, self.settings.removed_visible_seconds):
            raise ApiError("RESOURCE_NOT_FOUND", f"instance {id_} not found")
        return machine

    def got(self, id_: str) -> Machine:
        """A machine as get sees it: not in its first seconds."""
        machine = self.held(id_)
        if self.clock.now() < machine.created_at + self.settings.get_lag_seconds:
            raise ApiError("RESOURCE_NOT_FOUND", f"instance {id_} not found")
        return machine

    def live(self) -> list[Machine]:
        now = self.clock.now()
        return [machine for machine in self.machines.values() if machine.removed_at(now) is None]

    def list_time(self) -> float:
        return self.clock.now() - self.settings.list_lag_seconds

    def listed(self) -> list[Machine]:
        """The machines as the list knows them, newest first: what was true some time ago."""
        t = self.list_time()
        keep = self.settings.removed_visible_seconds
        seen = [machine for machine in self.machines.values() if machine.visible(t, keep)]
        return sorted(seen, key=lambda machine: machine.ordinal, reverse=True)
