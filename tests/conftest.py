"""How the suite shares a machine: what needs servers stays together, the rest goes wherever there is room."""

from pathlib import Path

import pytest

_TOGETHER = ("e2e", "infra", "integration", "local", "simulator")  # each folder shares what it starts


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0]
        if folder in _TOGETHER:
            item.add_marker(pytest.mark.xdist_group(folder))
