"""Request bodies and parameters: fields, bounds and defaults, as the API documents them."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler.openapi.params import Header, Path, Query
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from functions.api.requests import wired
from functions.shared.domain.delivery.targets import networks, parse_target
from functions.shared.domain.instance.commands import ReclaimChange, Update
from functions.shared.domain.instance.health import BOUNDS, HealthCheck
from functions.shared.domain.instance.limits import (
    DURATION,
    LEAST_IDLE,
    LIMIT_NAMES,
    LONGEST,
    LimitChange,
    LimitRules,
    read_duration,
)
from functions.shared.domain.instance.reclaim import OnReclaim, ReclaimAction, require_reclaimable
from functions.shared.domain.instance.record import NetworkVolume, Spec
from functions.shared.domain.market import MAX_ENV_KEY, MAX_ENV_VALUE, MAX_ENVS
from functions.shared.domain.money.budgets import Budget, BudgetAction


def like(*examples: str, **shape: str) -> dict[str, Any]:
    """Shown to whoever fills it in."""
    return {"json_schema_extra": {**shape, "examples": list(examples)}}


def _shaped(pattern: str, *examples: str) -> dict[str, Any]:
    """What all of them look like, for whoever makes some up: one that does not is simply not found."""
    return like(*examples, pattern=pattern)


_ULID = "[0-9A-HJKMNP-TV-Z]{26}"
INSTANCE_ID = _shaped(f"^inst_{_ULID}$", "inst_01JGFJJZ00ABCDEFGHJKMNPQRS")
OPERATION_ID = _shaped(f"^op_{_ULID}$", "op_01JGFJJZ00ABCDEFGHJKMNPQRS")
DELIVERY_ID = _shaped(rf"^dlv_{_ULID}_[0-9]{{6}}(_op)?$", "dlv_01JGFJJZ00ABCDEFGHJKMNPQRS_000001")
_TEXT_ID = {"minLength": 1, "maxLength": 255, "pattern": r"^[\x21-\x7e]+$"}
TEMPLATE_ID: dict[str, Any] = {**_TEXT_ID, "examples": ["107672"]}
InstanceId = Annotated[str, Path(description="inst_ and a ULID", max_length=64, **INSTANCE_ID)]


def _cursor(longest: int) -> Any:
    return Query(
        min_length=1,
        max_length=longest,
        description="`nextCursor` of the page before, of the same list",
        **_shaped(f"^[A-Za-z0-9_-]{{24,{longest}}}$"),
    )


Cursor = Annotated[str | None, _cursor(500)]
GroupCursor = Annotated[str | None, _cursor(2000)]  # has the name of a group in it, as a tag's value
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="The same key and body get the first answer again, for 24 hours",
    ),
]


# Controls, blanks other than the space, what turns or joins letters, what is for private use: none of it is
# printable. As patterns, since these are what /openapi.json can tell.
_UNSEEN = (
    r"\x00-\x1f\x7f-\xa0\xad\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000"
    r"\ue000-\uf8ff\ufeff\ufff0-\uffff"
)
PRINTABLE = rf"^[^{_UNSEEN}]*$"
NOT_BLANK = rf"^[^{_UNSEEN}]*[^ {_UNSEEN}][^{_UNSEEN}]*$"


def _printable(value: str) -> str:
    if not re.fullmatch(PRINTABLE, value):
        raise ValueError("must consist of printable characters")
    return value


def _visible(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return _printable(value)


def _named(most: int, *examples: str) -> Any:
    more: dict[str, Any] = {"examples": list(examples)} if examples else {}
    return Field(min_length=1, max_length=most, json_schema_extra={"pattern": NOT_BLANK, **more})


_LARGEST_ID = 10**15  # beyond it a number of JSON may not be what was meant


def _template_id(value: Any) -> str:
    """A string, or a positive whole number for the sake of old callers."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LARGEST_ID:
        return str(value)
    if isinstance(value, str) and re.fullmatch(r"[\x21-\x7e]{1,255}", value):
        return value
    raise ValueError("must be a string of 1 to 255 characters without spaces, or a positive whole number")


