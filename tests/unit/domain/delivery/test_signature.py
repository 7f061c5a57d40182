"""Signatures that any Standard Webhooks library accepts."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from functions.shared.domain.delivery import webhooks as signature

CURRENT, FORMER = b"c" * 32, b"f" * 32
URL = "https://hooks.example.com/ostler"
BODY = b'{"type":"instance.ready"}'


def receiver(master: bytes, url: str = URL) -> Webhook:
    return Webhook(signature.show_secret(signature.derive_secret(master, signature.origin_of(url))))


def test_the_standard_library_of_a_receiver_accepts_what_is_signed() -> None:
    headers = signature.signed_headers([CURRENT], URL, "evt_1", int(time.time()), BODY)

    assert receiver(CURRENT).verify(BODY, headers) == {"type": "instance.ready"}


@pytest.mark.parametrize("master", [CURRENT, FORMER])
def test_during_rotation_either_master_verifies(master: bytes) -> None:
    headers = signature.signed_headers([CURRENT, FORMER], URL, "evt_1", int(time.time()), BODY)

    assert receiver(master).verify(BODY, headers)
    assert headers["webhook-signature"].split()[0] == signature.sign(
        signature.derive_secret(CURRENT, "https://hooks.example.com"),
        "evt_1",
        int(headers["webhook-timestamp"]),
        BODY,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "evt_2"},
        {"webhook-timestamp": str(int(time.time()) - 7)},
        {"webhook-signature": "v1,AAAA"},
        {"body": BODY.decode() + " "},
    ],
)
def test_a_changed_body_id_or_timestamp_is_refused(change: dict[str, str]) -> None:
    headers = signature.signed_headers([CURRENT, FORMER], URL, "evt_1", int(time.time()), BODY)
    changed = {"body": BODY.decode(), **headers, **change}

    with pytest.raises(WebhookVerificationError):
        receiver(CURRENT).verify(changed.pop("body"), changed)


def test_one_receivers_secret_verifies_nothing_of_anothers() -> None:
    headers = signature.signed_headers([CURRENT], URL, "evt_1", int(time.time()), BODY)

    for other in (
        "https://hooks.example.org/ostler",
        "http://hooks.example.com/",
        "https://hooks.example.com:8443/",
    ):
        with pytest.raises(WebhookVerificationError):
            receiver(CURRENT, other).verify(BODY, headers)


@pytest.mark.parametrize(
    "spelling",
    ["HTTPS://HOOKS.example.com", "https://hooks.example.com:443/x?y", "https://hooks.example.com./#z"],
)
def test_every_spelling_of_one_receiver_has_one_origin(spelling: str) -> None:
    assert signature.origin_of(spelling) == "https://hooks.example.com"


def test_the_origin_keeps_a_port_that_is_not_the_schemes_own() -> None:
    assert signature.origin_of("http://127.0.0.1:8081/_sim/inbox/a") == "http://127.0.0.1:8081"
    assert signature.origin_of("http://[2606:4700::1]:443/") == "http://[2606:4700::1]:443"


def test_a_master_is_read_from_its_shown_form_or_from_plain_text() -> None:
    assert signature.read_master(signature.show_secret(CURRENT) + "\n") == CURRENT
    assert signature.read_master("a text as long as a secret") == b"a text as long as a secret"


@pytest.mark.parametrize(
    "text", ["", "short", "whsec_", "whsec_c2hvcnQ=", "whsec_no base64 at all, not even nearly"]
)
def test_a_master_that_is_too_short_or_garbled_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match=r"at least 24 bytes|base64|padding|[Nn]on-") as caught:
        signature.read_master(text)

    assert not text or text not in str(caught.value)


@given(st.binary(min_size=24, max_size=64), st.from_regex(r"[a-z0-9_]{1,40}", fullmatch=True), st.text())
def test_the_package_makes_the_same_signature(secret: bytes, message_id: str, text: str) -> None:
    theirs = Webhook(signature.show_secret(secret)).sign(
        message_id, datetime.fromtimestamp(1_700_000_000, UTC), text
    )

    assert signature.sign(secret, message_id, 1_700_000_000, text.encode()) == theirs
