"""What a life of an instance with a webhook writes to the table, without what limits and the ledger add."""

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bench.bill import LIVES, harness
from bench.table import Row
from functions.shared.platform.observability import logger
from functions.shared.stores.schema import packed, unpacked
from tests.integration.definition import table_definition
from tests.integration.harness import Harness
from tests.integration.write_units import Stored, WriteUnits, counting

WITHOUT = "a life without ledger and limits"
HALF, TOLD = 139, 16  # of the 278 that it was; how many of its parts
GIVEN_UP = (
    "the seven events of a life and their webhooks are half of it: each is stored with the write that it "
    "tells of and stays in the index of what is due until it is announced, and its delivery is stored, "
    "claimed and ended, so that it is recorded once, sent at least once, and can be listed and replayed. "
    "Given up would be the claim of an attempt (a doubled message would send twice), the slots of receivers "
    "(a slow one would hold all workers), or deliveries that can be seen; without a webhook the bound holds"
)
_LEDGER = ("cost", "costEntry", "bill")  # kinds of items
_ADDED = ("limits", "ceilings", "clock", "ended_by", "ledger")  # parts of the record
_SHARED = (" sweep/", " walk/", " costs/", " cache/", " limiter/")  # of no instance of its own


def as_before(item: Stored) -> Stored | None:
    """As it was stored before there were any."""
    if item.get("kind", {}).get("S") in _LEDGER:
        return None
    if "record" not in item:
        return item
    record = unpacked(item["record"]["B"])
    kept = {name: value for name, value in record.items() if name not in _ADDED}
    before = {**item, "record": {"B": packed(kept)}}
    return {**before, "summary": item["id"]} if "summary" in item else before


def live(made: Harness, **body: Any) -> None:
    """Create with a health check, until ready, then deleted until it is gone."""
    instance_id = made.create(healthCheck={}, **body)
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
        told = {"webhookUrl": made.simulator.inbox_url("told")}
        live(made, **told)  # what is made once is made now
        with counting(made, table_definition(), as_before) as bare:
            for _ in range(LIVES):
                live(made, **told)
        with counting(made, table_definition()) as whole:
            for _ in range(LIVES):
                live(made, **told)
        with counting(made, table_definition(), as_before) as untold:
            for _ in range(LIVES):
                live(made)
    yield Row("writes", WITHOUT, of_one(bare), "write units", HALF, given_up=GIVEN_UP)
    yield Row("writes", "the same without a webhook", of_one(untold), "write units", HALF)
    added = of_one(whole) - of_one(bare)
    yield Row("writes", "what the ledger and limits add to it", added, "write units", 40)
    yield from _made_up(bare)


def _made_up(counted: WriteUnits) -> Iterator[Row]:
    """By the function and the items that it writes, indexes included; twelve write most of it."""
    own = {call: n for call, n in counted.by_call.items() if not any(one in call for one in _SHARED)}
    for call, n in sorted(own.items(), key=lambda one: -one[1])[:TOLD]:
        function, operation, *items = call.split()
        about = ", ".join(Counter(item.partition("/")[2] for item in items))
        twice = " in a transaction" if operation == "TransactWriteItems" else ""
        yield Row("writes", f"{function}: {about}{twice}", n / LIVES, "write units", is_part=True)


if __name__ == "__main__":
    for one in rows():
        print("ok" if one.holds else "NO", one)
