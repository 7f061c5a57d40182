"""What the proof adds up to: counted by the tests as they go, printed once at the end of the run."""

from collections import Counter

KILL_POINTS = "kill points tried"
FAULT = "fault: "  # and its kind
INSTANCES = "instances run"
LOST = "lost"
DOUBLED = "doubled"
LEFT_OVER = "left over"
GIVEN_BACK = "bought after an unclear outcome and given back"

counts: Counter[str] = Counter()


def add(what: str, number: int = 1) -> None:
    counts[what] += number


def add_faults(injected: Counter[str]) -> None:
    for kind, number in injected.items():
        add(f"{FAULT}{kind}", number)


def lines(totals: Counter[str]) -> list[str]:
    """Nothing if nothing of it was run."""
    if not totals:
        return []
    faults = {name.removeprefix(FAULT): n for name, n in sorted(totals.items()) if name.startswith(FAULT)}
    shown = [f"{name}: {totals[name]}" for name in (KILL_POINTS, INSTANCES, LOST, DOUBLED, LEFT_OVER)]
    shown.append(f"{GIVEN_BACK}: {totals[GIVEN_BACK]}")
    return [
        *shown,
        f"faults injected: {sum(faults.values())}",
        *(f"  {n} {kind}" for kind, n in faults.items()),
    ]