def _web_address(value: str) -> str:
    """An address that is plainly not public is refused now, before anything is sent there."""
    parse_target(value, networks(wired().settings.outbound_allow_cidrs))
    return value


def _moment(value: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        if moment and moment.tzinfo:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError("must be a time with its offset, like 2026-01-31T12:00:00Z")


_FAST_CLOCK = timedelta(seconds=5)  # a caller's may be ahead of ours


def _past(value: datetime) -> datetime:
    now = wired().clock()
    if value > now + _FAST_CLOCK:
        raise ValueError("must not be in the future; leave it out for now")
    return min(value, now)


_LONGEST_WAIT_MS = 86_400_000
MOST_ENV_BYTES = 300_000  # an item of the table has 400 kB at most

Name = Annotated[str, _named(100, "my-gpu"), AfterValidator(_visible)]
ProductName = Annotated[str, _named(200, "RTX 4090 24GB"), AfterValidator(_visible)]
Region = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,63}$", examples=["CN-HK-01"])]
WEB_ADDRESS: dict[str, Any] = {
    "format": "uri",
    "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://",
    "examples": ["https://example.com/hook"],
}
WebAddress = Annotated[
    str, Field(max_length=2048, json_schema_extra=WEB_ADDRESS), AfterValidator(_web_address)
]
TemplateId = Annotated[
    str,
    BeforeValidator(_template_id),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", **_TEXT_ID},
                {"type": "integer", "minimum": 1, "maximum": _LARGEST_ID},
            ],
            "examples": ["107672"],
        }
    ),
]
TagKey = Annotated[str, _named(128), AfterValidator(_visible)]
TagValue = Annotated[
    str, Field(max_length=256, json_schema_extra={"pattern": PRINTABLE}), AfterValidator(_printable)
]


def _tags_schema(most: int, *values: dict[str, Any]) -> WithJsonSchema:
    text = {"type": "string", "maxLength": 256, "pattern": PRINTABLE}
    return WithJsonSchema(
        {
            "type": "object",
            "maxProperties": most,
            "propertyNames": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": NOT_BLANK},
            "additionalProperties": {"anyOf": [text, *values]} if values else text,
        }
    )


_MOST_TAGS = 20
_MOST_TAG_CHANGES = 40
Tags = Annotated[dict[TagKey, TagValue], Field(max_length=_MOST_TAGS), _tags_schema(_MOST_TAGS)]
TagChanges = Annotated[
    dict[TagKey, TagValue | None],
    Field(max_length=_MOST_TAG_CHANGES),
    _tags_schema(_MOST_TAG_CHANGES, {"type": "null"}),
]
TAG = r"^[^:][^:]*:"  # a name, and a value that may be empty
Moment = Annotated[
    datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})
]
PastMoment = Annotated[Moment, AfterValidator(_past)]


def _day(value: Any) -> date:
    try:
        if isinstance(value, str) and re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise ValueError("must be a day, like 2026-01-31")


Day = Annotated[date, BeforeValidator(_day), WithJsonSchema({"type": "string", "format": "date"})]


def _idle_duration(value: timedelta) -> timedelta:
    if value < LEAST_IDLE:
        raise ValueError("must be at least five minutes")
    return value


def _within_a_day(value: timedelta) -> timedelta:
    if value > timedelta(days=1):
        raise ValueError("must be at most a day")
    return value


def _as_duration(pattern: str, least: float, most: timedelta = LONGEST) -> WithJsonSchema:
    number = {"type": "number", "minimum": least, "maximum": most.total_seconds()}
    text = {"type": "string", "pattern": f"^({pattern})$"}
    return WithJsonSchema({"anyOf": [text, number], "examples": ["90m", "8h", "1d", 5400]})


