"""`ostler --help` is quick: what is heavy is imported where it is used."""

import subprocess
import sys

from local.paths import ROOT

LOADED = "import sys, ostler.cli.main; print(*sys.modules)"


def test_nothing_heavy_is_imported_for_help() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        env={"PYTHONPATH": str(ROOT / "client/src")},
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = set(done.stdout.split())
    assert "ostler.cli.main" in loaded
    assert loaded.isdisjoint({"requests", "urllib3", "rich", "ssl", "ostler.client", "ostler.models"})
