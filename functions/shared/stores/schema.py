"""How dataclasses are stored, by old and new versions side by side: a schema number, and fields that this
version does not know."""

import json
import zlib
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import TypeAdapter

from functions.shared.domain.instance.record import RentedMachine
from functions.shared.stores.packing import pack, unpack

# Of an instance's record; 1 had all fields side by side and no number, 2 was a map of attributes, 3 was
# compressed without knowing beforehand what records have in common, as text.
SCHEMA = 4

Fields = dict[str, Any]
T = TypeVar("T")


_adapters: dict[type, TypeAdapter[Any]] = {}


def adapter(kind: type[T]) -> TypeAdapter[T]:
    """Made when it is first used: that takes milliseconds, and no function needs all of them."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def packed(record: Mapping[str, Any]) -> bytes:
    """Nearly all records are then below a kilobyte; and bytes are read in a tenth of the time of a map."""
    return pack(json.dumps(record, separators=(",", ":")))


def unpacked(stored: bytes | str | Mapping[str, Any]) -> Fields:
    """Also of those that were stored as text or as maps."""
    if isinstance(stored, Mapping):
        return dict(stored)
    found: Fields = json.loads(_unpacked_text(stored) if isinstance(stored, str) else unpack(stored))
    return found


def _unpacked_text(stored: str) -> bytes:
    try:
        return zlib.decompress(b64decode(stored))
    except zlib.error as error:
        raise ValueError("no record") from error


def unknown_fields(stored: Mapping[str, Any], kind: type) -> Fields:
    """What a newer version wrote and this one has no field for, at any depth."""
    found: Fields = {}
    for name, value in stored.items():
        if name not in _parts(kind):
            found[name] = value
        elif inner := _unknown_within(value, _parts(kind)[name]):
            found[name] = inner
    return found


def with_unknown(known: Fields, unknown: Mapping[str, Any], kind: type) -> Fields:
    """As it is to be stored: what this version knows, and what it found and does not know."""
    whole = dict(known)
    for name, value in unknown.items():
        part = _parts(kind).get(name)
        if part is None:
            whole[name] = value
        elif isinstance(whole.get(name), list):
            key = _key(part)
            whole[name] = [with_unknown(one, value.get(str(one.get(key)), {}), part) for one in whole[name]]
        elif whole.get(name) is not None:
            whole[name] = with_unknown(whole[name], value, part)
    return whole


def upgrade(flat: Mapping[str, Any]) -> Fields:
    """A record of schema 1 as one of schema 2."""
    names = {
        "machine": {name: name for name in _parts(RentedMachine)}
        | {"id": "machine_id", "needs_look": "doubted", "first_missed_at": "missing_at"},
        "purchases": {"count": "purchases", "unsettled": "unsettled", "unseen_at": "unseen_at"}
        | {"read_at": "reviewed_at"},
        "cleanup": {"tasks": "duties", "gone": "gone", "vanished": "vanished"},
    }
    moved = {old for part in names.values() for old in part.values()} | {"pending", "health_check"}
    record = {name: value for name, value in flat.items() if name not in moved}
    for part, fields_ in names.items():
        record[part] = {new: flat[old] for new, old in fields_.items() if old in flat}
    if operation := flat.get("operation"):
        pending = flat.get("pending") == operation["kind"]
        record["operation"] = {**operation, "pending": pending, "health_check": flat.get("health_check")}
    return record


def _unknown_within(value: Any, part: type | None) -> Fields:
    if part is None:
        return {}
    if isinstance(value, list):  # each entry is known by its first field
        found = {str(one.get(_key(part))): unknown_fields(one, part) for one in value}
        return {key: unknown for key, unknown in found.items() if unknown}
    return unknown_fields(value, part) if isinstance(value, Mapping) else {}


@cache
def _parts(kind: type) -> dict[str, type | None]:
    """The fields of a dataclass, each with the dataclass that it holds one or many of, if it does."""
    hints = get_type_hints(kind)
    return {one.name: _dataclass_in(hints[one.name]) for one in fields(kind)}


def _dataclass_in(hint: Any) -> type | None:
    if is_dataclass(hint) and isinstance(hint, type):
        return hint
    return next((found for arg in get_args(hint) if (found := _dataclass_in(arg))), None)


def _key(part: type) -> str:
    return fields(part)[0].name
