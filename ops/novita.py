"""Machines of ours that live at Novita, known by the mark in their names."""

import re
from typing import Any

import requests

from local.problems import RefusalError

PAGE_SIZE = 100
ULID = "[0-9a-hjkmnp-tv-z]{26}"


def living_machines(base_url: str, key: str, deployment: str, *, loopback: bool) -> list[str]:
    """Their names. Raises `RefusalError` if Novita does not say."""
    mark = re.compile(f"-{re.escape(deployment)}-{ULID}")
    with requests.Session() as session:
        session.trust_env = not loopback
        session.headers.update({"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
        try:
            machines = _all(session, f"{base_url}/gpu/instances")
        except (requests.RequestException, ValueError) as error:
            raise RefusalError(f"Novita does not say whether machines of ours live there: {error}") from None
    alive = [machine for machine in machines if machine.get("status") != "removed"]
    return sorted(machine["name"] for machine in alive if mark.search(str(machine.get("name"))))


def _all(session: requests.Session, address: str) -> list[dict[str, Any]]:
    """Pages may be counted from 0 or from 1: the end is a page that brings nothing new."""
    found: dict[str, dict[str, Any]] = {}
    page = 0
    while True:
        answer = session.get(address, params={"pageSize": PAGE_SIZE, "pageNum": page}, timeout=(5, 30))
        answer.raise_for_status()
        fresh = {machine["id"]: machine for machine in answer.json().get("instances") or []}
        if not fresh.keys() - found.keys() and page > 0:
            return list(found.values())
        found |= fresh
        page += 1
