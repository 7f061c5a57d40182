"""Puts what a restored table holds into the stack's own: DynamoDB restores into a new table only.

make restore ARGS="--from Ostler-Table-restored"     (docs/runbook.md says what goes before and after)
"""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from ops.command import command
from ops.target import parse_target, target_parser

Item = dict[str, Any]

# A key that was revoked since must stay so, machines bought since carry the deployment's id as it is, and
# functions hold the secret that they sign cursors with.
NOT_RESTORED = ("key#", "deployment", "cursors")


def restore_items(table: Any, backup: Iterable[Item]) -> tuple[int, int]:
    """How many items were put and how many, which the backup does not have, were removed."""
    existing = {_key(item) for item in scan_items(table)}
    wanted = {_key(item): item for item in backup}
    put = [item for key, item in wanted.items() if key not in existing or not key[0].startswith(NOT_RESTORED)]
    removed = [key for key in existing - wanted.keys() if not key[0].startswith(NOT_RESTORED)]
    with table.batch_writer() as batch:
        for pk, sk in removed:
            batch.delete_item(Key={"pk": pk, "sk": sk})
        for item in put:
            batch.put_item(Item=item)
    return len(put), len(removed)


def scan_items(table: Any) -> Iterator[Item]:
    start: dict[str, Any] = {}
    while True:
        page = table.scan(ConsistentRead=True, **start)
        yield from page["Items"]
        if "LastEvaluatedKey" not in page:
            return
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def _key(item: Item) -> tuple[str, str]:
    return item["pk"], item["sk"]


@command
def main() -> int:
    parser = target_parser("python -m ops.restore", __doc__)
    parser.add_argument("--from", dest="source", required=True, help="the table that DynamoDB restored")
    arguments = parser.parse_args()
    target = parse_target(arguments)
    own = target.stack().table_name
    put, removed = restore_items(target.table(own), scan_items(target.table(arguments.source)))
    print(f"{put} items put into {own}, {removed} removed that {arguments.source} does not have.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
