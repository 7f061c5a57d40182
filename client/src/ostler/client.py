"""The client: a method for each route of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from ostler.errors import BadAnswer
from ostler.transport import Transport
from ostler.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ostler import models as m
    from ostler.waiting import Progress


class Ostler:
    """`Ostler("https://…", "ost_…")`. Every POST and PATCH that buys or changes carries an Idempotency-Key,
    the same over all its attempts, so a lost answer never makes a second machine. Give your own to repeat a
    call after a crash."""

    def __init__(
        self, url: str, key: str | None = None, *, retry_for: float = 60.0, timeout: float = 35.0, **more: Any
    ) -> None:
        self.transport = Transport(url, key, retry_for=retry_for, timeout=timeout, **more)

    def __enter__(self) -> Ostler:
        return self

    def __exit__(self, *_: object) -> None:
        self.transport.close()

    # Instances

    def create(
        self,
        name: str,
        product: str,
        template: str | int,
        *,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> m.Created:
        """Buy a machine; `fields` are those of `models.CreateRequest`."""
        body = {"name": name, "productName": product, "templateId": template, **fields}
        return cast("m.Created", self._change("POST", "/api/instances", body, idempotency_key))

    def quote(self, product: str, *, retry_for: float | None = None, **fields: Any) -> m.Quote:
        """What a create would buy; buys nothing."""
        body = {"productName": product, **fields}
        return cast("m.Quote", self._json("POST", "/api/quotes", body=body, retry_for=retry_for))

    def page(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        status: str | None = None,
        name: str | None = None,
        tag: str | None = None,
        owner: str | None = None,
    ) -> m.Instances:
        """One page of instances, newest first."""
        query = {"limit": limit, "cursor": cursor, "status": status, "name": name, "tag": tag, "owner": owner}
        return cast("m.Instances", self._json("GET", "/api/instances", query=query))

    def instances(self, *, limit: int = 100, **filters: Any) -> Iterator[m.Instance]:
        """All instances, newest first, page after page."""
        return self._all("instances", lambda cursor: self.page(limit=limit, cursor=cursor, **filters))

    def comprehensive(
        self,
        *,
        include_novita_only: bool | None = None,
        sync_local_state: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> m.Comprehensive:
        """One page of what is here and what Novita shows, merged."""
        query = {
            "includeNovitaOnly": include_novita_only,
            "syncLocalState": sync_local_state,
            "limit": limit,
            "cursor": cursor,
        }
        return cast("m.Comprehensive", self._json("GET", "/api/instances/comprehensive", query=query))

    def get(
        self, instance_id: str, *, retry_for: float | None = None, timeout: float | None = None
    ) -> m.Instance:
        told = self._json("GET", _of(instance_id), retry_for=retry_for, timeout=timeout)
        return cast("m.Instance", told)

    def update(self, instance_id: str, patch: m.Patch, *, idempotency_key: str | None = None) -> m.Instance:
        """Change name, tags, webhook, limits, protection; None removes."""
        return cast("m.Instance", self._change("PATCH", _of(instance_id), patch, idempotency_key))

    def import_machine(
        self, novita_instance_id: str, *, idempotency_key: str | None = None, **fields: Any
    ) -> m.Instance:
        body = {"novitaInstanceId": novita_instance_id, **fields}
        return cast("m.Instance", self._change("POST", "/api/instances/import", body, idempotency_key))

    def note_use(self, instance_id: str, at: str | None = None) -> m.Instance:
        body = {"lastUsedAt": at} if at else {}
        return cast("m.Instance", self._json("PUT", _of(instance_id, "last-used"), body=body))

    def events_page(
        self, instance_id: str, *, limit: int | None = None, cursor: str | None = None
    ) -> m.Events:
        query = {"limit": limit, "cursor": cursor}
        return cast("m.Events", self._json("GET", _of(instance_id, "events"), query=query))

    def events(self, instance_id: str) -> Iterator[m.Event]:
        """What happened to it, oldest first."""
        return self._all("events", lambda cursor: self.events_page(instance_id, cursor=cursor))

    def connection(self, instance_id: str) -> m.Connection:
        """How to get in. Holds secrets."""
        return cast("m.Connection", self._json("GET", _of(instance_id, "connection")))

    # Operations

    def start(self, instance_id: str, *, idempotency_key: str | None = None, **fields: Any) -> m.Accepted:
        return self._operate(_of(instance_id, "start"), fields, idempotency_key)

    def stop(self, instance_id: str, *, idempotency_key: str | None = None) -> m.Accepted:
        return self._operate(_of(instance_id, "stop"), {}, idempotency_key)

    def restart(self, instance_id: str, *, idempotency_key: str | None = None, **fields: Any) -> m.Accepted:
        return self._operate(_of(instance_id, "restart"), fields, idempotency_key)

    def delete(self, instance_id: str, *, release: bool = False) -> m.Accepted:
        """Idempotent. `release`: leave the machine alone, for imported, missing and stuck ones."""
        query = {"release": True} if release else None
        return cast("m.Accepted", self._json("DELETE", _of(instance_id), query=query))

    def start_by_name(self, name: str, *, idempotency_key: str | None = None, **fields: Any) -> m.Accepted:
        return self._operate("/api/instances/start", {"instanceName": name, **fields}, idempotency_key)

    def stop_by_name(self, name: str, *, idempotency_key: str | None = None) -> m.Accepted:
        return self._operate("/api/instances/stop", {"instanceName": name}, idempotency_key)

    def delete_by_name(self, name: str, *, idempotency_key: str | None = None) -> m.Accepted:
        return self._operate("/api/instances/delete", {"instanceName": name}, idempotency_key)

    def operation(
        self, operation_id: str, *, retry_for: float | None = None, timeout: float | None = None
    ) -> m.Operation:
        path = f"/api/operations/{quote(operation_id, safe='')}"
        return cast("m.Operation", self._json("GET", path, retry_for=retry_for, timeout=timeout))

    def operations(self, instance_id: str) -> m.Operations:
        return cast("m.Operations", self._json("GET", _of(instance_id, "operations")))

    def wait_until(
        self,
        instance_id: str,
        wanted: str = "up",
        *,
        timeout: float | None = None,
        interval: float = 2.0,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> m.Instance:
        """Until it is `up`, `running`, `ready`, `stopped` or `gone`; survives lost connections."""
        return wait_until(
            self, instance_id, wanted, timeout=timeout, interval=interval, on_progress=on_progress
        )

    # Money

    def cost(self, instance_id: str) -> m.InstanceCost:
        """What it has cost, by the intervals in which its machines were billed."""
        return cast("m.InstanceCost", self._json("GET", _of(instance_id, "cost")))

    def costs(
        self,
        *,
        since: str | None = None,
        to: str | None = None,
        group_by: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> m.Costs:
        """Days are UTC and both included; by default this month so far, by day."""
        query = {"from": since, "to": to, "groupBy": group_by, "limit": limit, "cursor": cursor}
        return cast("m.Costs", self._json("GET", "/api/costs", query=query))

    def budgets(self) -> list[m.Budget]:
        return cast("list[m.Budget]", self._json("GET", "/api/budgets")["budgets"])

    def budget(self, name: str) -> m.Budget:
        return cast("m.Budget", self._json("GET", f"/api/budgets/{quote(name, safe='')}"))

    def set_budget(
        self, name: str, limit_usd: str, period: str, scope: Any = "all", **fields: Any
    ) -> m.Budget:
        """`scope`: "all", {"key": id} or {"tag": {"name": …, "value": …}}; `fields`: action, thresholds."""
        body = {"limitUsd": limit_usd, "period": period, "scope": scope, **fields}
        return cast("m.Budget", self._json("PUT", f"/api/budgets/{quote(name, safe='')}", body=body))

    def delete_budget(self, name: str) -> m.Deleted:
        return cast("m.Deleted", self._json("DELETE", f"/api/budgets/{quote(name, safe='')}"))

    # Market

    def products(self, name: str | None = None, *, billing_mode: str | None = None) -> list[m.Product]:
        query = {"name": name, "billingMode": billing_mode}
        return cast("list[m.Product]", self._json("GET", "/api/products", query=query)["products"])

    def template(self, template_id: str | int) -> m.Template:
        return cast("m.Template", self._json("GET", f"/api/templates/{quote(str(template_id), safe='')}"))

    # Webhooks

    def deliveries_page(
        self, instance_id: str, *, limit: int | None = None, cursor: str | None = None
    ) -> m.Deliveries:
        query = {"instanceId": instance_id, "limit": limit, "cursor": cursor}
        return cast("m.Deliveries", self._json("GET", "/api/webhooks/deliveries", query=query))

    def deliveries(self, instance_id: str) -> Iterator[m.Delivery]:
        """Its webhooks, newest first."""
        return self._all("deliveries", lambda cursor: self.deliveries_page(instance_id, cursor=cursor))

    def replay(self, delivery_id: str, *, idempotency_key: str | None = None) -> m.Replayed:
        path = f"/api/webhooks/deliveries/{quote(delivery_id, safe='')}/replay"
        return cast("m.Replayed", self._change("POST", path, None, idempotency_key))

    def webhook_secret(self, url: str) -> m.Secret:
        return cast("m.Secret", self._json("GET", "/api/webhooks/secret", query={"url": url}))

    # The service

    def health(self, *, deep: bool = False) -> m.Health:
        return cast("m.Health", self._json("GET", "/health", query={"deep": True} if deep else None))

    def me(self) -> m.Me:
        """Who the key's holder is there, and what it may do."""
        return cast("m.Me", self._json("GET", "/api/me"))

    def status(self) -> m.Status:
        return cast("m.Status", self._json("GET", "/api/status"))

    def circuits(self) -> list[m.Circuit]:
        return cast("list[m.Circuit]", self._json("GET", "/api/circuits")["circuits"])

    def pause(self, *, idempotency_key: str | None = None) -> m.Pause:
        return cast("m.Pause", self._change("POST", "/api/pause", None, idempotency_key))

    def resume(self, *, idempotency_key: str | None = None) -> m.Pause:
        return cast("m.Pause", self._change("POST", "/api/resume", None, idempotency_key))

    def sync(
        self,
        *,
        dry_run: bool = False,
        trust_key: bool = False,
        delete_orphans: bool = False,
        idempotency_key: str | None = None,
    ) -> m.Sync:
        told = {"dryRun": dry_run, "trustKey": trust_key, "deleteOrphans": delete_orphans}
        body = {name: value for name, value in told.items() if value}
        return cast("m.Sync", self._change("POST", "/api/sync", body, idempotency_key))

    def job_stats(self, window_hours: int | None = None) -> m.JobStats:
        return cast("m.JobStats", self._json("GET", "/api/jobs/stats", query={"windowHours": window_hours}))

    def dead_letters_page(
        self, *, limit: int | None = None, cursor: str | None = None, since: str | None = None
    ) -> m.DeadLetters:
        query = {"limit": limit, "cursor": cursor, "since": since}
        return cast("m.DeadLetters", self._json("GET", "/api/jobs/dead", query=query))

    def dead_letters(self, *, since: str | None = None) -> Iterator[m.DeadLetter]:
        """Messages that failed for the last time, newest first."""
        return self._all("deadLetters", lambda cursor: self.dead_letters_page(cursor=cursor, since=since))

    def redrive(self, letter_id: str, *, idempotency_key: str | None = None) -> m.Redriven:
        path = f"/api/jobs/dead/{quote(letter_id, safe='')}/redrive"
        return cast("m.Redriven", self._change("POST", path, None, idempotency_key))

    def clean_dead_letters(self, older_than_hours: int, *, idempotency_key: str | None = None) -> m.CleanedUp:
        body = {"olderThanHours": older_than_hours}
        return cast("m.CleanedUp", self._change("POST", "/api/jobs/dead/cleanup", body, idempotency_key))

    def cache_stats(self) -> m.CacheStats:
        return cast("m.CacheStats", self._json("GET", "/api/cache/stats"))

    def clear_cache(self, *, idempotency_key: str | None = None) -> m.Cleared:
        return cast("m.Cleared", self._change("POST", "/api/cache/clear", None, idempotency_key))

    def clean_cache(self, *, idempotency_key: str | None = None) -> m.Cleaned:
        return cast("m.Cleaned", self._change("POST", "/api/cache/cleanup", None, idempotency_key))

    # How it is asked

    def _operate(self, path: str, body: Any, key: str | None) -> m.Accepted:
        return cast("m.Accepted", self._change("POST", path, body, key))

    def _change(self, method: str, path: str, body: Any, key: str | None) -> Any:
        return self._json(method, path, body=body, keyed=True, idempotency_key=key)

    def _json(self, method: str, path: str, **options: Any) -> Any:
        answer = self.transport.send(method, path, **options)
        try:
            told = answer.json()
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise BadAnswer(f"{self.transport.url}{path} answered no JSON object: is the address right?")
        return told

    def _all(self, name: str, page: Callable[[str | None], Any]) -> Iterator[Any]:
        cursor: str | None = None
        while True:
            found = page(cursor)
            entries: Sequence[Any] = found[name]
            yield from entries
            cursor = found.get("nextCursor")
            if not cursor:
                return


def _of(instance_id: str, part: str = "") -> str:
    path = f"/api/instances/{quote(instance_id, safe='')}"
    return f"{path}/{part}" if part else path
