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
HALF, TOLD = 139, 20  # of the 278 that it was; how many of its parts
_LEDGER = ("cost", "costEntry", "bill")  # kinds of items
_ADDED = ("limits", "ceilings", "clock", "ended_by", "ledger")  # parts of the record
_SHARED = ("sweep/", "walk/", "costs/", "cache/", "limiter/")  # of no instance of its own


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
    return _own(counted).total() / LIVES


def _own(counted: WriteUnits) -> Counter[str]:
    """What writes anything of an instance's own is its own as a whole."""
    return Counter({call: n for call, n in counted.by_call.items() if _items(call)})


def _items(call: str) -> list[str]:
    return [item for item in call.split()[2:] if not item.startswith(_SHARED)]


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
    yield Row("writes", WITHOUT, of_one(bare), "write units", HALF)
    yield Row("writes", "the same without a webhook", of_one(untold), "write units", HALF)
    added = of_one(whole) - of_one(bare)
    yield Row("writes", "what the ledger and limits add to it", added, "write units", 40)
    yield from _made_up(bare)


def _made_up(counted: WriteUnits) -> Iterator[Row]:
    """By the function and the items that it writes, indexes included; twelve write most of it."""
    parts = Counter[str]()
    for call, n in _own(counted).items():
        function, operation, *_ = call.split()
        about = Counter(
            name for name in (item.partition("/")[2] for item in _items(call)) if name not in _LEDGER
        )
        twice = " in a transaction" if operation == "TransactWriteItems" else ""
        parts[f"{function}: {', '.join(about)}{twice}"] += n
    for name, n in parts.most_common(TOLD):
        yield Row("writes", name, n / LIVES, "write units", is_part=True)


if __name__ == "__main__":
    for one in rows():
        print("ok" if one.holds else "NO", one)
