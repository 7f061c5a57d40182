"""Everything that can go wrong, as exceptions: one for each code that the service answers.

OstlerError
├── ApiError               the service answered with an error
│   ├── BadRequest         the request itself is wrong
│   ├── NotAllowed         no valid key, no such scope, or a limit or budget forbids it
│   ├── NotFound           no such instance, template, product ...
│   ├── Conflict           not in this status, already under way
│   ├── Refused            understood, and not to be had
│   └── Unavailable        the same request later
├── BadAddress             what was given as the service's address is none
├── Unreachable            no answer, although it was tried again
├── BadAnswer              an answer that is not Ostler's
├── InstanceFailed         what was waited for will not come
└── WaitTimeout            what was waited for did not come in time
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ostler.models import Fault, FieldError, Instance


class OstlerError(Exception):
    """Whatever this package raises."""


class ApiError(OstlerError):
    """An error that the service answered; `type(error)` follows from its code."""

    code: str = ""
    classes: ClassVar[dict[str, type[ApiError]]] = {}

    def __init_subclass__(cls) -> None:
        if "code" in vars(cls):
            ApiError.classes[cls.code] = cls

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int,
        request_id: str = "",
        correlation_id: str = "",
        retryable: bool = False,
        retry_after: float | None = None,
        details: Mapping[str, Any] | None = None,
        fields: Sequence[FieldError] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.request_id = request_id
        self.correlation_id = correlation_id
        self.retryable = retryable
        self.retry_after = retry_after
        self.details = dict(details or {})
        self.fields = tuple(fields)

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class BadRequest(ApiError):
    pass


class NotAllowed(ApiError):
    pass


class NotFound(ApiError):
    pass


class Conflict(ApiError):
    pass


class Refused(ApiError):
    pass


class Unavailable(ApiError):
    pass


class InvalidTemplate(Refused):
    pass


class BadAddress(OstlerError):
    """What was given as the service's address is none."""


class Unreachable(OstlerError):
    """No answer: nobody listens there, the connection was lost, or it took too long."""


class BadAnswer(OstlerError):
    """Something answered that is not an Ostler: perhaps the address is wrong."""


class InstanceFailed(OstlerError):
    """The instance is in a status from which what was waited for does not come by itself."""

    def __init__(self, instance: Instance, wanted: str, fault: Fault | None = None) -> None:
        self.instance = instance
        self.fault = instance.get("error") or fault
        why = f": {self.fault['message']}" if self.fault else ""
        super().__init__(f"{instance['name']} is {instance['status']}, not {wanted}{why}")


class WaitTimeout(OstlerError):
    """The time given was over first. The instance goes on."""

    def __init__(self, what: str, wanted: str, seconds: float, instance: Instance | None = None) -> None:
        self.instance = instance
        self.status = instance["status"] if instance else ""
        name, now = (instance["name"], f"; it is {self.status}") if instance else (what, "")
        super().__init__(f"{name} was not {wanted} within {seconds:g} s{now}")


# One for each code. A test holds the list against the service's own.


class InvalidCursor(BadRequest):
    code = "INVALID_CURSOR"


class MalformedJson(BadRequest):
    code = "MALFORMED_JSON"


class PayloadTooLarge(BadRequest):
    code = "PAYLOAD_TOO_LARGE"


class ValidationError(BadRequest):
    code = "VALIDATION_ERROR"


class AmbiguousInstanceName(Conflict):
    code = "AMBIGUOUS_INSTANCE_NAME"


class InstanceAlreadyManaged(Conflict):
    code = "INSTANCE_ALREADY_MANAGED"


class InstanceEnded(Conflict):
    code = "INSTANCE_ENDED"


class InstanceHasNoMachine(Conflict):
    code = "INSTANCE_HAS_NO_MACHINE"


class InstanceMissing(Conflict):
    code = "INSTANCE_MISSING"


class InstanceNotReleasable(Conflict):
    code = "INSTANCE_NOT_RELEASABLE"


class InstanceNotRestartable(Conflict):
    code = "INSTANCE_NOT_RESTARTABLE"


class InstanceNotStartable(Conflict):
    code = "INSTANCE_NOT_STARTABLE"


class InstanceNotStoppable(Conflict):
    code = "INSTANCE_NOT_STOPPABLE"


class InstanceProtected(NotAllowed):
    code = "INSTANCE_PROTECTED"


