"""What a life of an instance writes to the table, without what limits and the ledger add to it."""

import logging
from collections.abc import Iterator

from bench.bill import LIVES, harness
from bench.table import Row
from functions.shared.platform.observability import logger
from functions.shared.stores.schema import packed, unpacked
from tests.integration.definition import table_definition
from tests.integration.harness import Harness
from tests.integration.write_units import Stored, WriteUnits, counting

HALF = 139  # of the 278 that it was
_LEDGER = ("cost", "costEntry", "bill")  # kinds of items
_ADDED = ("limits", "ceilings", "clock", "ended_by", "ledger")  # parts of the record
_SHARED = (" sweep/", " walk/", " costs/", " cache/", " limiter/")  # of no instance of its own


def as_before(item: Stored) -> Stored | None:
    """As it was stored before there were any."""
    if item.get("kind", {}).get("S") in _LEDGER:
        return None
    if "record" not in item:
        return item
    record = unpacked(item["record"]["S"])
    kept = {name: value for name, value in record.items() if name not in _ADDED}
    before = {**item, "record": {"S": packed(kept)}}
    return {**before, "summary": item["id"]} if "summary" in item else before


def live(made: Harness) -> None:
    """Create with a webhook and a health check, until ready, then deleted until it is gone."""
    instance_id = made.create(webhookUrl=made.simulator.inbox_url("told"), healthCheck={})
    made.settle()
    made.call("DELETE", f"/api/instances/{instance_id}")
    made.settle()


def of_one(counted: WriteUnits) -> float:
    shared = sum(n for call, n in counted.by_call.items() if any(one in call for one in _SHARED))
    return (counted.total - shared) / LIVES


def rows() -> Iterator[Row]:
    logging.getLogger().handlers.clear()  # the emulator's client logs there, too
    logger.setLevel(logging.ERROR)
    with harness() as made:
        live(made)  # what is made once is made now
        with counting(made, table_definition(), as_before) as bare:
            for _ in range(LIVES):
                live(made)
        with counting(made, table_definition()) as whole:
            for _ in range(LIVES):
                live(made)
    for call, n in bare.by_call.most_common(30):
        print(f"    {n / LIVES:5.1f}  {call}")
    for place, n in bare.by_place.most_common():
        print(f"    {n / LIVES:5.1f}  {place}")
    yield Row("writes", "a life without ledger and limits", of_one(bare), "write units", HALF)
    added = of_one(whole) - of_one(bare)
    yield Row("writes", "what the ledger and limits add to it", added, "write units", 40)


if __name__ == "__main__":
    for one in rows():
        print("ok" if one.holds else "NO", one)
