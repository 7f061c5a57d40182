"""Request bodies and parameters: fields, bounds and defaults, as the API documents them."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from aws_lambda_powertools.event_handler.openapi.params import Header, Path
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from functions.api.requests import wired
from functions.shared.domain.delivery.targets import networks, parse_target
from functions.shared.domain.instance.health import BOUNDS, HealthCheck
from functions.shared.domain.instance.record import Spec

InstanceId = Annotated[str, Path(description="inst_ and a ULID", max_length=64)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="The same key and body get the first answer again, for 24 hours",
    ),
]


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must consist of printable characters")
    return value


def _visible(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return _printable(value)


def _template_id(value: Any) -> str:
    """A string, or a positive whole number for the sake of old callers."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**18:
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

Name = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_visible)]
ProductName = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_visible)]
Region = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,63}$", examples=["CN-HK-01"])]
WebAddress = Annotated[
    str, Field(max_length=2048, examples=["https://example.com/hook"]), AfterValidator(_web_address)
]
TemplateId = Annotated[
    str,
    BeforeValidator(_template_id),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 255}, {"type": "integer", "minimum": 1}]}
    ),
]
TagKey = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_visible)]
TagValue = Annotated[str, Field(max_length=256), AfterValidator(_printable)]
Moment = Annotated[
    datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})
]
PastMoment = Annotated[Moment, AfterValidator(_past)]


class Body(BaseModel):
    """Unknown fields are errors, and nothing is guessed: "2" is no number, 1 is no boolean."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


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


class CreateBody(Body):
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
    tags: dict[TagKey, TagValue] | None = Field(default=None, max_length=20)

    def spec(self, check_defaults: Callable[[], HealthCheck]) -> Spec:
        cap = self.maxPricePerGpuHour
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
        )


class QuoteBody(CreateBody):
    """What a create would buy: the same body, where only the product must be named."""

    name: Name | None = None  # type: ignore[assignment]  # a quote needs no name
    templateId: TemplateId = ""


class StartBody(Body):
    healthCheckConfig: HealthCheckBody | None = None
    targetPort: int | None = Field(default=None, ge=1, le=65_535)
    webhookUrl: WebAddress | None = None

    def config(self, defaults: HealthCheck) -> HealthCheck:
        check = (self.healthCheckConfig or HealthCheckBody()).config(defaults)
        return check if self.targetPort is None else replace(check, target_port=self.targetPort)


class NamedBody(Body):
    instanceName: Name


class NamedStartBody(StartBody):
    instanceName: Name


class ImportBody(Body):
    novitaInstanceId: str = Field(pattern=r"^[A-Za-z0-9_-]{1,128}$")
    name: Name | None = None
    webhookUrl: WebAddress | None = None


class StopBody(Body):
    """There is nothing to say."""


class LastUsedBody(Body):
    lastUsedAt: PastMoment | None = None


class DeadLetterCleanupBody(Body):
    olderThanHours: int = Field(ge=0, le=24 * 14, description="Since they failed for the last time")


class SyncBody(Body):
    dryRun: bool = Field(default=False, description="Say what would be done, and do nothing")
    trustKey: bool = Field(default=False, description="The Novita key is our account's")
    deleteOrphans: bool = Field(default=False, description="However many there are")
