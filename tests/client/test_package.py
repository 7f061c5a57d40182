"""The package as people get it: it installs, brings its types, and programs that use it pass mypy strict."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from infra.interpreter import find_python
from local.paths import ROOT
from tests.snippets import FILE, documents, snippets

PROGRAMS = [
    (document, one)
    for document in documents()
    for one in snippets(document)
    if one.mark == FILE and "ostler" in one.text
]


def test_programs_that_use_it_pass_mypy_strict(tmp_path: Path) -> None:
    assert len(PROGRAMS) >= 4
    names = []
    for document, one in PROGRAMS:
        file = tmp_path / f"{document.stem.replace('-', '_').lower()}_{one.about}"
        file.write_text(one.text)
        names.append(file.name)
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nstrict = true\nmypy_path = {ROOT / 'client/src'}\n")

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(ROOT / ".mypy_cache/programs"), *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout


def test_a_wrong_program_does_not_pass(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "from ostler import Ostler\n"
        "made = Ostler('http://127.0.0.1', 'k').create('n', 'p', 't')\n"
        "made['instanceID']\n"
    )
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nstrict = true\nmypy_path = {ROOT / 'client/src'}\n")

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(ROOT / ".mypy_cache/programs"), "wrong.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 'has no key "instanceID"' in done.stdout


def test_it_uses_nothing_that_the_oldest_python_lacks(tmp_path: Path) -> None:
    """What came into the standard library or the language later is an error to mypy then."""
    oldest = tomllib.loads((ROOT / "client/pyproject.toml").read_text())["project"]["requires-python"]
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\npython_version = {oldest.removeprefix('>=')}\nmypy_path = {ROOT / 'client/src'}\n"
    )
    (tmp_path / "later.py").write_text("from datetime import UTC\n")
    check = [sys.executable, "-m", "mypy", "--cache-dir", str(ROOT / ".mypy_cache/oldest")]

    ours, later = (
        subprocess.run([*check, *what], cwd=tmp_path, capture_output=True, text=True, check=False)
        for what in (["-p", "ostler"], ["later.py"])
    )

    assert ours.returncode == 0, ours.stdout
    assert 'has no attribute "UTC"' in later.stdout


def test_it_runs_on_the_oldest_python_that_it_promises() -> None:
    oldest = find_python("3.10")
    if oldest is None:
        pytest.skip("no Python 3.10 here")
    done = subprocess.run(
        [oldest, "-c", _IMPORT_ALL],
        env={"PYTHONPATH": f"{ROOT / 'client/src'}:{_site()}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


# Everything that is its own: `requests` and the like are not ours to try, and may need another Python.
_IMPORT_ALL = """
import importlib, pkgutil, ostler, ostler.cli
for package in (ostler, ostler.cli):
    for one in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(one.name)
from ostler.cli.words import seconds_of, span, now
assert seconds_of("1h30m") == 5400 and span(124) == "2 min 4 s" and now()
"""


def _site() -> Path:
    import click

    return Path(click.__file__).parents[1]


def test_a_wheel_has_the_types_and_the_command(tmp_path: Path) -> None:
    source = tmp_path / "client"  # a build leaves things behind
    shutil.copytree(ROOT / "client", source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    done = subprocess.run(
        [ROOT / ".venv/bin/uv", "build", "--wheel", "-o", str(tmp_path), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry = next(one for one in names if one.endswith("entry_points.txt"))
        assert {"ostler/py.typed", "ostler/cli/main.py", "ostler/webhooks.py"} <= set(names)
        assert "ostler = ostler.cli.main:main" in archive.read(entry).decode()
