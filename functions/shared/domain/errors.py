"""Every error the service knows, sorted by who can mend it.

OstlerError
├── CallerError            the caller: another request would be answered
│   ├── ValidationFailed   one entry for each bad field
│   ├── NotFound           no such instance, template, product ...
│   └── Conflict           not in this status, already under way
├── NovitaRefused          nobody here: Novita said no and would say it again, so the instance fails
│   ├── NoCapacity         the next offer may still be had
│   ├── ImageAuthRefused   the image's registry auth was perhaps not taken by its id: nothing was bought
│   ├── InvalidState       not from the status the machine is in: look at it again
│   └── MachineNotFound    Novita knows no machine of that id
├── NovitaForNow           time: the message comes back
│   ├── NotNow             no slot, circuit open: nothing was sent
│   └── OutcomeUnclear     sent, and perhaps done
├── Unavailable            time: the table or a queue does not answer
├── StaleInstance          another writer won: read again
└── BadSettings            whoever deploys it
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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


class OutcomeUnclear(NovitaForNow):
    pass


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
