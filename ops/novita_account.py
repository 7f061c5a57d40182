"""This deployment's machines at Novita, which carry the deployment's id in their names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests

from functions.shared.platform.settings import Settings
from ops.command import RefusalError

DEFAULT_BASE_URL = str(Settings.__dataclass_fields__["novita_api_base_url"].default)
DEPLOYMENT_ID_KEY = {"pk": "deployment", "sk": "deployment"}  # the item that keeps it in the table
PAGE_SIZE = 100
ULID = "[0-9a-hjkmnp-tv-z]{26}"


@dataclass(frozen=True)
class NovitaAccount:
    key: str
    base_url: str = DEFAULT_BASE_URL
    loopback: bool = False  # the simulator: no proxy of the environment lies in between

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "NovitaAccount | None":
        """None without a key: then the simulator is meant."""
        if not (key := environment.get("NOVITA_API_KEY")):
            return None
        return cls(key, environment.get("NOVITA_API_BASE_URL") or DEFAULT_BASE_URL)

    def living_machines(self, deployment_id: str) -> list[str]:
        """The names of those of this deployment. Raises `RefusalError` if Novita does not say."""
        our_name = re.compile(f"-{re.escape(deployment_id)}-{ULID}")
        try:
            machines = self._list_machines()
        except (requests.RequestException, ValueError) as error:
            raise RefusalError(f"Novita does not say whether machines of ours live there: {error}") from None
        living = [machine for machine in machines if machine.get("status") != "removed"]
        return sorted(machine["name"] for machine in living if our_name.search(str(machine.get("name"))))

    def _list_machines(self) -> list[dict[str, Any]]:
        """Pages may be counted from 0 or from 1: the end is a page that brings nothing new."""
        found: dict[str, dict[str, Any]] = {}
        with requests.Session() as session:
            session.trust_env = not self.loopback
            session.headers.update(
                {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
            )
            page = 0
            while True:
                query = {"pageSize": PAGE_SIZE, "pageNum": page}
                answer = session.get(f"{self.base_url}/gpu/instances", params=query, timeout=(5, 30))
                answer.raise_for_status()
                machines = {machine["id"]: machine for machine in answer.json().get("instances") or []}
                if not machines.keys() - found.keys() and page > 0:
                    return list(found.values())
                found |= machines
                page += 1


def read_deployment_id(table: Any) -> str:
    """Empty where nothing was ever bought."""
    item = table.get_item(Key=DEPLOYMENT_ID_KEY, ConsistentRead=True).get("Item")
    return str(item["id"]) if item else ""
