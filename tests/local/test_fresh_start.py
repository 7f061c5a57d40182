"""When kept state may be used, and when it may be cleared."""

from pathlib import Path

import pytest

from local.fresh_start import require_same_novita, wants_fresh
from local.state import StateDir
from ops.command import RefusalError
from ops.novita import NovitaAccount


def test_simulated_records_are_not_held_against_the_real_novita(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.open()
    require_same_novita(state, None)

    require_same_novita(state, None)
    with pytest.raises(RefusalError, match="OSTLER_STATE_DIR"):
        require_same_novita(state, NovitaAccount("key"))


@pytest.mark.parametrize(("text", "fresh"), [("", False), ("0", False), ("1", True), ("force", True)])
def test_fresh_is_asked_for(text: str, fresh: bool) -> None:
    assert wants_fresh(text) is fresh


def test_a_wish_that_is_not_understood_is_refused() -> None:
    with pytest.raises(RefusalError, match="FRESH"):
        wants_fresh("forse")


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, None),
        ({"NOVITA_API_BASE_URL": "https://elsewhere"}, None),
        ({"NOVITA_API_KEY": "sk"}, NovitaAccount("sk", "https://api.novita.ai/gpu-instance/openapi/v1")),
        (
            {"NOVITA_API_KEY": "sk", "NOVITA_API_BASE_URL": "https://elsewhere"},
            NovitaAccount("sk", "https://elsewhere"),
        ),
    ],
)
def test_the_real_novita_is_meant_when_there_is_a_key_for_it(
    environment: dict[str, str], wanted: NovitaAccount | None
) -> None:
    assert NovitaAccount.from_environment(environment) == wanted
