"""`make bench`: every group of measurements, or those that are named, in `bench/RESULTS.md`; and the parts of
the documents that are made from it."""

import sys
import time
from collections.abc import Sequence

from bench.groups import groups, measure
from bench.results import RESULTS, changes, merged, read, written
from bench.table import Row
from docs.generate import main as write_documents


def main(arguments: Sequence[str]) -> int:
    known = groups()
    chosen = arguments or known
    if not set(chosen) <= set(known):
        print(f'usage: make bench ARGS="{" ".join(known)}", or some of them', file=sys.stderr)
        return 2
    before = read(RESULTS.read_text()) if RESULTS.exists() else []
    now: list[Row] = []
    for group in chosen:
        began = time.monotonic()
        now += measure(group)
        RESULTS.write_text(written(merged(before, now)))
        print(f"{group} took {time.monotonic() - began:.0f} s\n", flush=True)
    write_documents()  # some of which say what was measured
    print("", *changes(before, now), sep="\n")
    return int(not all(row.holds for row in now))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
