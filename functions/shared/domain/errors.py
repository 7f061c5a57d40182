"""Every error the service knows, sorted by who can mend it, and every code with its meaning.

OstlerError
├── CallerError            the caller: another request would be answered
│   ├── ValidationFailed   one entry for each bad field
│   ├── NotFound           no such instance, template, product ...
│   ├── Conflict           not in this status, already under way
│   ├── SpendingRefused    beyond a cap or a budget
│   └── TooManyRequests    the same one later
├── NovitaRefused          nobody here: Novita said no and would say it again, so the instance fails
│   ├── NoCapacity         the next offer may still be had
│   ├── ImageAuthRefused   the image's registry auth was perhaps not taken by its id: nothing was bought
│   ├── InvalidState       not from the status the machine is in: look at it again
│   └── MachineNotFound    Novita knows no machine of that id
├── NovitaForNow           time: the message comes back
│   ├── NotNow             no slot, circuit open: nothing was sent
│   │   └── NoLongerOurs   it belongs to another instance by now: nothing was sent
│   ├── AbsentWithoutReason  a 404 that is not Novita's own: perhaps a gateway without routes
│   └── OutcomeUnclear     sent, and perhaps done
├── Unavailable            time: the table or a queue does not answer
├── StaleInstance          another writer won: read again
└── BadSettings            whoever deploys it
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fault:
    """Why something failed or waits: a code of the API's and a sentence."""

    code: str
    message: str
    details: Mapping[str, Any] | None = None  # each region's reason, Novita's word for it ...


class OstlerError(Exception):
    """An outcome with a stable code; the message never holds a secret or another party's raw text."""

    retryable = False

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = dict(details) if details else None
        self.retry_after = retry_after

    @property
    def fault(self) -> Fault:
        return Fault(self.code, self.message, self.details)


class CallerError(OstlerError):
    pass


@dataclass(frozen=True)
class FieldError:
    field: str
    code: str
    message: str


class ValidationFailed(CallerError):
    def __init__(self, fields: Sequence[FieldError]) -> None:
        names = ", ".join(dict.fromkeys(error.field for error in fields))
        super().__init__("VALIDATION_ERROR", f"The request is not valid: {names}")
        self.fields = tuple(fields)


class NotFound(CallerError):
    pass


class Conflict(CallerError):
    pass


class SpendingRefused(CallerError):
    pass


class TooManyRequests(CallerError):
    retryable = True

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__("RATE_LIMIT_EXCEEDED", message, retry_after=retry_after)


class NovitaRefused(OstlerError):
    pass


class NoCapacity(NovitaRefused):
    retryable = True


class ImageAuthRefused(NovitaRefused):
    pass


class InvalidState(NovitaRefused):
    pass


class MachineNotFound(NovitaRefused):
    def __init__(self, machine_id: str) -> None:
        super().__init__("INSTANCE_NOT_FOUND", f"Novita knows no machine {machine_id}")


class NovitaForNow(OstlerError):
    retryable = True


class NotNow(NovitaForNow):
    pass


class NoLongerOurs(NotNow):
    def __init__(self, machine_id: str) -> None:
        super().__init__("INSTANCE_ALREADY_MANAGED", f"{machine_id} belongs to another instance by now")


class AbsentWithoutReason(NovitaForNow):
    pass


class OutcomeUnclear(NovitaForNow):
    pass


def lacks_slots(error: BaseException | None) -> bool:
    """Nothing was asked for want of a slot of the rate limit: that says nothing about Novita."""
    return isinstance(error, NotNow) and error.code == "RATE_LIMIT_EXCEEDED"


class Unavailable(OstlerError):
    retryable = True

    def __init__(self, message: str, what: Sequence[str] = ()) -> None:
        super().__init__("SERVICE_UNAVAILABLE", message, details={"failed": list(what)} if what else None)


class StaleInstance(OstlerError):
    retryable = True

    def __init__(self, instance_id: str) -> None:
        super().__init__("INTERNAL_ERROR", f"{instance_id} was changed by another writer")


class BadSettings(OstlerError):
    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("INTERNAL_ERROR", "; ".join(problems))


