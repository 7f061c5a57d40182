"""Which browser the tests of the page take, and what happens where there is none."""

import platform
import sys
from pathlib import Path

import pytest

from tests.browser import chromium
from tests.browser.conftest import required


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has what is put there, and no other program."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(chromium, "_INSTALLED", ("chromium", "google-chrome"))
    return tmp_path


def put(path: Path, name: str) -> None:
    (path / name).write_text("#!/bin/sh\n")
    (path / name).chmod(0o755)


def test_one_that_is_installed_is_taken_where_the_packed_one_cannot_run(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(path, "node")
    put(path, "google-chrome")
    for system, machine in (("linux", "aarch64"), ("darwin", "arm64"), ("darwin", "x86_64")):
        monkeypatch.setattr(sys, "platform", system)
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)

        found = chromium.find()

        assert found
        assert found.path == path / "google-chrome"


def test_without_any_the_tests_are_skipped_with_the_reason_and_never_in_ci(path: Path) -> None:
    assert path.is_dir()
    assert chromium.find() is None

    with pytest.raises(pytest.skip.Exception, match="no browser: run"):
        required(None, {})
    with pytest.raises(pytest.fail.Exception, match="no browser: run"):
        required(None, {"CI": "true"})
