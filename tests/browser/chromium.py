"""Finds a browser: the one in the npm package @sparticuz/chromium, else one that is installed."""

import fcntl
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from local.paths import BUILD

PACKAGES = BUILD / "node" / "node_modules"
_PACKED = PACKAGES / "@sparticuz" / "chromium" / "bin"
_PACKED_FOR = ("linux", "x86_64")
_UNPACKED = BUILD / "chromium"
_INSTALLED = (
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
_UNPACK = """
const [from, to] = process.argv.slice(1), fs = require("fs"), zlib = require("zlib");
require("stream").pipeline(fs.createReadStream(from), zlib.createBrotliDecompress(), fs.createWriteStream(to),
  (error) => { if (error) throw error; });
"""
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{folder}/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>{folder}/fonts-cache</cachedir>
  <alias binding="same"><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
  <alias binding="same"><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass(frozen=True)
class Chromium:
    path: Path
    environment: dict[str, str] = field(default_factory=dict)


def find() -> Chromium | None:
    """None where there is none, and none can be made."""
    runs_here = (sys.platform, platform.machine()) == _PACKED_FOR
    if runs_here and (_PACKED / "chromium.br").exists() and shutil.which("node"):
        return _unpacked()
    installed = next(filter(None, map(shutil.which, _INSTALLED)), None)
    return Chromium(Path(installed), dict(os.environ)) if installed else None


def _unpacked() -> Chromium:
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "chromium.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests that start side by side share it
        if not (_UNPACKED / "fonts.conf").exists():
            _unpack()
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(_UNPACKED / "lib"),  # what a machine without a desktop lacks
        "FONTCONFIG_FILE": str(_UNPACKED / "fonts.conf"),
    }
    return Chromium(_UNPACKED / "chromium", environment)


def _unpack() -> None:
    shutil.rmtree(_UNPACKED, ignore_errors=True)
    _UNPACKED.mkdir()
    for name in ("chromium", "al2023.tar", "fonts.tar"):
        source, target = _PACKED / f"{name}.br", _UNPACKED / name
        subprocess.run(["node", "-e", _UNPACK, str(source), str(target)], check=True)
    for name in ("al2023.tar", "fonts.tar"):
        with tarfile.open(_UNPACKED / name) as archive:
            archive.extractall(_UNPACKED, filter="data")
        (_UNPACKED / name).unlink()
    (_UNPACKED / "chromium").chmod(0o755)
    (_UNPACKED / "fonts.conf").write_text(_FONTS.format(folder=_UNPACKED))
