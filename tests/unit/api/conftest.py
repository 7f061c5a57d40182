"""One API in this process for each test module: its table is in memory, and nothing is behind it."""

from collections.abc import Iterator

import pytest
from moto import mock_aws

from functions.shared.platform import wiring
from tests.unit.api.api import Api


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield Api()
        wiring.use(None)