CODES: dict[str, str] = {
    "VALIDATION_ERROR": "The request has bad fields; `validationErrors` names each of them.",
    "MALFORMED_JSON": "The body is not JSON.",
    "INVALID_CURSOR": "The cursor was not made by this service for this listing.",
    "UNAUTHORIZED": "No valid key. With auth=jwt or auth=iam the gateway itself refuses, see below.",
    "FORBIDDEN": "The caller lacks the scope that this route needs.",
    "INSTANCE_NOT_FOUND": "No instance of that id or name.",
    "OPERATION_NOT_FOUND": "No operation of that id, or it is older than 30 days.",
    "DELIVERY_NOT_FOUND": "No webhook delivery of that id, or it is older than 30 days.",
    "DEAD_LETTER_NOT_FOUND": "No dead letter of that id, or it is older than 14 days.",
    "BUDGET_NOT_FOUND": "No budget of that name.",
    "TEMPLATE_NOT_FOUND": "Novita has no template of that id.",
    "PRODUCT_NOT_FOUND": "Novita has no product of that name in any region.",
    "NETWORK_VOLUME_NOT_FOUND": "Novita has no network volume of that id.",
    "REGISTRY_AUTH_NOT_FOUND": "The template names registry credentials that Novita does not have.",
    "ROUTE_NOT_FOUND": "No such route, or not for this method.",
    "INSTANCE_NOT_STARTABLE": "Its status does not allow a start; the message names it.",
    "INSTANCE_NOT_STOPPABLE": "Its status does not allow a stop; the message names it.",
    "INSTANCE_NOT_RESTARTABLE": "Its status does not allow a restart; the message names it.",
    "STARTUP_OPERATION_IN_PROGRESS": "It is being started already.",
    "INSTANCE_MISSING": "Novita does not find its machine, and nobody asked for its end; `missingSince`.",
    "INSTANCE_NOT_RELEASABLE": "It is neither imported nor missing nor stuck: delete it.",
    "INSTANCE_ENDED": "It is being deleted, or gone: nothing of it can be changed.",
    "INSTANCE_PROTECTED": "It is protected: `PATCH` it with `protected: false` before deleting it.",
    "LIMIT_NOT_ALLOWED": "The deployment allows no such limit; `details` has the most it allows.",
    "PURCHASES_PAUSED": "An admin has paused purchases and starts (`POST /api/resume` lets them go on).",
    "AMBIGUOUS_INSTANCE_NAME": "More than one instance has that name; `details` has their ids.",
    "INSTANCE_ALREADY_MANAGED": "That Novita machine belongs to an instance here; `details` has its id.",
    "INSTANCE_HAS_NO_MACHINE": "There is no machine to connect to.",
    "NOT_REDRIVABLE": "Nothing would come of redriving that dead letter; the message names why.",
    "IDEMPOTENCY_KEY_REUSED": "The same Idempotency-Key was used for another request.",
    "PAYLOAD_TOO_LARGE": "The body is larger than 1 MB.",
    "NO_OPTIMAL_PRODUCT_ANY_REGION": "It exists, but none is to be had; `details` has each region's reason.",
    "NETWORK_VOLUME_ELSEWHERE": "The network volumes are not all in one region, or not in one asked for.",
    "TOO_MANY_VARIABLES": "With the template's own there are more variables than Novita takes.",
    "PRICE_CAP_EXCEEDED": "All that is to be had costs more than `maxPricePerGpuHour`.",
    "CAP_EXCEEDED": "It would commit more than a cap allows; `details` has what is in use.",
    "BUDGET_EXCEEDED": "A budget does not allow it in this period; `details` has what is spent.",
    "INVALID_TEMPLATE_IMAGE": "The template's image is missing or unusable.",
    "INVALID_TEMPLATE_PORT": "The template has a port that Novita cannot open.",
    "INVALID_TEMPLATE_IMAGE_AUTH": "The template's registry auth is unusable.",
    "INVALID_TEMPLATE_TOOL": "The template has a tool without a name or a usable port.",
    "INVALID_TEMPLATE_COMMAND": "The template's start command is too long.",
    "INVALID_TEMPLATE_ENTRYPOINT": "The template's entry point is too long.",
    "INVALID_TEMPLATE_CUDA_VERSION": "The template's CUDA version is too long.",
    "INVALID_TEMPLATE_ENV": "The template has an environment variable that Novita would refuse.",
    "RATE_LIMIT_EXCEEDED": "Too many calls to Novita, or requests of yours; see `Retry-After`.",
    "NOVITA_REJECTED": "Novita refused; `details.reason` has its word for it.",
    "NOVITA_AUTHENTICATION_FAILED": "Novita does not accept this deployment's key.",
    "NOVITA_UNAVAILABLE": "Novita does not answer, or answers with errors.",
    "NOVITA_TIMEOUT": "Novita did not answer in time.",
    "CIRCUIT_BREAKER_OPEN": "Novita has failed too often lately; calls resume by themselves.",
    "RESOURCE_CONSTRAINTS": "Novita has no capacity for it at the moment.",
    "PURCHASE_TIMEOUT": "No machine was bought within PURCHASE_MAX_WAIT.",
    "STARTUP_FAILED": "The machine exited or vanished before it was ready.",
    "STARTUP_TIMEOUT": "The machine was not running within BOOT_MAX_WAIT.",
    "IMAGE_PULL_FAILED": "There is no such image, or no right to pull it; the message has Novita's words.",
    "MACHINE_ERROR": "Novita shows an error of the machine that may mend itself; the message has its words.",
    "HEALTH_CHECK_FAILED": "The application did not answer within `maxWaitTimeMs`.",
    "OPERATION_SUPERSEDED": "Another operation on the same instance took its place.",
    "SERVICE_UNAVAILABLE": "The table or a queue does not answer; ask again, with the same Idempotency-Key.",
    "INTERNAL_ERROR": "A fault of this service; the request id finds it in the log.",
}
