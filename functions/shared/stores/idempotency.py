"""Idempotency keys: the result of a request, stored in the same transaction as what it changed."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from functions.shared.domain.errors import CallerError, StaleInstance
from functions.shared.stores.table import ConditionFailed, Table, Write

_KEPT = timedelta(hours=24)
_TRIES = 5  # against other writers; each of them has made progress
# Nobody has used the key, or its day is over and the table has not removed it yet.
_UNUSED = "attribute_not_exists(pk) OR expiresAt <= :now"


@dataclass(frozen=True)
class IdempotentRequest:
    """A request that may be repeated: who asked what, under which key."""

    scope: str
    body_hash: str


@dataclass(frozen=True)
class ApiResult:
    status: int
    body: dict[str, Any]
    location: str | None = None


def idempotent_request(caller_id: str, route: str, key: str, body: Any) -> IdempotentRequest:
    scope = hashlib.sha256(json.dumps([caller_id, route, key]).encode()).hexdigest()
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return IdempotentRequest(scope, hashlib.sha256(canonical).hexdigest())


class IdempotencyKeys:
    def __init__(self, table: Table, clock: Callable[[], datetime]) -> None:
        self._table = table
        self._clock = clock

    def once(
        self, request: IdempotentRequest | None, attempt: Callable[[], ApiResult], about: str
    ) -> ApiResult:
        """The first result of this request, or that of an attempt. An attempt that lost to another write is
        made again, unless that write was this same request."""
        for _ in range(_TRIES):
            if request and (before := self.find(request)):
                return before
            try:
                return attempt()
            except (ConditionFailed, StaleInstance):
                continue
        raise StaleInstance(about)

    def kept_after(
        self, request: IdempotentRequest | None, work: Callable[[], ApiResult], about: str
    ) -> ApiResult:
        """For work that may be done twice without harm: its result is stored after it, not with it."""

        def attempt() -> ApiResult:
            result = work()
            if request:
                self._table.put(self.write(request, result))
            return result

        return self.once(request, attempt, about)

    def find(self, request: IdempotentRequest) -> ApiResult | None:
        item = self._table.get(f"answer#{request.scope}", "answer")
        if item is None or item["expiresAt"] <= self._clock().timestamp():
            return None
        if item["bodyHash"] != request.body_hash:
            raise CallerError(
                "IDEMPOTENCY_KEY_REUSED", "This Idempotency-Key was used for another request of yours"
            )
        stored = json.loads(item["answer"])
        return ApiResult(stored["status"], stored["body"], stored["location"])

    def write(self, request: IdempotentRequest, result: ApiResult) -> Write:
        """For the transaction that makes the result true."""
        now = self._clock()
        item = {
            "pk": f"answer#{request.scope}",
            "sk": "answer",
            "kind": "answer",
            "bodyHash": request.body_hash,
            "answer": json.dumps(vars(result)),
            "expiresAt": int((now + _KEPT).timestamp()),
        }
        return Write(item, _UNUSED, {":now": int(now.timestamp())})
