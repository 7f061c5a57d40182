"""API keys: found by their digest, trusted for a short time, dead soon after they are revoked."""

import hashlib
from typing import Any

import pytest

from functions.shared.stores.api_keys import ApiKey, ApiKeys
from functions.shared.stores.table import Table, Write
from tests.unit.builders import after
from tests.unit.tables import Clock, Counted

KEY = "ost_" + "A1_-" * 10 + "xyz"


@pytest.fixture
def counted(table: Table) -> Counted:
    return Counted(table.client, table.name)


def store(table: Table, key: str, **more: Any) -> None:
    digest = hashlib.sha256(key.encode()).hexdigest()
    item = {"pk": f"key#{digest}", "sk": "key", "keyId": "key_1", "scopes": ["read", "write"], **more}
    table.put(Write(item))


def test_a_key_is_found_by_what_is_presented(counted: Counted) -> None:
    store(counted, KEY)

    assert ApiKeys(counted, Clock(), 30).find(KEY) == ApiKey("key_1", frozenset({"read", "write"}))


@pytest.mark.parametrize(
    "presented", ["", "ost_", KEY + "A", KEY[:-1], KEY[4:], KEY + "\n", "ost_" + "é" * 43]
)
def test_what_has_not_the_shape_of_a_key_is_not_even_looked_up(counted: Counted, presented: str) -> None:
    store(counted, presented or "x")

    assert ApiKeys(counted, Clock(), 30).find(presented) is None
    assert counted.reads == 0


def test_an_unknown_or_revoked_key_is_none(counted: Counted) -> None:
    store(counted, KEY, revokedAt=1)
    keys = ApiKeys(counted, Clock(), 30)

    assert keys.find(KEY) is None
    assert keys.find("ost_" + "B" * 43) is None


def test_a_key_is_read_once_while_it_is_trusted(counted: Counted) -> None:
    store(counted, KEY)
    clock = Clock()
    keys = ApiKeys(counted, clock, 30)

    for seconds in (0, 10, 29.9):
        clock.now = after(seconds)
        assert keys.find(KEY)

    assert counted.reads == 1


def test_a_revoked_key_dies_when_its_trust_does(counted: Counted) -> None:
    store(counted, KEY)
    clock = Clock()
    keys = ApiKeys(counted, clock, 30)
    keys.find(KEY)
    store(counted, KEY, revokedAt=1)

    clock.now = after(30)

    assert keys.find(KEY) is None
    clock.now = after(31)
    assert keys.find(KEY) is None


def test_what_was_unknown_is_asked_again_at_once(counted: Counted) -> None:
    keys = ApiKeys(counted, Clock(), 30)
    assert keys.find(KEY) is None

    store(counted, KEY)

    assert keys.find(KEY) is not None