_IDLE_DURATION = "[3-9][0-9]{2}s|[1-9][0-9]{3,8}s|[5-9]m|[1-9][0-9]{1,6}m|[1-9][0-9]{0,4}h|[1-9][0-9]{0,3}d"
Duration = Annotated[timedelta, BeforeValidator(read_duration), _as_duration(DURATION, 1)]
_DAY_DURATION = (
    "[1-9][0-9]{0,3}s|[1-7][0-9]{4}s|8[0-5][0-9]{3}s|86[0-3][0-9]{2}s|86400s"
    "|[1-9][0-9]{0,2}m|1[0-3][0-9]{2}m|14[0-3][0-9]m|1440m|[1-9]h|1[0-9]h|2[0-4]h|1d"
)
DayDuration = Annotated[
    timedelta,
    BeforeValidator(read_duration),
    AfterValidator(_within_a_day),
    _as_duration(_DAY_DURATION, 1, timedelta(days=1)),
]
IdleDuration = Annotated[
    timedelta,
    BeforeValidator(read_duration),
    AfterValidator(_idle_duration),
    _as_duration(_IDLE_DURATION, LEAST_IDLE.total_seconds()),
]


class Body(BaseModel):
    """Unknown fields are errors, and nothing is guessed: "2" is no number, 1 is no boolean.

    A validator is made when it is first used: no request needs all of them.
    """

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, defer_build=True)


def _example(**fields: Any) -> ConfigDict:
    """One that a local copy answers with success, after those above it."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


def _bounded(name: str, default: int) -> Any:
    low, high = BOUNDS[name]
    return Field(default=default, ge=low, le=high)


class HealthCheckBody(Body):
    timeoutMs: int = _bounded("timeout_ms", 10_000)
    retryAttempts: int = _bounded("retry_attempts", 3)
    retryDelayMs: int = _bounded("retry_delay_ms", 2_000)
    maxWaitTimeMs: int = _bounded("max_wait_time_ms", 300_000)
    targetPort: int | None = Field(default=None, ge=1, le=65_535)
    path: str = Field(default="/", max_length=1024, pattern=r"^/[\x21-\x7e]*$")

    def config(self, defaults: HealthCheck) -> HealthCheck:
        """What the request does not say is the deployment's to say."""
        said = {_CHECK_FIELDS[name]: getattr(self, name) for name in self.model_fields_set}
        return replace(defaults, **said)


_CHECK_FIELDS = {
    "timeoutMs": "timeout_ms",
    "retryAttempts": "retry_attempts",
    "retryDelayMs": "retry_delay_ms",
    "maxWaitTimeMs": "max_wait_time_ms",
    "targetPort": "target_port",
    "path": "path",
}


class EnvBody(Body):
    key: str = Field(
        min_length=1, max_length=MAX_ENV_KEY, pattern=r"^[^\s=\x00-\x1f\x7f]+$", examples=["MODE"]
    )
    value: str = Field(max_length=MAX_ENV_VALUE, pattern=r"^[^\x00]*$", examples=["serve"])


class NetworkVolumeBody(Body):
    id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,128}$", description="Novita's `storageId`")
    mountPath: str = Field(
        default="/network", max_length=255, pattern=r"^/[\x21-\x7e]+$", description="In the machine"
    )


