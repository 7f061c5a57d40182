"""Standard Webhooks 1.0: what proves to a receiver that a message is ours and unchanged."""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence

from functions.shared.domain.outbound import split_target

_PREFIX = "whsec_"
_LABEL = b"ostler webhook secret 1\0"
_LEAST_BYTES = 24  # what the standard asks of a secret


def read_master(text: str) -> bytes:
    """A master secret as it is kept: whsec_ and base64, or any long enough text."""
    text = text.strip()
    encoded = text.removeprefix(_PREFIX)
    secret = text.encode() if encoded == text else b64decode(encoded, validate=True)
    if len(secret) < _LEAST_BYTES:
        raise ValueError(f"the master webhook secret must have at least {_LEAST_BYTES} bytes")
    return secret


def origin_of(url: str) -> str:
    """scheme://host[:port], the same for every spelling of one receiver."""
    return split_target(url).origin


def derive(master: bytes, origin: str) -> bytes:
    """Each receiver's own secret, so that none can sign for another."""
    return hmac.digest(master, _LABEL + origin.encode(), "sha256")


def shown(secret: bytes) -> str:
    return _PREFIX + b64encode(secret).decode()


def sign(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.digest(secret, signed, "sha256")).decode()


def signed_headers(
    masters: Sequence[bytes], url: str, message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """The three headers of one attempt; one signature for each master, the current one first."""
    origin = origin_of(url)
    signatures = [sign(derive(master, origin), message_id, timestamp, body) for master in masters]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }
