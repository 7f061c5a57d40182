"""How long machines of a product and region took to come up lately: one small item for each."""

from collections.abc import Callable
from datetime import datetime

from functions.shared.domain.instance.boot_times import BOOT_TIMES_KEPT, BootEstimate, BootTime, estimate_from
from functions.shared.platform.log import logger
from functions.shared.stores.table import RETENTION, TABLE_FAILED, ConditionFailed, Table

_ADD = "SET samples = list_append(if_not_exists(samples, :none), :one), kind = :kind, expiresAt = :expiresAt"
_TRIM = "SET samples = :last"
# Nobody has added one meanwhile: theirs must not be thrown away.
_SAME = "size(samples) = :size"


class BootTimes:
    """Nice to have: if the table fails, there is no estimate, and nothing else fails."""

    def __init__(self, table: Table, clock: Callable[[], datetime]) -> None:
        self._table = table
        self._clock = clock

    def expected(self, kind: str, product_id: str | None, region: str | None) -> BootEstimate | None:
        if not product_id:
            return None
        try:
            item = self._table.get(_pk(kind, product_id, region or ""), "boots")
        except TABLE_FAILED as error:
            logger.warning("boot times not read", error=type(error).__name__)
            return None
        return estimate_from([sample / 1000 for sample in item["samples"]]) if item else None

    def learn(self, boot_time: BootTime) -> None:
        pk = _pk(boot_time.kind, boot_time.product_id, boot_time.region)
        values = {
            ":none": [],
            ":one": [round(boot_time.seconds * 1000)],
            ":kind": "boots",
            ":expiresAt": int((self._clock() + RETENTION).timestamp()),
        }
        try:
            samples = self._table.update(pk, "boots", _ADD, values=values)["samples"]
            if len(samples) > 2 * BOOT_TIMES_KEPT:
                self._trim(pk, samples)
        except TABLE_FAILED as error:
            logger.warning("boot time not kept", error=type(error).__name__)

    def _trim(self, pk: str, samples: list[int]) -> None:
        values = {":last": samples[-BOOT_TIMES_KEPT:], ":size": len(samples)}
        try:
            self._table.update(pk, "boots", _TRIM, condition=_SAME, values=values)
        except ConditionFailed:
            return  # whoever added one trims


def _pk(kind: str, product_id: str, region: str) -> str:
    return f"boots#{kind}#{product_id}#{region}"
