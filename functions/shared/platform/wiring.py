"""The composition root: the only reader of the environment, the only builder of clients."""

import gc
import json
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from functions.shared.domain.delivery.webhooks import read_master, read_waits
from functions.shared.domain.errors import BadSettings
from functions.shared.domain.ids import ulid
from functions.shared.domain.instance.decision import Policy
from functions.shared.domain.instance.health import HealthCheck
from functions.shared.domain.instance.limits import LimitRules, Limits
from functions.shared.domain.instance.record import Instance
from functions.shared.domain.money.caps import CapLimits, micros
from functions.shared.domain.resilience import SlotClass
from functions.shared.engine.step import StepRunner
from functions.shared.platform.aws import Queues, Secrets, new_client
from functions.shared.platform.invocation import Invocation, TimeBudget
from functions.shared.platform.observability import (
    choose_metrics,
    correlation_id,
    logger,
    name_service,
    time_calls,
)
from functions.shared.platform.settings import Settings
from functions.shared.stores.budgets import Budgets
from functions.shared.stores.cache import SharedCache
from functions.shared.stores.caps import Caps
from functions.shared.stores.instances import Instances
from functions.shared.stores.jobs import DeadLetters, SlowSlots
from functions.shared.stores.last_used import LastUsed
from functions.shared.stores.machines import (
    BootTimes,
    DeploymentId,
    KeyTrust,
    Orphans,
    PlannedLooks,
    PurchaseSwitch,
)
from functions.shared.stores.table import Due, Table, TableClock

if TYPE_CHECKING:  # imported when first used: not every function pays for them at its cold start
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from functions.shared.domain.resilience import RequestBudget
    from functions.shared.engine.catalog import Catalog
    from functions.shared.engine.shared_polling import PlanLooks, PollingPace, SharedList
    from functions.shared.novita.client import Novita
    from functions.shared.outbound.http import OutboundHttp
    from functions.shared.outbound.probes import Probes
    from functions.shared.platform.aws import QueueDepths, Topic
    from functions.shared.stores.api_keys import ApiKeys
    from functions.shared.stores.bills import Bills
    from functions.shared.stores.circuits import Circuits
    from functions.shared.stores.cost_sums import CostSums
    from functions.shared.stores.cursor_secret import CursorSecret
    from functions.shared.stores.deliveries import Deliveries, ReceiverSlots
    from functions.shared.stores.idempotency import IdempotencyKeys
    from functions.shared.stores.last_sweep import LastSweep
    from functions.shared.stores.ledger import LedgerLines
    from functions.shared.stores.list_walks import ListWalks
    from functions.shared.stores.rate_limiter import RateLimiter
    from functions.shared.stores.recent_outage import RecentOutage
    from functions.shared.stores.totals import Totals


QUEUES = ("create", "monitor", "startup", "webhook")
# The API's reads are made while somebody waits, those of `create` for a purchase, all others to look after
# machines that bill.
READS_AS: dict[str, SlotClass] = {"api": "callers", "create": "work"}


def utc_now() -> datetime:
    return datetime.now(UTC)


