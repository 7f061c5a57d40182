"""The folder between two runs: whole, or as the run before left it."""

from pathlib import Path

from local.state import StateDir


def _runs(path: Path, text: str) -> StateDir:
    state = StateDir(path)
    state.open()
    state.simulator.write_text(text)
    return state


def test_a_run_that_is_not_saved_leaves_the_one_before(tmp_path: Path) -> None:
    _runs(tmp_path, "first").save()

    _runs(tmp_path, "second, killed")
    state = StateDir(tmp_path)
    state.open()

    assert state.simulator.read_text() == "first"


def test_a_kill_while_saving_leaves_the_one_before(tmp_path: Path) -> None:
    _runs(tmp_path, "first").save()
    (tmp_path / "saved").rename(tmp_path / "saved.previous")

    state = StateDir(tmp_path)
    state.open()

    assert state.simulator.read_text() == "first"


def test_clearing_takes_effect_at_once(tmp_path: Path) -> None:
    _runs(tmp_path, "first").save()

    _runs(tmp_path, "second").clear()
    state = StateDir(tmp_path)
    state.open()

    assert not state.simulator.exists()
    assert state.emulator.is_dir()
