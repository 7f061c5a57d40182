"""The emulator's process: ministack, with four patches.

- Functions' output goes to a file of its own; ministack keeps it in memory, a log stream for each invocation.
- A table's stream is kept over a clean stop. Ministack keeps only how far it was read, so that a stream would
  stand still after a restart until it had grown as long again.
- Where IAM is enforced, calls count as encrypted: they never leave this machine, and the policies of queues
  and topics refuse all others.
- And a role's conditions see which items a call to the table is about (`dynamodb:LeadingKeys`).
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ministack import app
from ministack.core import iam_actions
from ministack.services import dynamodb, lambda_svc

STREAMS = {"streamRecords": dynamodb._stream_records, "streamTrimmed": dynamodb._stream_trimmed}


def main() -> None:
    (function_log,) = sys.argv[1:]
    sys.argv = sys.argv[:1]
    lambda_svc._execute_function_warm = _with_function_log(
        lambda_svc._execute_function_warm, Path(function_log)
    )
    lambda_svc._emit_lambda_logs = _ignore
    dynamodb.get_state, dynamodb.load_persisted_state = _with_streams(
        dynamodb.get_state, dynamodb.load_persisted_state
    )
    app.pin_request_origin = _as_encrypted(app.pin_request_origin)
    iam_actions.dynamodb_service_context = _with_leading_keys(iam_actions.dynamodb_service_context)
    app.main()


def _with_function_log(execute: Any, file: Path) -> Any:
    log = file.open("a", buffering=1)

    def executed(function: Any, event: Any, request_id: str) -> Any:
        result = execute(function, event, request_id)
        lines = (result.get("log") or "").splitlines()
        if result.get("error"):
            lines.append(f"request {request_id} failed: {result['body']}")
        name = (function.get("config") or function)["FunctionName"]
        log.write("".join(f"{name} {line}\n" for line in lines))
        return result

    return executed


def _ignore(*_: Any, **__: Any) -> None:
    pass


def _with_streams(get_state: Any, load_state: Any) -> tuple[Any, Any]:
    def get() -> Any:
        return get_state() | STREAMS

    def load(data: Any) -> None:
        load_state(data)
        for name, store in STREAMS.items():
            if name in data:
                store._data.update(data[name]._data)

    return get, load


def _as_encrypted(pin_request_origin: Any) -> Any:
    return lambda address, _encrypted: pin_request_origin(address, True)


def _with_leading_keys(service_context: Any) -> Any:
    def context(body: bytes) -> Any:
        keys = sorted(set(leading_keys(json.loads(body or b"{}"))))
        return service_context(body) | ({"dynamodb:LeadingKeys": keys} if keys else {})

    return context


def leading_keys(request: dict[str, Any]) -> Iterator[str]:
    """The partition keys that a request names; of an index, where it reads one."""
    for item in (request.get("Key"), request.get("Item")):
        if item:
            yield item["pk"]["S"]
    for table in request.get("RequestItems", {}).values():
        requests = table["Keys"] if isinstance(table, dict) else [next(iter(one.values())) for one in table]
        for one in requests:
            yield (one.get("Key") or one.get("Item") or one)["pk"]["S"]
    for one in request.get("TransactItems", []):
        yield from leading_keys(next(iter(one.values())))
    if condition := request.get("KeyConditionExpression"):
        # Every query of ours begins with its partition: `name = :value`.
        placeholder = condition.split(" AND ")[0].partition("=")[2].strip()
        yield request["ExpressionAttributeValues"][placeholder]["S"]


if __name__ == "__main__":
    main()
