"""The composition root: the only reader of the environment, the only builder of clients."""

import json
import os
import random
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from functions.shared.adapters.answers import Answers
from functions.shared.adapters.boots import Boots
from functions.shared.adapters.cache import SharedCache
from functions.shared.adapters.counts import Counts
from functions.shared.adapters.dead_letters import DeadLetters
from functions.shared.adapters.deliveries import Deliveries
from functions.shared.adapters.deployments import Deployments
from functions.shared.adapters.due import Due
from functions.shared.adapters.instances import Instances
from functions.shared.adapters.keys import ApiKeys
from functions.shared.adapters.operations import Operations
from functions.shared.adapters.orphans import Orphans
from functions.shared.adapters.queues import Queues
from functions.shared.adapters.secrets import Secrets
from functions.shared.adapters.silence import Silence
from functions.shared.adapters.table import Table
from functions.shared.adapters.totals import Totals
from functions.shared.adapters.uses import Uses
from functions.shared.advance import Advance
from functions.shared.domain.decision import Policy
from functions.shared.domain.delivery import read_waits
from functions.shared.domain.ids import ulid
from functions.shared.domain.signature import read_master
from functions.shared.log import correlation_id, logger
from functions.shared.settings import Settings

if TYPE_CHECKING:  # imported when first used: not every function pays for them at its cold start
    from functions.shared.adapters.circuits import Circuits
    from functions.shared.adapters.depths import Depths
    from functions.shared.adapters.limiter import Limiter
    from functions.shared.adapters.listing import Listing
    from functions.shared.adapters.novita.client import Novita
    from functions.shared.adapters.outbound import Outbound
    from functions.shared.adapters.probes import Probes
    from functions.shared.adapters.receivers import Receivers
    from functions.shared.adapters.topic import Topic
    from functions.shared.adapters.waiting import Waiting
    from functions.shared.catalog import Catalog
    from functions.shared.compare import Compare
    from functions.shared.perform import Calls
    from functions.shared.sweep import Sweep
    from functions.shared.watch import Watch


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
        self.time_left: Callable[[], float] = lambda: 60.0  # seconds this invocation may still take

    @cached_property
    def policy(self) -> Policy:
        s = self.settings
        return Policy(
            poll=timedelta(seconds=s.instance_poll_interval),
            purchase_wait=timedelta(seconds=s.purchase_max_wait),
            boot_wait=timedelta(seconds=s.boot_max_wait),
            settle=timedelta(seconds=s.settle_seconds),
            gone_confirm=timedelta(seconds=s.gone_confirm_seconds),
        )

    def client(self, service: Any) -> Any:
        import boto3
        from botocore.config import Config

        # Attempts stay well inside a function's life; the record is due again if all of them fail.
        config = Config(
            connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3}
        )
        return boto3.client(service, config=config)

    @cached_property
    def table(self) -> Table:
        return Table(self.client("dynamodb"), self.settings.table_name)

    @cached_property
    def instances(self) -> Instances:
        return Instances(self.table, lambda: secrets.token_hex(8))

    @cached_property
    def uses(self) -> Uses:
        return Uses(self.table)

    @cached_property
    def queues(self) -> Queues:
        return Queues(self.client("sqs"), self.queue_urls)

    @property
    def queue_urls(self) -> dict[str, str]:
        s = self.settings
        return {
            "create": s.create_queue_url,
            "monitor": s.monitor_queue_url,
            "startup": s.startup_queue_url,
            "webhook": s.webhook_queue_url,
        }

    @property
    def dead_queue_urls(self) -> dict[str, str]:
        """By the name of the queue whose dead letters they hold."""
        s = self.settings
        return {
            "create": s.create_dead_queue_url,
            "monitor": s.monitor_dead_queue_url,
            "startup": s.startup_dead_queue_url,
            "webhook": s.webhook_dead_queue_url,
        }

    @cached_property
    def depths(self) -> "Depths":
        from functions.shared.adapters.depths import Depths

        return Depths(self.client("sqs"), self.queue_urls, self.dead_queue_urls)

    @cached_property
    def dead_letters(self) -> DeadLetters:
        return DeadLetters(self.table)

    @cached_property
    def counts(self) -> Counts:
        return Counts(self.table, self.remaining)

    @cached_property
    def keys(self) -> ApiKeys:
        return ApiKeys(self.table, self.clock, self.settings.key_cache_seconds)

    @cached_property
    def advance(self) -> Advance:
        return Advance(self.instances, self.queues, self.clock, self.policy, self.boots.learn)

    @cached_property
    def boots(self) -> Boots:
        return Boots(self.table, self.clock)

    @cached_property
    def cache(self) -> SharedCache:
        s = self.settings
        lifetimes = {
            "products": s.products_ttl,
            "clusters": s.products_ttl,
            "template": s.templates_ttl,
            "list": s.list_ttl,
            "merged": s.merged_ttl,
            "total": s.total_ttl,
        }
        return SharedCache(self.table, self.clock, lifetimes)

    @cached_property
    def totals(self) -> Totals:
        return Totals(self.table, self.cache, self.clock, self.settings.total_ttl)

    @cached_property
    def silence(self) -> Silence:
        return Silence(self.table, self.clock, timedelta(seconds=self.settings.silence_seconds))

    @cached_property
    def answers(self) -> Answers:
        return Answers(self.table, self.clock)

    @cached_property
    def deployments(self) -> Deployments:
        return Deployments(self.table)

    @cached_property
    def operations(self) -> Operations:
        return Operations(self.table)

    @cached_property
    def due(self) -> Due:
        return Due(self.table)

    @cached_property
    def waiting(self) -> "Waiting":
        from functions.shared.adapters.waiting import Waiting

        return Waiting(self.table, self.due)

    @cached_property
    def deliveries(self) -> Deliveries:
        return Deliveries(self.table)

    @cached_property
    def receivers(self) -> "Receivers":
        from functions.shared.adapters.receivers import Receivers

        return Receivers(self.table, self.settings.webhook_per_receiver)

    @cached_property
    def secrets(self) -> Secrets:
        return Secrets(self.client("secretsmanager"), self.clock, self.settings.secret_cache_seconds)

    @cached_property
    def topic(self) -> "Topic":
        from functions.shared.adapters.topic import Topic

        return Topic(self.client("sns"), self.settings.topic_arn)

    @cached_property
    def outbound(self) -> "Outbound":
        from functions.shared.adapters.outbound import Outbound

        return Outbound(self.settings.outbound_allow_cidrs)

    @cached_property
    def probes(self) -> "Probes":
        from functions.shared.adapters.probes import Probes

        return Probes(self.outbound, self.clock, self.wait, random.random)

    @cached_property
    def circuits(self) -> "Circuits":
        from functions.shared.adapters.circuits import Circuits
        from functions.shared.domain.circuit import Policy as CircuitPolicy

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
    def limiter(self) -> "Limiter":
        from functions.shared.adapters.limiter import Limiter

        return Limiter(self.table.client, self.table.name, self.settings.novita_rate_limit, self.clock)

    @cached_property
    def novita(self) -> "Novita":
        from functions.shared.adapters.novita.attempts import TimeLimits
        from functions.shared.adapters.novita.client import Novita

        s = self.settings
        return Novita(
            s.novita_api_base_url,
            key=lambda: self.secrets.read(s.novita_secret_id),
            correlation=correlation_id,
            circuits=self.circuits,
            limiter=self.limiter,
            wait=self.wait,
            now=self.clock,
            limits=TimeLimits(s.novita_connect_timeout, s.novita_read_timeout, s.novita_create_timeout),
        )

    @cached_property
    def catalog(self) -> "Catalog":
        from functions.shared.catalog import Catalog

        s = self.settings
        return Catalog(
            self.novita,
            self.cache,
            s.default_region,
            tuple(part.strip() for part in s.region_priority.split(",") if part.strip()),
            s.products_ttl,
            s.templates_ttl,
        )

    @cached_property
    def calls(self) -> "Calls":
        from functions.shared.perform import Calls

        return Calls(
            self.instances,
            self.novita,
            self.clock,
            self.remaining,
            self.settings.instance_poll_interval,
            self.watch,
            self.boots,
        )

    @cached_property
    def listing(self) -> "Listing":
        from functions.shared.adapters.listing import Listing

        return Listing(self.novita, self.cache, self.table, self.clock, self.wait)

    @cached_property
    def watch(self) -> "Watch":
        from functions.shared.domain.crowd import Pace
        from functions.shared.watch import Watch

        s = self.settings
        return Watch(
            self.listing,
            self.due,
            self.instances,
            self.advance.nudge,
            self.deployments.id,
            self.clock,
            self.remaining,
            Pace(s.share_list_from, s.instance_poll_interval, s.list_ttl, s.novita_rate_limit),
            timedelta(seconds=s.list_lag_seconds),
        )

    @cached_property
    def orphans(self) -> Orphans:
        return Orphans(self.table, self.new_event_id)

    @cached_property
    def sweep(self) -> "Sweep":
        from functions.shared.sweep import Sweep

        return Sweep(
            self.due,
            self.queues,
            self.advance,
            self.clock,
            timedelta(seconds=self.settings.sweep_grace_seconds),
            timedelta(seconds=self.settings.resend_seconds),
            self.remaining,
        )

    @cached_property
    def compare(self) -> "Compare":
        from functions.shared.compare import SPARE_SECONDS, Compare
        from functions.shared.put_right import PutRight

        s = self.settings
        put_right = PutRight(
            self.instances,
            self.orphans,
            self.novita,
            self.advance,
            self.deployments.id,
            self.policy,
            self.clock,
            lambda: self.remaining() - SPARE_SECONDS,
            s.orphan_policy == "delete",
            timedelta(seconds=s.orphan_age),
        )
        return Compare(
            self.instances,
            self.orphans,
            self.novita,
            put_right,
            self.deployments.id,
            self.policy,
            self.clock,
            self.remaining,
        )

    def new_event_id(self) -> str:
        return f"evt_{ulid(self.clock())}"

    @cached_property
    def webhook_waits(self) -> tuple[float, ...]:
        return read_waits(self.settings.webhook_waits)

    def webhook_masters(self) -> list[bytes]:
        """The master secrets to sign with: the current one, and during a rotation the one before."""
        kept = json.loads(self.secrets.read(self.settings.webhook_secret_id))
        return [read_master(kept[name]) for name in ("current", "previous") if kept.get(name)]

    @contextmanager
    def hurried(self, seconds: float) -> Iterator[None]:
        """What is done within takes no longer than that, however long its function may."""
        whole, until = self.time_left, self.clock() + timedelta(seconds=seconds)
        self.time_left = lambda: min(whole(), (until - self.clock()).total_seconds())
        try:
            yield
        finally:
            self.time_left = whole

    def remaining(self) -> float:
        return self.time_left()


_current: Wiring | None = None


def wiring() -> Wiring:
    """The process's wiring, built at the first event: a bad setting stops the function and is named."""
    global _current
    if _current is None:
        _current = Wiring(Settings.read(os.environ))
        logger.setLevel(_current.settings.log_level)
    return _current


def use(other: Wiring | None) -> None:
    """Put another wiring in its place (tests), or none so that the environment is read again."""
    global _current
    _current = other
