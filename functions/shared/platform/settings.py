"""Every environment variable the functions read: name, type, unit, default, bounds."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from functions.shared.domain.delivery.targets import networks
from functions.shared.domain.delivery.webhooks import read_waits
from functions.shared.domain.errors import BadSettings
from functions.shared.domain.instance.health import BOUNDS, HealthCheck
from functions.shared.domain.instance.limits import LEAST_IDLE, read_duration

# Who reads a setting: functions, by the names of their folders.
LOOKS = "create monitor"  # whose steps ask Novita about a machine
QUEUED = f"{LOOKS} startup webhook"  # who retries a message
SWEEP = "api reconcile"
NOVITA = f"{LOOKS} {SWEEP}"  # who calls it
STEPS = f"{NOVITA} startup"  # who takes steps, or sends messages for them
RULES = f"{STEPS} dead_letters"  # who decides about an instance
_MOST_USD = 1_000_000


def _number(kind: type, default: float, low: float, high: float, unit: str, about: str, by: str) -> Any:
    def parse(given: str) -> float:
        value: float = kind(given)
        if not low <= value <= high:  # NaN fails this too
            # The earlier system counted in milliseconds: 30000 for half a minute.
            meant = unit == "seconds" and value > high and value % 1000 == 0 and low <= value / 1000 <= high
            hint = f"; it looks like milliseconds, and {value / 1000:g} seconds may be meant" if meant else ""
            raise ValueError(f"must be between {low} and {high}{hint}")
        return value

    return text(default, about, by, parse, f"{low} to {high}", unit)


def seconds(default: float, low: float, high: float, about: str, by: str) -> Any:
    return _number(float, default, low, high, "seconds", about, by)


def count(default: int, low: int, high: int, about: str, by: str) -> Any:
    return _number(int, default, low, high, "", about, by)


def _health_check(name: str, unit: str, about: str) -> Any:
    """The default of a check whose request does not say, within the bounds of one that does."""
    low, high = BOUNDS[name]
    return _number(int, getattr(HealthCheck(), name), low, high, unit, about, "api")


def text(default: Any, about: str, by: str, parse: Any = str, bounds: str = "", unit: str = "") -> Any:
    metadata = {"parse": parse, "about": about, "unit": unit, "bounds": bounds, "by": by}
    return field(default=MISSING if default is None else default, metadata=metadata)


def choice(default: str, options: tuple[str, ...], about: str, by: str) -> Any:
    def parse(given: str) -> str:
        if given not in options:
            raise ValueError(f"must be one of {', '.join(options)}")
        return given

    return text(default, about, by, parse, " or ".join(options))


def _address(given: str) -> str:
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http or https address")
    return given.rstrip("/")


def _networks(given: str) -> str:
    networks(given)
    return given


def _waits(given: str) -> str:
    read_waits(given)
    return given


def _perhaps_usd(given: str) -> str:
    try:
        usd = Decimal(given or "1")
    except InvalidOperation:
        raise ValueError("must be an amount in USD, like 12.50") from None
    if not usd.is_finite() or not 0 < usd <= _MOST_USD:
        raise ValueError(f"must be above 0 and at most {_MOST_USD}")
    return given


def _perhaps_duration(given: str) -> str:
    if given:
        read_duration(given)
    return given


def _perhaps_idle_duration(given: str) -> str:
    if given and read_duration(given) < LEAST_IDLE:
        raise ValueError("must be at least five minutes")
    return given


def _duration(about: str, parse: Any = _perhaps_duration) -> Any:
    """Of a limit; none unless it is set."""
    return text("", about, "api", parse, "like 90m, 8h, 3d")


def _named(given: str) -> str:
    if not given.strip():
        raise ValueError("must not be empty")
    return given.strip()


class _OfOneFunction:
    function = "all"

    if not TYPE_CHECKING:  # a name that is nobody's is found by the type checker

        def __getattr__(self, name: str) -> Any:
            raise BadSettings([f"{name.upper()} is not among the settings that {self.function} declares"])


@dataclass(frozen=True, kw_only=True, slots=True)  # slots: what was not read is not there, default or not
class Settings(_OfOneFunction):
    """Read once when a function starts, and only its own; a bad value stops it and is named.

    The attribute `instance_poll_interval` is the variable INSTANCE_POLL_INTERVAL.
    """

    # Set by the stack.
    table_name: str = text(None, "The table", "all", _named)
    topic_arn: str = text(None, "The topic that events are published to", "announce", _named)
    create_queue_url: str = text(None, "Queue of purchases", RULES, _address)
    monitor_queue_url: str = text(None, "Queue of looks at machines and of actions", RULES, _address)
    startup_queue_url: str = text(None, "Queue of health checks", RULES, _address)
    webhook_queue_url: str = text(
        None, "Queue of deliveries", "api webhook reconcile announce dead_letters", _address
    )
    dead_letter_queue_url: str = text(None, "Queue of dead letters", f"{QUEUED} {SWEEP}", _address)
    novita_secret_id: str = text(None, "Secret that holds the Novita key", NOVITA, _named)
    webhook_secret_id: str = text(None, "Secret that holds the master webhook secrets", "api webhook", _named)

    service_name: str = text(
        "ostler", "This deployment in logs and metrics; the stage sets it", "all", _named
    )

    # What people set.
    novita_api_base_url: str = text(
        "https://api.novita.ai/gpu-instance/openapi/v1", "Novita's API", NOVITA, _address, "http(s) address"
    )
    default_region: str = text("CN-HK-01", "Region tried first if a request names none", "api create", _named)
    region_priority: str = text("AS-SGP-02,CN-HK-01,AS-IN-01", "Regions tried next, in order", "api create")
    instance_poll_interval: float = seconds(
        30, 0.05, 900, "Between two steps of an instance whose machine is on its way", RULES
    )
    look_interval: float = seconds(
        2,
        0.05,
        900,
        "Between two looks, in the meantime, at all that boot; more where the rate limit wants it. "
        "As long as INSTANCE_POLL_INTERVAL: no looks in the meantime",
        LOOKS,
    )
    purchase_max_wait: float = seconds(3600, 1, 86400, "From create to bought, then it fails", RULES)
    boot_max_wait: float = seconds(1200, 1, 86400, "From bought or started to running, then it fails", RULES)
    settle_seconds: float = seconds(
        120, 0.1, 3600, "How long an unclear purchase or a vanished machine may show up late", RULES
    )
    gone_confirm_seconds: float = seconds(
        10, 0.05, 600, "At least this long between two not-founds that mean gone", RULES
    )
    vanished_after: float = seconds(
        86400,
        1,
        2592000,
        "How long a missing machine is looked for until it is given up",
        RULES,
    )
    expiry_notice: float = seconds(
        600, 0, 604800, "How long before a limit ends or stops an instance it is told", RULES
    )
    default_stop_after: str = _duration("The stopAfter of a request that names no time to stop")
    default_delete_after: str = _duration("The deleteAfter of a request that names no time to delete")
    default_idle_stop_after: str = _duration(
        "The idleStopAfter of a request that does not say", _perhaps_idle_duration
    )
    default_delete_after_stopped: str = _duration("The deleteAfterStopped of a request that does not say")
    max_stop_after: str = _duration("The longest that a start may run; holds without a limit, too")
    max_lifetime: str = _duration("The longest from first running to its end; holds without a limit, too")
    max_idle_stop_after: str = _duration(
        "The longest that anything may run unused; holds without a limit, too", _perhaps_idle_duration
    )
    max_delete_after_stopped: str = _duration(
        "The longest that anything may be stopped; holds without a limit, too"
    )
    purchase_lease_seconds: float = seconds(
        180, 0.5, 3600, "How long a purchase may be under way; outlives the function", "create"
    )
    sweep_grace_seconds: float = seconds(15, 0, 900, "How late a step may be before it is sent again", SWEEP)
    resend_seconds: float = seconds(
        60, 0.5, 900, "How long the sweep waits for its message before it sends another", SWEEP
    )
    max_retry_attempts: int = count(3, 0, 10, "Retries before a dead letter", f"{QUEUED} dead_letters")
    retry_base_seconds: float = seconds(5, 0, 300, "First wait after a failure; grows eightfold", QUEUED)
    retry_cap_seconds: float = seconds(300, 0, 43200, "Longest wait after a failure", QUEUED)
    novita_connect_timeout: float = seconds(3, 0.05, 30, "To reach Novita", NOVITA)
    novita_read_timeout: float = seconds(10, 0.05, 60, "For Novita to answer a read or an action", NOVITA)
    novita_create_timeout: float = seconds(30, 0.05, 60, "For Novita to answer a purchase", NOVITA)
    novita_rate_limit: int = count(100, 1, 10000, "Calls to Novita in 60 s, over all functions", NOVITA)
    lookup_seconds: float = seconds(2, 1.5, 20, "What POST and GET may spend on asking Novita", "api")
    breaker_failure_threshold: int = count(5, 1, 1000, "Failures in the window that open a circuit", NOVITA)
    breaker_window: float = seconds(30, 0.1, 3600, "The window in which failures are counted", NOVITA)
    breaker_recovery_timeout: float = seconds(60, 0.1, 3600, "How long an open circuit refuses calls", NOVITA)
    breaker_success_threshold: int = count(2, 1, 100, "Successful probes that close a circuit", NOVITA)
    breaker_cache_seconds: float = seconds(5, 0, 60, "How long a process keeps its copy of a circuit", NOVITA)
    products_ttl: float = seconds(300, 0, 86400, "How long products are cached", "api create")
    templates_ttl: float = seconds(600, 0, 86400, "How long templates are cached", "api create")
    details_ttl: float = seconds(30, 0, 3600, "How long an instance's details count as fresh", "api")
    list_ttl: float = seconds(5, 0.05, 60, "How old Novita's list may be to look machines up", f"api {LOOKS}")
    list_lag_seconds: float = seconds(
        10, 0, 600, "How far Novita's list may lag behind what was done to a machine", LOOKS
    )
    share_list_from: int = count(4, 1, 100000, "So many instances due at once share one list read", LOOKS)
    merged_ttl: float = seconds(30, 0, 3600, "How long the merged list is cached", "api")
    total_ttl: float = seconds(30, 0, 3600, "How old the total of a long listing may be", "api")
    balance_ttl: float = seconds(300, 0, 86400, "How old the account's balance may be when shown", "api")
    silence_seconds: float = seconds(
        5, 0, 300, "How long a read that Novita did not answer keeps others from asking", "api"
    )
    offer_max_age: float = seconds(30, 0, 300, "How old offers may be when one is bought", "create")
    max_hourly_usd: str = text(
        "", "Cap on what all instances together may cost in an hour", RULES, _perhaps_usd, "like 12.50", "USD"
    )
    webhook_timeout: float = seconds(15, 0.05, 30, "For a webhook receiver to answer", "webhook")
    webhook_waits: str = text(
        "5,300,1800,7200,18000,36000,50400,72000,86400", "Seconds from attempt to attempt", "webhook", _waits
    )
    webhook_per_receiver: int = count(
        3, 1, 1000, "Attempts at once to a receiver that is slower than a second, or not known", "webhook"
    )
    health_check_timeout_ms: int = _health_check(
        "timeout_ms", "ms", "For an application to answer, if the request does not say; 15 s at most count"
    )
    health_check_retry_attempts: int = _health_check(
        "retry_attempts", "", "Quick rounds after the first, if the request does not say"
    )
    health_check_retry_delay_ms: int = _health_check(
        "retry_delay_ms", "ms", "The first wait between quick rounds, if the request does not say"
    )
    health_check_max_wait_time_ms: int = _health_check(
        "max_wait_time_ms", "ms", "From running to ready, if the request does not say"
    )
    max_concurrent_jobs: int = count(
        10, 2, 1000, "Workers of each queue, of which slow ones hold half at most", "startup webhook"
    )
    outbound_allow_cidrs: str = text(
        "", "Non-public ranges that webhooks and health checks may reach", "api startup webhook", _networks
    )
    orphan_policy: str = choice(
        "announce", ("announce", "delete"), "What happens to a machine of ours without a record", SWEEP
    )
    sweep_max_repairs: int = count(
        20, 1, 1000, "Machines of one kind that a sweep deletes or asks Novita about at most", SWEEP
    )
    sweep_at_once: int = count(
        2500, 1, 10000, "Instances that one sweep compares with Novita; several go through more", SWEEP
    )
    orphan_age: float = seconds(3600, 0, 2592000, "Orphans known for less than this are not deleted", SWEEP)
    auth: str = choice(
        "keys", ("keys", "iam", "jwt"), "Who vouches for callers; the deploy option auth sets it", "api"
    )
    origin_secret_id: str = text(
        "", "Secret that only CloudFront knows; the deploy option edge sets it", "api"
    )
    jwt_scope_prefix: str = text(
        "ostler", "With jwt, scopes are read, write, admin or these after this name and / or :", "api", _named
    )
    requests_per_caller: int = count(
        1200, 1, 1000000, "Requests of one caller in 60 s, in each process of the API", "api"
    )
    requests_per_stranger: int = count(
        60, 1, 1000000, "Requests without a valid key from one address in 60 s, in each process", "api"
    )
    key_cache_seconds: float = seconds(30, 0, 30, "How long a process trusts an API key it looked up", "api")
    secret_cache_seconds: float = seconds(
        300, 0, 3600, "How long a process trusts a secret it has read", f"{NOVITA} webhook"
    )
    metrics: str = choice(
        "all", ("all", "alarms", "off"), "Which metrics are written; the stack's `watch` sets it", "all"
    )
    log_level: str = choice("INFO", ("DEBUG", "INFO", "WARNING", "ERROR"), "What is logged", "all")

    @classmethod
    def read(cls, environment: Mapping[str, str], function: str = "all") -> "Settings":
        settings, problems = object.__new__(cls), list[str]()
        object.__setattr__(settings, "function", function)
        for item in fields(cls):
            if "all" not in (function, item.metadata["by"]) and function not in item.metadata["by"].split():
                continue
            name = item.name.upper()
            given = environment.get(name)
            if given is None and item.default is MISSING:
                problems.append(f"{name} is missing: {item.metadata['about'].lower()}")
            try:
                value = item.default if given is None else item.metadata["parse"](given)
                object.__setattr__(settings, item.name, value)
            except ValueError as error:
                problems.append(f"{name} is {given!r}: {error}")
        if problems:
            raise BadSettings(problems)
        return settings
