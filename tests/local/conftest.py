from collections.abc import Iterator
from pathlib import Path

import pytest

from local.ports import Ports
from local.stack import LocalStack
from tests.local.local_copy import LocalCopy


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[LocalCopy]:
    copy = LocalCopy(tmp_path / "state", Ports.free())
    yield copy
    if not copy.ended():
        copy.press_ctrl_c()


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    with LocalStack(tmp_path_factory.mktemp("stack"), Ports.free()) as stack:
        yield stack
