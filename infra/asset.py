"""The functions' code asset: dependencies and our code, compiled, without Docker and without boto3.

Uses the standard library only, so that it can be built where aws_cdk is not wanted.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from infra import page
from infra.interpreter import find_python

ROOT = Path(__file__).resolve().parent.parent
ASSET = ROOT / ".build" / "asset"
SOURCES = ROOT / "functions"

NEVER_SHIPPED = shutil.ignore_patterns(
    "tests", "test", "bin", "__pycache__", "*.pyc", "*.pyi", "*.md", ".*", "requirements.txt"
)


@dataclass(frozen=True)
class Target:
    """Where the asset will run; without a platform, on this machine."""

    python_version: str
    python_platform: str | None = None


LAMBDA = Target("3.13", "aarch64-manylinux2014")
HERE = Target(f"{sys.version_info.major}.{sys.version_info.minor}")


def build(folder: Path = ASSET, target: Target = LAMBDA, sources: Path = SOURCES) -> Path:
    """Build the folder unless it is already what the sources and pins say. Same sources, same bytes.

    Its stamp, and the dependencies for the next time, are kept beside it.
    """
    stamp = folder.with_name(f"{folder.name}.stamp")
    requirements = sources / "requirements.txt"
    wanted = _digest(target, [requirements, *_shipped(sources)])
    with _one_at_a_time(folder.parent):
        if folder.is_dir() and stamp.exists() and stamp.read_text() == wanted:
            return folder
        compiler = find_python(target.python_version)
        dependencies = _dependencies(folder.parent, target, requirements, compiler)
        with _replaced(folder) as staging:
            shutil.copytree(dependencies, staging, dirs_exist_ok=True)
            shutil.copytree(sources, staging / "functions", ignore=NEVER_SHIPPED)
            _put_page_together(sources, staging / "functions")
            _finish(staging, "functions", compiler)
        # An asset that could not be compiled works, but is built again until it can be.
        stamp.write_text(wanted if compiler else "")
    return folder


def _put_page_together(sources: Path, shipped: Path) -> None:
    """One document takes the place of what it is made of."""
    if (sources / page.FOLDER).is_dir():
        shutil.rmtree(shipped / page.FOLDER)
        (shipped / page.FOLDER).mkdir()
        (shipped / page.FOLDER / page.DOCUMENT).write_text(page.assemble(sources / page.FOLDER), "utf-8")


def _dependencies(beside: Path, target: Target, requirements: Path, compiler: str | None) -> Path:
    """The dependencies alone: they change seldom, and take most of the time."""
    name = f"dependencies-{target.python_version}-{target.python_platform or 'here'}"
    folder = beside / f"{name}-{_digest(target, [requirements])[:12]}{'' if compiler else '-plain'}"
    if folder.is_dir():
        return folder
    for outdated in beside.glob(f"{name}-*"):
        shutil.rmtree(outdated)
    with TemporaryDirectory(dir=beside) as installed, _replaced(folder) as staging:
        _install(requirements, installed, target)
        shutil.copytree(installed, staging, ignore=NEVER_SHIPPED, dirs_exist_ok=True)
        _keep_versions_only(staging)
        _finish(staging, ".", compiler)
    return folder


def _install(requirements: Path, folder: str, target: Target) -> None:
    # The file pins everything, so nothing may be resolved that it does not name.
    command = [_uv(), "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--python", sys.executable, "--target", folder, "-r", str(requirements)]
    if target.python_platform:
        command += ["--python-platform", target.python_platform, "--python-version", target.python_version]
    _run(command)


def _keep_versions_only(folder: Path) -> None:
    """importlib.metadata reads METADATA; the rest of a dist-info is paths, hashes and licences."""
    for info in folder.glob("*.dist-info"):
        for entry in info.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != "METADATA":
                entry.unlink()


def _finish(folder: Path, part: str, compiler: str | None) -> None:
    """Compile what is new, and take out what differs between two builds: embedded paths, times, modes."""
    if compiler:
        # Unpacking changes the times that .pyc files are checked by, so ours are not checked at all.
        command = [compiler, "-S", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
        _run([*command, "-s", str(folder), str(folder / part)])
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (315532800, 315532800))  # 1980, where zip files begin


def _shipped(sources: Path) -> list[Path]:
    found = []
    for folder, folders, files in os.walk(sources):
        ignored = NEVER_SHIPPED(folder, [*folders, *files])
        folders[:] = [name for name in folders if name not in ignored]
        found += [Path(folder) / name for name in files if name not in ignored]
    return found


def _digest(target: Target, files: list[Path]) -> str:
    """Over the files, and over how they are built, which matters as much."""
    digest = hashlib.sha256(repr(target).encode())
    for file in [*sorted(files), Path(__file__), Path(page.__file__)]:
        digest.update(f"{file} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if not found:
        raise FileNotFoundError("uv is needed to build the asset: beside this Python, or on the path")
    return found


def _run(command: list[str]) -> None:
    # A fixed seed, since the order of sets must not show in what is compiled.
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S603  # all ours


@contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """A folder to fill that takes the place of `folder` at once and whole, or not at all."""
    with TemporaryDirectory(dir=folder.parent) as room:
        staging = Path(room) / "new"
        staging.mkdir()
        yield staging
        staging.chmod(0o755)
        if folder.exists():
            folder.rename(Path(room) / "old")
        staging.rename(folder)


@contextmanager
def _one_at_a_time(beside: Path) -> Iterator[None]:
    beside.mkdir(parents=True, exist_ok=True)
    with (beside / "asset.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.stdout.write(f"{build().relative_to(ROOT)}\n")
