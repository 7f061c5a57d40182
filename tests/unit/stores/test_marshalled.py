"""Values as the table's API has them."""

from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import TypeSerializer

from functions.shared.domain.instance.status import Status
from functions.shared.stores.table import marshal, unmarshal

VALUES: dict[str, Any] = {
    "text": "größe",
    "empty": "",
    "whole": -12,
    "large": 10**20,
    "yes": True,
    "parts": {"list": [1, "two", None, {"three": False}], "none": None},
}


def test_values_are_stored_as_boto3_stores_them() -> None:
    serialize = TypeSerializer().serialize

    assert marshal(VALUES) == {name: serialize(value) for name, value in VALUES.items()}
    assert marshal({"half": 0.5}) == {"half": serialize(Decimal("0.5"))}


def test_values_come_back_as_they_were() -> None:
    given = {**VALUES, "half": 0.5, "small": 1e-7, "zero": 0.0}

    found = unmarshal(marshal(given))

    assert found == given
    assert [type(found[name]) for name in ("whole", "yes", "zero")] == [int, bool, float]


def test_a_status_is_text_a_tuple_a_list_and_none_is_left_out() -> None:
    assert marshal({"status": Status.READY, "pair": (1, 2), "none": None}) == {
        "status": {"S": "ready"},
        "pair": {"L": [{"N": "1"}, {"N": "2"}]},
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {"deep": [float("-inf")]}])
def test_what_cannot_be_stored_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be stored"):
        marshal({"value": value})
