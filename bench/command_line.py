"""What `ostler --help` costs beside an empty program: heavy imports belong where they are used."""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence

from local.paths import ROOT

MOST_MORE_SECONDS = 0.2
MOST_RATIO = 12.0  # of an empty program's time: holds on slower and faster machines alike
TRIES = 7
NOTHING = ("-c", "pass")
HELP = ("-m", "ostler.cli.main", "--help")


def cpu_seconds(arguments: Sequence[str], tries: int = TRIES) -> float:
    """The least of some tries: whatever else runs here only adds to it."""
    return min(_one(arguments) for _ in range(tries + 1))  # the first may have to compile


def _one(arguments: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # noqa: S603  # ourselves
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "client/src")},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def main() -> int:
    nothing, help_ = cpu_seconds(NOTHING), cpu_seconds(HELP)
    ratio = help_ / nothing
    good = help_ - nothing <= MOST_MORE_SECONDS and ratio <= MOST_RATIO
    print(
        f"{'ok' if good else 'NO':<4}ostler --help: {help_ * 1000:.0f} ms of CPU, python -c pass: "
        f"{nothing * 1000:.0f} ms; {ratio:.1f} times (at most {MOST_RATIO:g}), "
        f"{(help_ - nothing) * 1000:.0f} ms more (at most {MOST_MORE_SECONDS * 1000:.0f})"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
