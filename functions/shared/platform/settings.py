"""Every environment variable the functions read: name, type, unit, default, bounds."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

from functions.shared.domain.delivery.webhooks import read_waits
from functions.shared.domain.errors import BadSettings


def _number(kind: type, default: float, low: float, high: float, unit: str, about: str) -> Any:
    def parse(text: str) -> float:
        value: float = kind(text)
        if not low <= value <= high:  # NaN fails this too
            raise ValueError(f"must be between {low} and {high}")
        return value

    return field(
        default=default, metadata={"parse": parse, "about": about, "unit": unit, "bounds": f"{low} to {high}"}
    )


def seconds(default: float, low: float, high: float, about: str) -> Any:
    return _number(float, default, low, high, "seconds", about)


def count(default: int, low: int, high: int, about: str) -> Any:
    return _number(int, default, low, high, "", about)


def text(default: str | None, about: str, parse: Callable[[str], Any] = str, bounds: str = "") -> Any:
    metadata = {"parse": parse, "about": about, "unit": "", "bounds": bounds}
    return field(default=default, metadata=metadata) if default is not None else field(metadata=metadata)


def choice(default: str, options: tuple[str, ...], about: str) -> Any:
    def parse(given: str) -> str:
        if given not in options:
            raise ValueError(f"must be one of {', '.join(options)}")
        return given

    return text(default, about, parse, " or ".join(options))


def _address(given: str) -> str:
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http or https address")
    return given.rstrip("/")


def _networks(given: str) -> str:
    for part in filter(None, (p.strip() for p in given.split(","))):
        ip_network(part)
    return given


def _waits(given: str) -> str:
    read_waits(given)
    return given


def _named(given: str) -> str:
    if not given.strip():
        raise ValueError("must not be empty")
    return given.strip()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Read once when a function starts; a bad value stops it and is named.

    The attribute `instance_poll_interval` is the variable INSTANCE_POLL_INTERVAL.
    """

    # Set by the stack.
    table_name: str = text(None, "The table", _named)
    topic_arn: str = text(None, "The topic that events are published to", _named)
    create_queue_url: str = text(None, "Queue of purchases", _address)
    monitor_queue_url: str = text(None, "Queue of looks at machines", _address)
    startup_queue_url: str = text(None, "Queue of starts and health checks", _address)
    webhook_queue_url: str = text(None, "Queue of webhook attempts", _address)
    create_dead_queue_url: str = text(None, "Purchases that failed for the last time", _address)
    monitor_dead_queue_url: str = text(None, "Looks that failed for the last time", _address)
    startup_dead_queue_url: str = text(None, "Starts and checks that failed for the last time", _address)
    webhook_dead_queue_url: str = text(None, "Webhook attempts that failed for the last time", _address)
    novita_secret_id: str = text(None, "Secret that holds the Novita key", _named)
    webhook_secret_id: str = text(None, "Secret that holds the master webhook secrets", _named)

    # What people set.
    novita_api_base_url: str = text(
        "https://api.novita.ai/gpu-instance/openapi/v1", "Novita's API", _address, "http or https address"
    )
    default_region: str = text("CN-HK-01", "Region tried first when a request names none", _named)
    region_priority: str = text("AS-SGP-02,CN-HK-01,AS-IN-01", "Regions tried after that, in order")
    instance_poll_interval: float = seconds(30, 0.05, 900, "Between two looks at a machine on its way")
    purchase_max_wait: float = seconds(3600, 1, 86400, "From create to bought, then the instance fails")
    boot_max_wait: float = seconds(1200, 1, 86400, "From bought or started to running, then it fails")
    settle_seconds: float = seconds(
        120, 0.1, 3600, "How long an unclear purchase or a vanished machine may show up late"
    )
    gone_confirm_seconds: float = seconds(
        10, 0.05, 600, "At least this long between two not-founds that mean gone"
    )
    purchase_lease_seconds: float = seconds(
        180, 0.5, 3600, "How long a purchase may be under way; outlives the function"
    )
    sweep_grace_seconds: float = seconds(
        15, 0, 900, "How late a step may be before the sweep sends another message"
    )
    resend_seconds: float = seconds(
        60, 0.5, 900, "How long the sweep waits for a message it sent before it sends another"
    )
    max_retry_attempts: int = count(3, 0, 10, "Retries of a failed message before it is a dead letter")
    retry_base_seconds: float = seconds(5, 0, 300, "First wait after a failure; grows eightfold")
    retry_cap_seconds: float = seconds(300, 0, 43200, "Longest wait after a failure")
    novita_connect_timeout: float = seconds(3, 0.05, 30, "To reach Novita")
    novita_read_timeout: float = seconds(10, 0.05, 60, "For Novita to answer a read or an action")
    novita_create_timeout: float = seconds(30, 0.05, 60, "For Novita to answer a purchase")
    novita_rate_limit: int = count(100, 1, 10000, "Calls to Novita in 60 s, over all functions")
    lookup_seconds: float = seconds(2, 1.5, 20, "What POST and GET may spend on asking Novita")
    breaker_failure_threshold: int = count(5, 1, 1000, "Failed calls within the window that open a circuit")
    breaker_window: float = seconds(30, 0.1, 3600, "The window in which failures are counted")
    breaker_recovery_timeout: float = seconds(
        60, 0.1, 3600, "How long an open circuit refuses before a probe"
    )
    breaker_success_threshold: int = count(2, 1, 100, "Successful probes that close a circuit")
    breaker_cache_seconds: float = seconds(
        5, 0, 60, "How long a process trusts its copy of a circuit's state"
    )
    products_ttl: float = seconds(300, 0, 86400, "How long products are cached")
    templates_ttl: float = seconds(600, 0, 86400, "How long templates are cached")
    details_ttl: float = seconds(30, 0, 3600, "How long an instance's details count as fresh")
    list_ttl: float = seconds(5, 0.05, 60, "How old Novita's list may be when machines are looked up in it")
    list_lag_seconds: float = seconds(
        10, 0, 600, "How far Novita's list may lag behind what was done to a machine"
    )
    share_list_from: int = count(6, 1, 100000, "So many instances due at once share one read of the list")
    merged_ttl: float = seconds(30, 0, 3600, "How long the merged list is cached")
    total_ttl: float = seconds(30, 0, 3600, "How old the total of a long listing may be")
    silence_seconds: float = seconds(
        5, 0, 300, "How long a read that Novita did not answer keeps others from asking"
    )
    offer_max_age: float = seconds(30, 0, 300, "How old offers may be when one is bought")
    webhook_timeout: float = seconds(15, 0.05, 30, "For a webhook receiver to answer")
    webhook_waits: str = text(
        "5,300,1800,7200,18000,36000,50400,72000,86400", "Seconds between webhook attempts, in order", _waits
    )
    webhook_per_receiver: int = count(
        3, 1, 1000, "Webhook attempts under way to one receiver at once; keep it below MAX_CONCURRENT_JOBS"
    )
    outbound_allow_cidrs: str = text(
        "", "Non-public ranges that webhooks and health checks may reach", _networks
    )
    orphan_policy: str = choice(
        "announce", ("announce", "delete"), "What happens to a machine of ours without a record"
    )
    orphan_age: float = seconds(3600, 0, 2592000, "How long an orphan is known before it may be deleted")
    auth: str = choice(
        "keys",
        ("keys", "iam", "jwt"),
        "Who vouches for callers; set by the deploy option auth, never by hand",
    )
    jwt_scope_prefix: str = text(
        "ostler", "With auth=jwt, scopes are read, write, admin, or these after this name and / or :", _named
    )
    key_cache_seconds: float = seconds(30, 0, 30, "How long a process trusts an API key it has looked up")
    secret_cache_seconds: float = seconds(300, 0, 3600, "How long a process trusts a secret it has read")
    log_level: str = choice("INFO", ("DEBUG", "INFO", "WARNING", "ERROR"), "What is logged")

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> "Settings":
        values: dict[str, Any] = {}
        problems: list[str] = []
        for item in fields(cls):
            name = item.name.upper()
            given = environment.get(name)
            if given is None:
                if item.default is MISSING:
                    problems.append(f"{name} is missing: {item.metadata['about'].lower()}")
                continue
            try:
                values[item.name] = item.metadata["parse"](given)
            except ValueError as error:
                problems.append(f"{name} is {given!r}: {error}")
        if problems:
            raise BadSettings(problems)
        return cls(**values)
