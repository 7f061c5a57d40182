"""DynamoDB in this process: one for each module, since it is slow to start, and a table for each test."""

from collections.abc import Iterator
from typing import Any

import pytest

from functions.shared.stores.instances import Instances
from functions.shared.stores.table import Table
from tests.unit.tables import dynamodb, instances_in, new_table


@pytest.fixture(scope="module")
def moto() -> Iterator[Any]:
    with dynamodb() as client:
        yield client


@pytest.fixture
def table(moto: Any) -> Table:
    return new_table(moto)


@pytest.fixture
def instances(table: Table) -> Instances:
    return instances_in(table)
