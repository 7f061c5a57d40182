"""How long machines of a product and region took to come up lately: one small item for each."""

from collections.abc import Callable
from datetime import datetime

from functions.shared.adapters.items import RETENTION
from functions.shared.adapters.table import TABLE_FAILED, ConditionFailed, Table
from functions.shared.domain.estimate import KEPT, Boot, Booted, learned
from functions.shared.log import logger

_ADD = "SET samples = list_append(if_not_exists(samples, :none), :one), kind = :kind, expiresAt = :expiresAt"
_TRIM = "SET samples = :last"
# Nobody has added one meanwhile: theirs must not be thrown away.
_SAME = "size(samples) = :size"


class Boots:
    """Knowledge that is nice to have: without the table there is none, and nothing fails."""

    def __init__(self, table: Table, clock: Callable[[], datetime]) -> None:
        self._table = table
        self._clock = clock

    def expected(self, kind: str, product_id: str | None, region: str | None) -> Boot | None:
        if not product_id:
            return None
        try:
            item = self._table.get(_pk(kind, product_id, region or ""), "boots")
        except TABLE_FAILED as error:
            logger.warning("boot times not read", error=type(error).__name__)
            return None
        return learned([sample / 1000 for sample in item["samples"]]) if item else None

    def learn(self, booted: Booted) -> None:
        pk = _pk(booted.kind, booted.product_id, booted.region)
        values = {
            ":none": [],
            ":one": [round(booted.seconds * 1000)],
            ":kind": "boots",
            ":expiresAt": int((self._clock() + RETENTION).timestamp()),
        }
        try:
            samples = self._table.update(pk, "boots", _ADD, values=values)["samples"]
            if len(samples) > 2 * KEPT:
                self._trim(pk, samples)
        except TABLE_FAILED as error:
            logger.warning("boot time not kept", error=type(error).__name__)

    def _trim(self, pk: str, samples: list[int]) -> None:
        values = {":last": samples[-KEPT:], ":size": len(samples)}
        try:
            self._table.update(pk, "boots", _TRIM, condition=_SAME, values=values)
        except ConditionFailed:
            return  # whoever added one trims


def _pk(kind: str, product_id: str, region: str) -> str:
    return f"boots#{kind}#{product_id}#{region}"
