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

# Of an instance's record; 1 had all fields side by side and no number, 2 was a map of attributes, 3 was
# compressed without knowing beforehand what records have in common, as text.
SCHEMA = 4

Fields = dict[str, Any]
T = TypeVar("T")

# A record and what is told of it, as they mostly are: the compressor writes down only what differs. It is
# part of what is stored, and so never changes: another one needs another attribute to be stored under.
IN_COMMON = (
    b'{"id":"evt_01","type":"instance.running","sequence":1,"timestamp":"2026-01-01T00:00:00.000Z",'
    b'"instanceId":"inst_01","novitaInstanceId":"","elapsedTime":0,"reason":"","error":{"code":"",'
    b'"message":"","details":{}},"healthCheck":{"overall":"unhealthy","endpoints":[{"port":8188,'
    b'"endpoint":"https://-8188.proxy.gpu-instance.novita.ai/","type":"http","status":"unhealthy",'
    b'"responseTime":10,"lastChecked":"2026-01-01T00:00:00.000Z","error":{"category":'
    b'"bad_gateway"}}]},"startupOperation":{"operationId":"op_01","kind":"start","startedAt":'
    b'"2026-01-01T00:00:00.000Z","phases":[{"status":"health_checking","at":"2026"}]},"data":{'
    b'"correlationId":""missing":true,"rate":"0.","since":"2026-01-01T00:00:00Z","confirmed":true,'
    b'"booked_until":"unsure":true,"recovery":{"again_at":"attempts":"reclaim","on_reclaim":{'
    b'"action":"restart"},"limits":{"stop_after":"delete_after":"idle_stop_after":"ceilings":{'
    b'"protected":true,"max_price":"placement":"cheapest","tags":[["{"id":"inst_01","name":"",'
    b'"spec":{"product_name":"RTX 4090 24GB","template_id":"1","gpu_num":1,"rootfs_size":60,"region":'
    b'"CN-HK-01","health_check":{}},"status":"exited","created_at":"2026-01-01T00:00:00.000000Z",'
    b'"updated_at":"2026-01-01T00:00:00.000000Z","deadline_at":null,"next_check_at":null,"actor":'
    b'"key_","correlation_id":"","webhook_url":"https://","version":1,"token":"","sequence":1,'
    b'"machine":{"id":"","region":"AS-SGP-02","product_id":"4090.16c62g","price":"0.","bought_at":'
    b'"2026-01-01T00:00:00.000000Z","boot":{"median":"sigma":"samples":"until":"novita_status":'
    b'"running","endpoints":[{"port":8188,"type":"http","address":"https://"},{"port":22,"type":'
    b'"tcp","address":""}],"expects_endpoints":true,"spot_status":"running","looked_at":'
    b'"2026-01-01T00:00:00.000000Z","seen_at":"2026-01-01T00:00:00.000000Z","needs_look":true,'
    b'"first_missed_at":"2026-01-01T00:00:00Z","owned":true,"acted_at":'
    b'"2026-01-01T00:00:00.000000Z"},"purchases":{"count":1,"unsettled":true,"read_at":'
    b'"2026-01-01T00:00:00.000000Z","price":"0."},"cleanup":{"tasks":[{"machine_id":"","action":'
    b'"delete","seen_at":"2026","asked_at":"2026"}],"gone":[""]},"ledger":{"meters":[{"machine_id":'
    b'"","kind":"compute","since":"2026-01-01T00:00:00.000000Z","rate":"0.","region":"CN-HK-01"}],'
    b'"closed_usd":"0.00","estimated":true,"lines":1,"entries":1,"ended":[[""operation":{"id":'
    b'"op_01","kind":"delete","status":"completed","actor":"key_","began_at":'
    b'"2026-01-01T00:00:00.000000Z","phases":[["initiated","2026-01-01T00:00:00.000000Z"],["monitoring'
    b'","2026-01-01T00:00:00.000000Z"],["completed","2026-01-01T00:00:00.000000Z"]],"attempts":1,'
    b'"pending":true,"began_in":"ready"},"rounds":{"made":1,"until":"2026"},"health":{"overall":'
    b'"healthy","endpoints":[{"port":80,"endpoint":"https://","type":"http","status":"healthy",'
    b'"responseTime":0,"lastChecked":"2026-01-01T00:00:00.000Z"}]},"probed_at":'
    b'"2026-01-01T00:00:00.000000Z","ready_at":"2026-01-01T00:00:00.000000Z","clock":{"ran_at":'
    b'"2026-01-01T00:00:00.000000Z","running_since":"2026-01-01T00:00:00.000000Z","ready_since":'
    b'"2026-01-01T00:00:00.000000Z"},"ended_by":"user"}'
)
_LEVEL, _BARE = 9, -15  # neither header nor checksum: the table keeps what it is given

_adapters: dict[type, TypeAdapter[Any]] = {}


def adapter(kind: type[T]) -> TypeAdapter[T]:
    """Made when it is first used: that takes milliseconds, and no function needs all of them."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def pack(text: str) -> bytes:
    """Compressed: a kilobyte is the unit that writes are billed by, and nearly all is below it then."""
    compressor = zlib.compressobj(_LEVEL, wbits=_BARE, zdict=IN_COMMON)
    return compressor.compress(text.encode()) + compressor.flush()


def unpack(stored: bytes) -> str:
    decompressor = zlib.decompressobj(_BARE, zdict=IN_COMMON)
    try:
        text = decompressor.decompress(stored).decode()
    except zlib.error as error:
        raise ValueError("not as it was stored") from error
    if not decompressor.eof:
        raise ValueError("not as it was stored")
    return text


def packed(record: Mapping[str, Any]) -> bytes:
    """Read in a tenth of the time that a map of attributes takes."""
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