class NotRedrivable(Conflict):
    code = "NOT_REDRIVABLE"


class PurchasesPaused(NotAllowed):
    code = "PURCHASES_PAUSED"


class StartupOperationInProgress(Conflict):
    code = "STARTUP_OPERATION_IN_PROGRESS"


class Forbidden(NotAllowed):
    code = "FORBIDDEN"


class Unauthorized(NotAllowed):
    code = "UNAUTHORIZED"


class BudgetNotFound(NotFound):
    code = "BUDGET_NOT_FOUND"


class DeadLetterNotFound(NotFound):
    code = "DEAD_LETTER_NOT_FOUND"


class DeliveryNotFound(NotFound):
    code = "DELIVERY_NOT_FOUND"


class InstanceNotFound(NotFound):
    code = "INSTANCE_NOT_FOUND"


class OperationNotFound(NotFound):
    code = "OPERATION_NOT_FOUND"


class ProductNotFound(NotFound):
    code = "PRODUCT_NOT_FOUND"


class NetworkVolumeNotFound(NotFound):
    code = "NETWORK_VOLUME_NOT_FOUND"


class RegistryAuthNotFound(NotFound):
    code = "REGISTRY_AUTH_NOT_FOUND"


class RouteNotFound(NotFound):
    code = "ROUTE_NOT_FOUND"


class TemplateNotFound(NotFound):
    code = "TEMPLATE_NOT_FOUND"


class BudgetExceeded(NotAllowed):
    code = "BUDGET_EXCEEDED"


class CapExceeded(NotAllowed):
    code = "CAP_EXCEEDED"


class IdempotencyKeyReused(Refused):
    code = "IDEMPOTENCY_KEY_REUSED"


class InvalidTemplateCommand(InvalidTemplate):
    code = "INVALID_TEMPLATE_COMMAND"


class InvalidTemplateCudaVersion(InvalidTemplate):
    code = "INVALID_TEMPLATE_CUDA_VERSION"


class InvalidTemplateEntrypoint(InvalidTemplate):
    code = "INVALID_TEMPLATE_ENTRYPOINT"


class InvalidTemplateEnv(InvalidTemplate):
    code = "INVALID_TEMPLATE_ENV"


class InvalidTemplateImage(InvalidTemplate):
    code = "INVALID_TEMPLATE_IMAGE"


class InvalidTemplateImageAuth(InvalidTemplate):
    code = "INVALID_TEMPLATE_IMAGE_AUTH"


class InvalidTemplatePort(InvalidTemplate):
    code = "INVALID_TEMPLATE_PORT"


class InvalidTemplateTool(InvalidTemplate):
    code = "INVALID_TEMPLATE_TOOL"


class LimitNotAllowed(NotAllowed):
    code = "LIMIT_NOT_ALLOWED"


class NoOptimalProductAnyRegion(Refused):
    code = "NO_OPTIMAL_PRODUCT_ANY_REGION"


class NetworkVolumeElsewhere(Refused):
    code = "NETWORK_VOLUME_ELSEWHERE"


class TooManyVariables(Refused):
    code = "TOO_MANY_VARIABLES"


class PriceCapExceeded(Refused):
    code = "PRICE_CAP_EXCEEDED"


class CircuitBreakerOpen(Unavailable):
    code = "CIRCUIT_BREAKER_OPEN"


class InternalError(Unavailable):
    code = "INTERNAL_ERROR"


class NovitaAuthenticationFailed(ApiError):
    code = "NOVITA_AUTHENTICATION_FAILED"


class NovitaRejected(ApiError):
    code = "NOVITA_REJECTED"


class NovitaTimeout(Unavailable):
    code = "NOVITA_TIMEOUT"


class NovitaUnavailable(Unavailable):
    code = "NOVITA_UNAVAILABLE"


class RateLimitExceeded(Unavailable):
    code = "RATE_LIMIT_EXCEEDED"


class ResourceConstraints(Unavailable):
    code = "RESOURCE_CONSTRAINTS"


class ServiceUnavailable(Unavailable):
    code = "SERVICE_UNAVAILABLE"


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: BadRequest,
    422: Refused,
    429: Unavailable,
}


def error_class(code: str, status: int) -> type[ApiError]:
    """By its code; by the status where the service is newer than this client, or the gateway answered."""
    fallback = _BY_STATUS.get(status, Unavailable if status >= 500 else ApiError)
    return ApiError.classes.get(code, fallback)
