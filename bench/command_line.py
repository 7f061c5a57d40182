"""What `ostler --help` costs beside an empty program: heavy imports belong where they are used."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from statistics import median

from bench.table import Row, half_spread
from local.paths import ROOT

MOST = 8.0  # times an empty program
ROUNDS = 9
NOTHING = ("-c", "pass")
HELP = ("-m", "ostler.cli.main", "--help")


def cpu_seconds(arguments: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # noqa: S603  # ourselves
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "client/src")},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def rows() -> Iterator[Row]:
    cpu_seconds(HELP)  # which may have to compile
    ratios = [cpu_seconds(HELP) / cpu_seconds(NOTHING) for _ in range(ROUNDS)]
    yield Row(
        "command_line",
        "ostler --help",
        median(ratios),
        "times",
        MOST,
        anchor="python -c pass",
        spread=half_spread(ratios),
    )