def _distinct(what: str, names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise ValueError(f"{what} twice")


def _variables(given: list[EnvBody]) -> list[EnvBody]:
    _distinct("a variable is named", [one.key for one in given])
    if sum(len(f"{one.key}{one.value}".encode("utf-8", "surrogatepass")) for one in given) > MOST_ENV_BYTES:
        raise ValueError(f"all together are larger than {MOST_ENV_BYTES} bytes")
    return given


def _volumes(given: list[NetworkVolumeBody]) -> list[NetworkVolumeBody]:
    _distinct("a volume is named", [one.id for one in given])
    _distinct("a path is mounted", [one.mountPath for one in given])
    return given


class LimitsBody(Body):
    stopAfter: Duration | None = Field(default=None, description="From the first `running` of each start")
    deleteAfter: Duration | None = Field(default=None, description="From the first `running` ever")
    idleStopAfter: IdleDuration | None = Field(
        default=None, description="Without use for so long; five minutes at least"
    )
    deleteAfterStopped: Duration | None = Field(default=None, description="In `stopped` or `exited`")
    stopAt: Moment | None = Field(
        default=None, description="Spent if it passes while it is off; acts when it is up if it passes before"
    )
    deleteAt: Moment | None = None
    idleGpuBelow: float | None = Field(
        default=None,
        ge=0.01,
        le=100,
        description="Percent: idle only if each GPU is below, by Novita's metrics",
    )

    def asked(self) -> dict[str, Any]:
        """By the names of the fields of `Limits`; null takes a limit away."""
        return {
            name: getattr(self, said) for name, said in LIMIT_NAMES.items() if said in self.model_fields_set
        }


_RECLAIM_WORDS = [one.value for one in ReclaimAction]


def _word_or_object(schema: dict[str, Any]) -> None:
    described = {"type": "object", **{name: schema.pop(name) for name in list(schema) if name != "title"}}
    schema["anyOf"] = [{"type": "string", "enum": _RECLAIM_WORDS}, described]


class OnReclaimBody(Body):
    """What is to be done when Novita takes a spot machine away: a word, or more."""

    model_config = ConfigDict(
        strict=True, extra="forbid", allow_inf_nan=False, json_schema_extra=_word_or_object
    )

    action: Literal["none", "restart", "replace"]
    window: DayDuration = Field(
        default=timedelta(hours=2),
        description="How long room is waited for; a day at most",
        json_schema_extra={"default": "2h"},
    )
    maxRecoveries: int = Field(default=5, ge=1, le=100, description="Within 24 hours")
    replaceAfter: Duration = Field(
        default=timedelta(minutes=10),
        description="Until then only starts are tried",
        json_schema_extra={"default": "10m"},
    )
    fallback: Literal["onDemand"] | None = Field(
        default=None, description="Where no spot machine is to be had within the cap, with replace"
    )

    @model_validator(mode="before")
    @classmethod
    def _word(cls, given: Any) -> Any:
        return {"action": given} if isinstance(given, str) else given

    def asked(self) -> OnReclaim | None:
        action = ReclaimAction(self.action)
        if action is ReclaimAction.NONE:
            return None
        return OnReclaim(action, self.window, self.maxRecoveries, self.replaceAfter, self.fallback or "")


class CreateBody(Body):
    model_config = _example(
        name="my-gpu", productName="RTX 4090 24GB", templateId="107672", tags={"team": "research"}
    )

    name: Name
    productName: ProductName
    templateId: TemplateId
    gpuNum: int = Field(default=1, ge=1, le=8)
    rootfsSize: int = Field(default=60, ge=10, le=1000, description="GB")
    region: Region | None = None
    regions: list[Region] | None = Field(
        default=None, min_length=1, max_length=20, description="Tried in this order"
    )
    webhookUrl: WebAddress | None = None
    billingMode: Literal["spot", "onDemand"] = "spot"
    maxPricePerGpuHour: float | None = Field(default=None, gt=0, le=10_000, description="USD")
    placement: Literal["priority", "cheapest"] = "priority"
    healthCheck: HealthCheckBody | None = None
    maxWaitTime: int | None = Field(
        default=None, ge=1_000, le=_LONGEST_WAIT_MS, description="Milliseconds from bought to running"
    )
    onFailure: Literal["delete", "keep"] = "delete"
    tags: Tags | None = None
    envs: Annotated[list[EnvBody], AfterValidator(_variables)] | None = Field(
        default=None,
        max_length=MAX_ENVS,
        description="Added to the template's; of the same name this one counts. Values are never shown again",
    )
    networkVolumes: Annotated[list[NetworkVolumeBody], AfterValidator(_volumes)] | None = Field(
        default=None,
        max_length=30,
        description="Novita's network storage, which outlives the machine; the region must be theirs",
    )
    limits: LimitsBody | None = None
    protected: bool = Field(default=False, description="Nobody deletes it until that is taken away")
    onReclaim: OnReclaimBody | None = None

    def asked_limits(self) -> dict[str, Any]:
        return self.limits.asked() if self.limits else {}

    def spec(self, check_defaults: Callable[[], HealthCheck]) -> Spec:
        cap = self.maxPricePerGpuHour
        on_reclaim = self.onReclaim.asked() if self.onReclaim else None
        require_reclaimable(on_reclaim, self.billingMode)
        return Spec(
            product_name=self.productName,
            template_id=self.templateId,
            gpu_num=self.gpuNum,
            rootfs_size=self.rootfsSize,
            region=self.region,
            regions=tuple(self.regions or ()),
            billing_mode=self.billingMode,
            max_price=None if cap is None else Decimal(str(cap)),
            placement=self.placement,
            boot_wait_seconds=None if self.maxWaitTime is None else self.maxWaitTime / 1000,
            keep_on_failure=self.onFailure == "keep",
            health_check=self.healthCheck.config(check_defaults()) if self.healthCheck else None,
            tags=tuple((self.tags or {}).items()),
            on_reclaim=on_reclaim,
            network_volumes=tuple(NetworkVolume(one.id, one.mountPath) for one in self.networkVolumes or ()),
            env_names=tuple(name for name, _ in self.variables()),
        )

    def variables(self) -> tuple[tuple[str, str], ...]:
        return tuple((one.key, one.value) for one in self.envs or ())


class QuoteBody(CreateBody):
    """What a create would buy: the same body, where only the product must be named."""

    model_config = _example(productName="RTX 4090 24GB", gpuNum=2, placement="cheapest")

    name: Name | None = None  # type: ignore[assignment]  # a quote needs no name
    templateId: TemplateId = ""


class RestartBody(Body):
    model_config = _example(targetPort=8188)

    healthCheckConfig: HealthCheckBody | None = None
    targetPort: int | None = Field(default=None, ge=1, le=65_535)
    webhookUrl: WebAddress | None = None

    def config(self, defaults: HealthCheck) -> HealthCheck:
        check = (self.healthCheckConfig or HealthCheckBody()).config(defaults)
        return check if self.targetPort is None else replace(check, target_port=self.targetPort)


class StartBody(RestartBody):
    model_config = _example(healthCheckConfig={"maxWaitTimeMs": 600_000}, targetPort=8188)

    limits: LimitsBody | None = Field(default=None, description="Changed by key; null takes one away")


class NamedBody(Body):
    model_config = _example(instanceName="my-gpu")

    instanceName: Name


class NamedStartBody(StartBody):
    model_config = _example(instanceName="my-gpu", targetPort=8188)

    instanceName: Name


class ImportBody(Body):
    model_config = _example(novitaInstanceId="8097f1658f3e6ad1", name="taken-over")

    novitaInstanceId: str = Field(pattern=r"^[A-Za-z0-9_-]{1,128}$")
    name: Name | None = None
    webhookUrl: WebAddress | None = None
    limits: LimitsBody | None = None
    onReclaim: OnReclaimBody | None = None


class UpdateBody(Body):
    """A JSON merge patch: what is not named stays, null takes away; tags and limits by key."""

    model_config = _example(limits={"stopAfter": "8h"}, tags={"team": "art"})

    name: Name = ""
    tags: TagChanges | None = None
    limits: LimitsBody | None = None
    webhookUrl: WebAddress | None = None
    protected: bool = False
    onReclaim: OnReclaimBody | None = None

    def update(self, rules: LimitRules) -> Update:
        said = self.model_fields_set
        names = {"name": "name", "webhookUrl": "webhook_url", "protected": "protected"}
        asked = self.limits.asked() if self.limits else {}
        return Update(
            {names[name]: getattr(self, name) for name in names if name in said},
            limits=LimitChange(asked, rules, only=self.limits is None) if "limits" in said else None,
            tags=(self.tags or {}) if "tags" in said else None,
            only_tags=self.tags is None,
            reclaim=ReclaimChange(self.onReclaim.asked() if self.onReclaim else None)
            if "onReclaim" in said
            else None,
        )


_MOST_USD = 999_999
_LEAST_USD = Decimal("0.0001")
_USD_TEXT = r"[1-9][0-9]{0,5}(\.[0-9]{1,4})?|0\.([1-9][0-9]{0,3}|0[1-9][0-9]{0,2}|00[1-9][0-9]{0,1}|000[1-9])"


def _usd(value: Any) -> Decimal:
    """As text, or as a number, which is taken to four decimals."""
    if isinstance(value, str) and re.fullmatch(_USD_TEXT, value):
        return Decimal(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and _LEAST_USD <= value <= _MOST_USD:
        return Decimal(str(value)).quantize(_LEAST_USD).normalize()
    raise ValueError('must be an amount in USD, like "12.50", below a million and with at most 4 decimals')


Usd = Annotated[
    Decimal,
    BeforeValidator(_usd),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": f"^({_USD_TEXT})$"},
                {"type": "number", "minimum": float(_LEAST_USD), "maximum": _MOST_USD},
            ],
            "examples": ["12.50"],
        }
    ),
]
BudgetName = Annotated[
    str,
    Path(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="Letters, digits, `.`, `_` and `-`",
        **like("research"),
    ),
]


