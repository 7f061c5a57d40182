"""Cursors: where a listing goes on, signed, so that none but ours for this listing is taken."""

import base64
import binascii
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass

from functions.shared.domain.errors import CallerError


@dataclass(frozen=True)
class Cursors:
    secret: Callable[[], str]

    def make(self, after: str, listing: str) -> str:
        return (
            base64.urlsafe_b64encode(f"{after}.{self._signature(after, listing)}".encode())
            .decode()
            .rstrip("=")
        )

    def read(self, cursor: str, listing: str) -> str:
        try:
            text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError, ValueError):
            text = ""
        after, _, signature = text.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(after, listing).encode()):
            raise _invalid()
        return after

    def read_number(self, cursor: str, listing: str) -> int:
        after = self.read(cursor, listing)
        if not re.fullmatch("[0-9]{1,10}", after):
            raise _invalid()
        return int(after)

    def _signature(self, after: str, listing: str) -> str:
        return hmac.digest(self.secret().encode(), f"{after}\n{listing}".encode(), "sha256").hex()[:16]


def _invalid() -> CallerError:
    return CallerError("INVALID_CURSOR", "The cursor was not made by this service for this listing")
