"""`ostler --help` is quick: what is heavy is imported where it is used."""

import subprocess
import sys

from bench.command_line import HELP, MOST_RATIO, NOTHING, cpu_seconds
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


def test_help_costs_a_few_times_an_empty_program() -> None:
    assert cpu_seconds(HELP, tries=3) <= MOST_RATIO * cpu_seconds(NOTHING, tries=3)