class Wiring:
    """Everything a function needs, built when first asked for."""

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], datetime] = utc_now,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.wait = wait
        self._invocations = 0  # that this process has handled

    @cached_property
    def policy(self) -> Policy:
        s = self.settings
        return Policy(
            poll=timedelta(seconds=s.instance_poll_interval),
            purchase_wait=timedelta(seconds=s.purchase_max_wait),
            boot_wait=timedelta(seconds=s.boot_max_wait),
            settle=timedelta(seconds=s.settle_seconds),
            gone_confirm=timedelta(seconds=s.gone_confirm_seconds),
            vanished_after=timedelta(seconds=s.vanished_after),
            expiry_notice=timedelta(seconds=s.expiry_notice),
        )

    @cached_property
    def limit_rules(self) -> LimitRules:
        s = self.settings
        defaults = {
            "stop_after": s.default_stop_after,
            "delete_after": s.default_delete_after,
            "idle_stop_after": s.default_idle_stop_after,
            "delete_after_stopped": s.default_delete_after_stopped,
        }
        ceilings = {
            "stop_after": s.max_stop_after,
            "delete_after": s.max_lifetime,
            "idle_stop_after": s.max_idle_stop_after,
            "delete_after_stopped": s.max_delete_after_stopped,
        }
        return LimitRules(Limits.of_durations(defaults), Limits.of_durations(ceilings))

    def client(self, service: Any) -> Any:
        return time_calls(new_client(service), service)

    @cached_property
    def table(self) -> Table:
        return Table(self.client("dynamodb"), self.settings.table_name)

    @cached_property
    def instances(self) -> Instances:
        def within_budgets(record: Instance) -> None:
            self.budgets.require_room(record)

        return Instances(self.table, lambda: secrets.token_hex(8), self.caps, self.wait, within_budgets)

    @cached_property
    def budgets(self) -> Budgets:
        return Budgets(self.table, self.cost_sums, self.clock, self.new_event_id)

    @cached_property
    def caps(self) -> Caps:
        most = self.settings.max_hourly_usd
        deployment = CapLimits(hourly=micros(Decimal(most)) if most else None)
        return Caps(self.table, self.clock, deployment, lambda: self.instances.fleet_as_it_is())

    @cached_property
    def last_used(self) -> LastUsed:
        return LastUsed(self.table)

    @cached_property
    def queues(self) -> Queues:
        return Queues(self.client("sqs"), lambda name: str(getattr(self.settings, f"{name}_queue_url")))

    @property
    def queue_urls(self) -> dict[str, str]:
        return {name: getattr(self.settings, f"{name}_queue_url") for name in QUEUES}

    @cached_property
    def queue_depths(self) -> "QueueDepths":
        from functions.shared.platform.aws import QueueDepths

        return QueueDepths(self.client("sqs"), self.queue_urls, self.settings.dead_letter_queue_url)

    @cached_property
    def dead_letters(self) -> DeadLetters:
        return DeadLetters(self.table)

    @cached_property
    def api_keys(self) -> "ApiKeys":
        from functions.shared.stores.api_keys import ApiKeys

        return ApiKeys(self.table, self.clock, self.settings.key_cache_seconds)

    @cached_property
    def caller_budget(self) -> "RequestBudget":
        from functions.shared.domain.resilience import RequestBudget

        return RequestBudget(self.settings.requests_per_caller, self.clock)

    @cached_property
    def stranger_budget(self) -> "RequestBudget":
        from functions.shared.domain.resilience import RequestBudget

        return RequestBudget(self.settings.requests_per_stranger, self.clock)

    @cached_property
    def steps(self) -> StepRunner:
        def plan_looks(record: Instance) -> None:
            self.plan_looks(record)

        return StepRunner(
            self.instances, self.queues, self.clock, self.policy, self.boot_times.learn, plan_looks
        )

    @cached_property
    def plan_looks(self) -> "PlanLooks":
        from functions.shared.engine.shared_polling import PlanLooks

        return PlanLooks(PlannedLooks(self.table, self.clock), self.queues, self.clock, self.pace)

    @cached_property
    def boot_times(self) -> BootTimes:
        return BootTimes(self.table, self.clock)

    @cached_property
    def cache(self) -> SharedCache:
        return SharedCache(self.table, self.clock, self.lifetimes)

    def lifetimes(self) -> dict[str, float]:
        s = self.settings
        return {
            "products": s.products_ttl,
            "clusters": s.products_ttl,
            "template": s.templates_ttl,
            "list": s.list_ttl,
            "merged": s.merged_ttl,
            "total": s.total_ttl,
            "balance": s.balance_ttl,
        }

    @cached_property
    def totals(self) -> "Totals":
        from functions.shared.stores.totals import Totals

        return Totals(self.table, self.cache, self.clock, self.settings.total_ttl)

    @cached_property
    def recent_outage(self) -> "RecentOutage":
        from functions.shared.stores.recent_outage import RecentOutage

        return RecentOutage(self.table, self.clock, timedelta(seconds=self.settings.silence_seconds))

    @cached_property
    def idempotency(self) -> "IdempotencyKeys":
        from functions.shared.stores.idempotency import IdempotencyKeys

        return IdempotencyKeys(self.table, self.clock)

    @cached_property
    def deployment(self) -> DeploymentId:
        return DeploymentId(self.table)

    @cached_property
    def key_trust(self) -> KeyTrust:
        def version() -> str:
            return self.secrets.read(self.settings.novita_secret_id).version

        return KeyTrust(self.table, version, self.instances.had_machines, self.clock)

    @cached_property
    def purchase_switch(self) -> PurchaseSwitch:
        return PurchaseSwitch(self.table, self.clock, self.new_event_id)

    @cached_property
    def last_sweep(self) -> "LastSweep":
        from functions.shared.stores.last_sweep import LastSweep

        return LastSweep(self.table, self.clock)

    @cached_property
    def list_walks(self) -> "ListWalks":
        from functions.shared.stores.list_walks import ListWalks

        return ListWalks(self.table, self.clock)

    @cached_property
    def cost_sums(self) -> "CostSums":
        from functions.shared.stores.cost_sums import CostSums

        return CostSums(self.table)

    @cached_property
    def bills(self) -> "Bills":
        from functions.shared.stores.bills import Bills

        return Bills(self.table, self.new_event_id)

    @cached_property
    def ledger_lines(self) -> "LedgerLines":
        from functions.shared.stores.ledger import LedgerLines

        return LedgerLines(self.table)

    @cached_property
    def cursor_secret(self) -> "CursorSecret":
        from functions.shared.stores.cursor_secret import CursorSecret

        return CursorSecret(self.table)

    @cached_property
    def due(self) -> Due:
        return Due(self.table)

    @cached_property
    def deliveries(self) -> "Deliveries":
        from functions.shared.stores.deliveries import Deliveries

        return Deliveries(self.table)

    @cached_property
    def receiver_slots(self) -> "ReceiverSlots":
        from functions.shared.stores.deliveries import ReceiverSlots

        slow = SlowSlots(self.table, "webhook", self.settings.max_concurrent_jobs)
        return ReceiverSlots(self.table, self.settings.webhook_per_receiver, slow)

    @cached_property
    def slow_applications(self) -> SlowSlots:
        return SlowSlots(self.table, "startup", self.settings.max_concurrent_jobs)

    @cached_property
    def secrets(self) -> Secrets:
        trusted = self.settings.secret_cache_seconds
        return Secrets(self.client("secretsmanager"), self.clock, trusted, lambda: self._invocations)

    @cached_property
    def topic(self) -> "Topic":
        from functions.shared.platform.aws import Topic

        return Topic(self.client("sns"), self.settings.topic_arn)

    @cached_property
    def outbound(self) -> "OutboundHttp":
        from functions.shared.outbound.http import OutboundHttp

        return OutboundHttp(self.settings.outbound_allow_cidrs)

    @cached_property
    def health_check(self) -> HealthCheck:
        """What counts where a request does not say."""
        s = self.settings
        return HealthCheck(
            timeout_ms=s.health_check_timeout_ms,
            retry_attempts=s.health_check_retry_attempts,
            retry_delay_ms=s.health_check_retry_delay_ms,
            max_wait_time_ms=s.health_check_max_wait_time_ms,
        )

    @cached_property
    def probes(self) -> "Probes":
        from functions.shared.outbound.probes import Probes

        return Probes(self.outbound, self.clock)

    @cached_property
    def circuits(self) -> "Circuits":
        from functions.shared.domain.resilience import CircuitPolicy
        from functions.shared.stores.circuits import Circuits

        s = self.settings
        policy = CircuitPolicy(
            failure_threshold=s.breaker_failure_threshold,
            window=s.breaker_window,
            recovery_timeout=s.breaker_recovery_timeout,
            success_threshold=s.breaker_success_threshold,
            cache_seconds=s.breaker_cache_seconds,
            probe_seconds=s.novita_connect_timeout + s.novita_read_timeout + 2,
        )
        return Circuits(self.table.client, self.table.name, policy, self.clock, self.new_event_id)

    @cached_property
    def limiter(self) -> "RateLimiter":
        from functions.shared.stores.rate_limiter import RateLimiter

        return RateLimiter(
            self.table.client, self.table.name, self.settings.novita_rate_limit, self.table_clock
        )

    @cached_property
    def table_clock(self) -> TableClock:
        return TableClock(self.clock)

    def reads_as(self) -> SlotClass:
        """Whose slots of the rate limit this function's reads of Novita use."""
        return READS_AS.get(self.settings.function, "looks")

    @cached_property
    def novita(self) -> "Novita":
        from functions.shared.novita.attempts import CallTimeouts
        from functions.shared.novita.calls import NovitaKey
        from functions.shared.novita.client import Novita

        def key() -> NovitaKey:
            secret = self.secrets.read(s.novita_secret_id)
            return NovitaKey(secret.value, secret.version)

        s = self.settings
        return Novita(
            s.novita_api_base_url,
            key=key,
            believes=self.key_trust.believes,
            correlation=correlation_id,
            circuits=self.circuits,
            limiter=self.limiter,
            wait=self.wait,
            now=self.clock,
            limits=CallTimeouts(s.novita_connect_timeout, s.novita_read_timeout, s.novita_create_timeout),
            reads_as=self.reads_as,
        )

    @cached_property
    def catalog(self) -> "Catalog":
        from functions.shared.engine.catalog import Catalog

        s = self.settings
        return Catalog(
            self.novita,
            self.cache,
            s.default_region,
            tuple(part.strip() for part in s.region_priority.split(",") if part.strip()),
            s.products_ttl,
            s.templates_ttl,
            self.wait,
        )

    @cached_property
    def shared_list(self) -> "SharedList":
        from functions.shared.engine.shared_polling import SharedList

        return SharedList(self.novita, self.cache, self.table, self.clock, self.wait)

    @cached_property
    def orphans(self) -> Orphans:
        return Orphans(self.table, self.new_event_id)

    @cached_property
    def pace(self) -> "PollingPace":
        from functions.shared.engine.shared_polling import PollingPace

        s = self.settings
        return PollingPace(
            s.share_list_from, s.instance_poll_interval, s.list_ttl, s.look_interval, s.novita_rate_limit
        )

    def new_event_id(self) -> str:
        return f"evt_{ulid(self.clock())}"

    @cached_property
    def webhook_waits(self) -> tuple[float, ...]:
        return read_waits(self.settings.webhook_waits)

    def webhook_masters(self) -> list[bytes]:
        """The master secrets to sign with: the current one, and during a rotation the one before."""
        kept = json.loads(self.secrets.read(self.settings.webhook_secret_id).value)
        return [read_master(kept[name]) for name in ("current", "previous") if kept.get(name)]

    def invocation(self, context: "LambdaContext") -> Invocation:
        """What one invocation uses: this, and the time that it has."""
        self._invocations += 1
        return Invocation(self, TimeBudget(lambda: context.get_remaining_time_in_millis() / 1000))


_current: Wiring | None = None


def wiring(function: str) -> Wiring:
    """The process's wiring, built at the first event: a bad setting stops the function and is named."""
    global _current
    if _current is None:
        _current = Wiring(Settings.read(os.environ, function))
        logger.setLevel(_current.settings.log_level)
        name_service(_current.settings.service_name)
        choose_metrics(_current.settings.metrics)
    return _current


def prepare(function: str) -> None:
    """When a handler's module has been imported. What there is by now stays: garbage is looked for among what
    comes. And in Lambda's init phase, which has a whole core whatever a function's memory, that is made which
    every first invocation would have to make with its share of one; anywhere else nothing is made at import.
    A setting that is bad stops the first invocation, which names it."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        with suppress(BadSettings):
            _ = wiring(function).table


def use(other: Wiring | None) -> None:
    """Put another wiring in its place (tests), or none so that the environment is read again."""
    global _current
    _current = other
