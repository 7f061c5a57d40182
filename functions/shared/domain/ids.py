"""Ids that sort by time, times as everybody outside reads them, and the mark that makes a machine ours."""

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def _base32(number: int, length: int) -> str:
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(5 * (length - 1), -1, -5))


def timestamp(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ulid(now: datetime) -> str:
    return _base32(int(now.timestamp() * 1000), 10) + _base32(secrets.randbits(80), 16)


def new_instance_id(now: datetime) -> str:
    return f"inst_{ulid(now)}"


def earliest_instance_id(at: datetime) -> str:
    """What every id made from then on is above."""
    return f"inst_{_base32(int(at.timestamp() * 1000), 10)}"


def new_operation_id(now: datetime) -> str:
    return f"op_{ulid(now)}"


def derived_operation_id(instance_id: str, version: int, now: datetime) -> str:
    """Of an operation that nobody asked for: made without chance, and no other version of it has the same."""
    return f"op_{_base32(int(now.timestamp() * 1000), 10)}{instance_id[-10:]}{_base32(version, 6)}"


def new_deployment_id() -> str:
    return _base32(secrets.randbits(40), 8).lower()


@dataclass(frozen=True)
class Mark:
    """What a Novita name says about whose machine it is: `<slug>-<deployment>-<ulid>[-<purchase>]`."""

    instance_id: str
    purchase: int


def machine_name(name: str, deployment: str, instance_id: str, purchase: int) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "gpu"
    suffix = f"-{purchase}" if purchase > 1 else ""
    return f"{slug}-{deployment}-{instance_id.removeprefix('inst_').lower()}{suffix}"


def read_mark(machine_name: str, deployment: str) -> Mark | None:
    ours = rf"-{re.escape(deployment)}-([0-9a-hjkmnp-tv-z]{{26}})(?:-([0-9]{{1,4}}))?\Z"
    found = re.search(ours, machine_name)
    if not found:
        return None
    return Mark(f"inst_{found[1].upper()}", int(found[2] or 1))
