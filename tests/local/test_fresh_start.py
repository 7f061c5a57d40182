"""When kept state may be used, and when it may be cleared."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from local.fresh_start import clear_state, require_same_novita, set_other_version_aside, wants_fresh
from local.server import SimulatorServer
from local.state import VERSION, StateDir
from ops.command import RefusalError
from ops.novita_account import NovitaAccount


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
    ("number", "said"),
    [
        (None, "an older version of Ostler (in format 1, this one reads 3)"),
        ("4", "a newer version of Ostler (in format 4, this one reads 3)"),
        ("not a number", "an unknown version of Ostler (its format has no number, this one reads 3)"),
    ],
)
def test_what_another_version_saved_is_moved_aside_with_copies_of_the_keys(
    number: str | None, said: str, tmp_path: Path
) -> None:
    state = _saved(tmp_path, "simulator", number)
    state.api_key.write_text("ost_key")
    lines: list[str] = []

    set_other_version_aside(state, None, "", lines.append)

    assert said in lines[0]
    assert (tmp_path / "old-1" / "saved" / "simulator.json").read_text() == "machines"
    assert (tmp_path / "old-1" / "api-key").read_text() == state.api_key.read_text() == "ost_key"
    assert not state.is_saved()


def test_moving_aside_never_overwrites(tmp_path: Path) -> None:
    for expected in ("old-1", "old-2"):
        assert _saved(tmp_path, "simulator", "1").move_aside() == tmp_path / expected


def test_what_this_version_saved_stays(tmp_path: Path) -> None:
    state = _saved(tmp_path, "simulator", str(VERSION))
    lines: list[str] = []

    set_other_version_aside(state, None, "", lines.append)

    assert state.is_saved()
    assert lines == []


def test_records_of_real_machines_are_not_moved_without_a_key_to_ask_for_them(tmp_path: Path) -> None:
    state = _saved(tmp_path, "https://api.novita.ai", None)

    with pytest.raises(RefusalError, match="NOVITA_API_KEY is needed"):
        set_other_version_aside(state, None, "1", print)

    assert state.is_saved()
    set_other_version_aside(state, None, "force", print)
    assert not state.is_saved()


def test_nor_where_novita_does_not_answer(tmp_path: Path) -> None:
    state = _saved(tmp_path, "http://127.0.0.1:9", None)
    nobody = NovitaAccount("key", "http://127.0.0.1:9", loopback=True)

    with pytest.raises(RefusalError, match="Novita does not say"):
        set_other_version_aside(state, nobody, "", print)

    assert state.is_saved()


@dataclass
class PlayMoney:
    """A simulator, as far as clearing needs one."""

    resets: int = 0

    def reset(self) -> None:
        self.resets += 1


class NothingThere(NovitaAccount):
    def living_machines(self, _: str) -> list[str]:
        return []


def clear(state: StateDir, real_novita: NovitaAccount | None, fresh: str) -> int:
    """How often the simulator was emptied."""
    simulator = PlayMoney()
    clear_state(state, cast("SimulatorServer", simulator), real_novita, fresh)
    return simulator.resets


def test_what_was_simulated_is_cleared_without_a_question(tmp_path: Path) -> None:
    state = _saved(tmp_path, "simulator", str(VERSION))

    assert clear(state, None, "1") == 1
    assert not state.is_saved()


@pytest.mark.parametrize("real_novita", [None, NothingThere("key", "https://elsewhere.example")])
def test_records_of_real_machines_are_not_cleared_unless_their_own_novita_is_asked(
    tmp_path: Path, real_novita: NovitaAccount | None
) -> None:
    state = _saved(tmp_path, "https://api.novita.ai", str(VERSION))

    with pytest.raises(RefusalError, match=r"may live at https://api\.novita\.ai.*FRESH=force"):
        clear(state, real_novita, "1")

    assert state.is_saved()
    clear(state, NothingThere("key", "https://api.novita.ai"), "1")
    assert not state.is_saved()


def test_they_are_forgotten_if_that_is_asked_for(tmp_path: Path) -> None:
    state = _saved(tmp_path, "https://api.novita.ai", str(VERSION))

    clear(state, None, "force")

    assert not state.is_saved()


def _saved(path: Path, novita: str, version: str | None) -> StateDir:
    """As a run left it that kept its state in this format."""
    state = StateDir(path)
    state.open()
    state.simulator.write_text("machines")
    state.deployment_id.write_text("abc123")
    (state.running / "novita").write_text(novita)
    state.save()
    if version is None:
        (path / "version").unlink()
    else:
        (path / "version").write_text(version)
    return state


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
