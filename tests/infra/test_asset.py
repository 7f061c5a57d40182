"""The code that ships: complete, small, compiled, the same every time."""

import filecmp
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra import asset
from infra.interpreter import find_python
from tests.infra.template import NAMES

# What the runtime brings, and the asset therefore leaves out.
FROM_THE_RUNTIME = ("boto3", "botocore", "s3transfer", "dateutil", "six")
PYC_313_MAGIC = b"\xf3\x0d\x0d\x0a"
UNCHECKED_HASH = b"\x01\x00\x00\x00"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real ones, in a copy that nobody edits while the tests run."""
    return Path(shutil.copytree(asset.SOURCES, tmp_path_factory.mktemp("sources") / "functions"))


@pytest.fixture(scope="module")
def shipped(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As deployed: for Lambda's Python and processor."""
    return asset.build(tmp_path_factory.mktemp("lambda") / "asset", sources=sources)


@pytest.fixture(scope="module")
def runnable(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for this machine."""
    return asset.build(tmp_path_factory.mktemp("here") / "asset", asset.HERE, sources)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with boto3 and what only it needs, as the runtime has."""
    folder = tmp_path_factory.mktemp("runtime")
    for name in FROM_THE_RUNTIME:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        source = origin.parent if origin.name == "__init__.py" else origin
        (folder / source.name).symlink_to(source)
    return folder


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Sources that are built in no time."""
    sources = tmp_path / "sources"
    (sources / "tests").mkdir(parents=True)
    (sources / "requirements.txt").touch()
    (sources / "one.py").write_text("ONE = 1\n")
    (sources / "page.html").touch()
    (sources / "tests" / "test_one.py").touch()
    return sources


@pytest.mark.parametrize("name", NAMES)
def test_each_handler_imports_with_only_the_assets_files_on_the_path(
    runnable: Path, runtime: Path, name: str
) -> None:
    program = (
        f"import sys; sys.path[:0] = {[str(runnable), str(runtime)]!r}; "
        f"from functions.{name}.handler import handler; assert callable(handler)"
    )

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], env={}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_it_leaves_out_what_the_runtime_has(shipped: Path) -> None:
    assert not [name for name in FROM_THE_RUNTIME if list(shipped.glob(f"{name}*"))]


def test_the_page_is_one_document(shipped: Path) -> None:
    assert [path.name for path in (shipped / "functions" / "api" / "page").iterdir()] == ["index.html"]


def test_native_code_is_for_arm64(shipped: Path) -> None:
    libraries = list(shipped.rglob("*.so"))

    assert libraries
    assert all(library.read_bytes()[18:20] == b"\xb7\x00" for library in libraries)  # ELF's number for it


@pytest.mark.skipif(not find_python("3.13"), reason="needs a Python 3.13 to compile with")
def test_every_module_is_compiled_for_313_and_never_checked_against_times(shipped: Path) -> None:
    for module in shipped.rglob("*.py"):
        compiled = module.parent / "__pycache__" / f"{module.stem}.cpython-313.pyc"
        assert compiled.read_bytes()[:8] == PYC_313_MAGIC + UNCHECKED_HASH, module


def test_two_builds_are_the_same_to_the_last_byte(sources: Path, shipped: Path, tmp_path: Path) -> None:
    again = asset.build(tmp_path / "asset", sources=sources)

    files = sorted(str(file.relative_to(shipped)) for file in shipped.rglob("*") if file.is_file())
    assert files == sorted(str(file.relative_to(again)) for file in again.rglob("*") if file.is_file())
    assert filecmp.cmpfiles(shipped, again, files, shallow=False) == (files, [], [])


def test_it_is_built_again_only_when_something_changed(tiny: Path, tmp_path: Path) -> None:
    def built() -> int:
        return asset.build(tmp_path / "asset", asset.HERE, tiny).stat().st_ino

    first = built()

    assert built() == first
    (tiny / "tests" / "test_one.py").write_text("changed = True\n")
    assert built() == first
    (tiny / "one.py").write_text("ONE = 1.0\n")
    assert built() != first


def test_it_ships_code_and_data_but_no_tests(tiny: Path, tmp_path: Path) -> None:
    folder = asset.build(tmp_path / "asset", asset.HERE, tiny)

    shipped = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.suffix != ".pyc"}
    assert shipped == {"functions", "functions/one.py", "functions/page.html", "functions/__pycache__"}


def test_without_the_right_python_it_warns_and_builds_uncompiled(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = asset.build(tmp_path / "asset", asset.Target("3.99"), tiny)

    assert "no Python 3.99 found" in capsys.readouterr().err
    assert (folder / "functions" / "one.py").exists()
    assert not list(folder.rglob("*.pyc"))
