"""Packed text: what was stored once is read for ever, and a whole record stays below a kilobyte."""

from base64 import b64decode

import pytest

from functions.shared.stores.schema import pack, unpack

TEXT = '{"id":"inst_01","status":"ready","machine":{"endpoints":[{"port":8188,"type":"http"}]},"ü":1}'
# As the first version packed it. What it knows beforehand is part of what is stored, and must not change.
STORED = "w2geIEpZcPSiVFzEVQLgYDy8B5gOagE="


def test_what_was_stored_before_is_read() -> None:
    assert unpack(b64decode(STORED)) == TEXT


@pytest.mark.parametrize("text", ["", "a", TEXT, "\u20ac" * 5000])
def test_what_is_packed_comes_back(text: str) -> None:
    assert unpack(pack(text)) == text


@pytest.mark.parametrize("stored", [b"?", b"\xff\xff", pack(TEXT)[:-9]])
def test_what_was_not_packed_is_told_by_its_error(stored: bytes) -> None:
    with pytest.raises(ValueError, match="not as it was stored"):
        unpack(stored)
