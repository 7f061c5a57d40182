"""Novita's own words may be repeated, credentials may not."""

import pytest

from functions.shared.novita.calls import quoted


@pytest.mark.parametrize(
    "text",
    [
        "invalid state change: running to starting",
        "instance 8097f1658f3e6ad1 not found",
        "rootfsSize: 5 is not within 10 to 1000 GB",
        "image ghcr.io/ostler-demo/comfyui:latest not found",
    ],
)
def test_what_helps_is_kept(text: str) -> None:
    assert quoted(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "bad header Authorization: Bearer hunter2",
        "bearer hunter2 is not known",
        "password=hunter2",
        'the "password": "hunter2" is wrong',
        "registryPassword: hunter2",
        "the token is hunter2",
        "api_key: hunter2",
        "imageAuth: bob:hunter2",
        "cannot pull https://bob:hunter2@ghcr.io/x",
        "sk_hunter2hunter2",
        "ghp_hunter2hunter2",
        "key abchunter2defghunter2hijk was revoked",
    ],
)
def test_what_looks_like_a_credential_is_masked(text: str) -> None:
    assert "hunter2" not in quoted(text)
    assert "***" in quoted(text)


def test_it_is_one_printable_line_of_at_most_200_characters() -> None:
    text = quoted("a\x00b\nc\x1b[31m\u202e " + "word " * 500)

    assert text.isprintable()
    assert len(text) <= 200


def test_a_credential_that_the_cut_would_halve_is_masked_whole() -> None:
    assert "hunter" not in quoted("x " * 97 + "password: hunter2hunter2")