class TagScopeBody(Body):
    name: TagKey
    value: TagValue


def _one_of_both(schema: dict[str, Any]) -> None:
    key, tag = (schema["properties"][name]["anyOf"][0] for name in ("key", "tag"))
    nothing = {"type": "null"}
    either = {"key": {"key": key, "tag": nothing}, "tag": {"key": nothing, "tag": tag}}
    for name in ("type", "properties", "additionalProperties"):
        del schema[name]
    schema["anyOf"] = [
        {"type": "object", "properties": shapes, "required": [name], "additionalProperties": False}
        for name, shapes in either.items()
    ]


class ScopeBody(Body):
    """One of both."""

    model_config = ConfigDict(
        strict=True, extra="forbid", allow_inf_nan=False, json_schema_extra=_one_of_both
    )

    key: Annotated[str, Field(min_length=1, max_length=300, description="The id of an API key")] | None = None
    tag: TagScopeBody | None = None

    @model_validator(mode="after")
    def _one(self) -> "ScopeBody":
        if (self.key is None) == (self.tag is None):
            raise ValueError("must have either `key` or `tag`")
        return self


class BudgetBody(Body):
    model_config = _example(limitUsd="500", period="month", scope={"tag": {"name": "team", "value": "art"}})

    limitUsd: Usd
    period: Literal["month", "day"]
    scope: Literal["all"] | ScopeBody = "all"
    thresholds: Annotated[
        list[Annotated[int, Field(ge=1, le=1000)]], Field(max_length=10, description="Percent of the limit")
    ] = [50, 80, 100]
    action: Literal["notify", "refuse", "stop"] = "notify"

    def budget(self, name: str) -> Budget:
        scope = None if isinstance(self.scope, str) else self.scope
        tag = scope.tag if scope else None
        return Budget(
            name,
            self.limitUsd,
            self.period,
            BudgetAction(self.action),
            tuple(sorted(set(self.thresholds))),
            scope.key if scope else None,
            (tag.name, tag.value) if tag else None,
        )


class StopBody(Body):
    """There is nothing to say."""

    model_config = _example()


class LastUsedBody(Body):
    model_config = _example(lastUsedAt="2026-01-31T12:00:00Z")

    lastUsedAt: PastMoment | None = None


class DeadLetterCleanupBody(Body):
    model_config = _example(olderThanHours=168)

    olderThanHours: int = Field(ge=0, le=24 * 14, description="Since they failed for the last time")


class SyncBody(Body):
    model_config = _example(dryRun=True)

    dryRun: bool = Field(default=False, description="Say what would be done, and do nothing")
    trustKey: bool = Field(default=False, description="The Novita key is our account's")
    deleteOrphans: bool = Field(default=False, description="However many there are")
