"""The command that makes keys: caps are stored with the key, in whole millionths of a dollar, and listed."""

import argparse
import sys
from decimal import Decimal
from typing import Any

import pytest

from ops import keys


class KeyTable:
    """What the command asks of the table."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], dict[str, Any]] = {}

    def put_item(self, Item: dict[str, Any]) -> None:  # noqa: N803  # boto3's own name
        self.items[Item["pk"], Item["sk"]] = Item

    def get_item(self, Key: dict[str, Any], **_: Any) -> dict[str, Any]:  # noqa: N803  # boto3's own name
        return {"Item": self.items[Key["pk"], Key["sk"]]}

    def query(self, **_: Any) -> dict[str, Any]:
        return {"Items": [{"pk": pk, "sk": sk} for pk, sk in self.items]}


def run(monkeypatch: pytest.MonkeyPatch, table: KeyTable, *given: str) -> int:
    monkeypatch.setattr(sys, "argv", ["keys", *given])
    return keys.run(keys.parse_arguments(argparse.ArgumentParser()), table)


def test_caps_are_stored_with_the_key_and_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = KeyTable()
    given = ("create", "--name", "team", "--scopes", "write", "--max-instances", "3")

    assert run(monkeypatch, table, *given, "--max-hourly-usd", "2.50") == 0

    (item,) = table.items.values()
    assert (item["maxInstances"], item["maxHourlyMicros"]) == (3, 2_500_000)
    assert "at most 3 instances" in capsys.readouterr().err
    table.items = {key: {**one, "maxHourlyMicros": Decimal(2_500_000)} for key, one in table.items.items()}
    assert run(monkeypatch, table, "list") == 0
    assert "at most 3 instances, at most 2.5 USD an hour" in capsys.readouterr().out


def test_a_key_without_caps_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    table = KeyTable()

    run(monkeypatch, table, "create", "--name", "free", "--scopes", "read")

    (item,) = table.items.values()
    assert not {"maxInstances", "maxHourlyMicros"} & item.keys()


@pytest.mark.parametrize(
    "caps",
    [("--max-instances", "-1"), ("--max-instances", "some"), ("--max-hourly-usd", "-1"),
     ("--max-hourly-usd", "NaN"), ("--max-hourly-usd", "0.0000001"), ("--max-hourly-usd", "much")],
)  # fmt: skip  # one after the other
def test_caps_that_make_no_sense_are_refused(monkeypatch: pytest.MonkeyPatch, caps: tuple[str, str]) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, KeyTable(), "create", "--name", "n", "--scopes", "read", *caps)
