"""What the counters of caps say, and what they should: the sum of what the records commit."""

from functions.shared.domain.money.caps import DEPLOYMENT, NOTHING, Commitment, committed
from ops import keys
from tests.integration.harness import Harness


def in_use(harness: Harness, name: str = DEPLOYMENT) -> Commitment:
    counter = harness.wiring.caps.read(name)
    return counter.in_use if counter else NOTHING


def assert_counters_right(harness: Harness, *names: str) -> None:
    """To the last millionth of a dollar."""
    records = harness.records()
    for name in names or (DEPLOYMENT,):
        of = [one for one in records if name == DEPLOYMENT or (one.actor == name and one.capped)]
        assert in_use(harness, name) == sum(map(committed, of), NOTHING), name


def count_all(harness: Harness) -> str:
    """With caps that are never reached, the deployment's and the key's: both are counted."""
    harness.environment["MAX_HOURLY_USD"] = "100000"
    harness.key = keys.new_key()
    made = keys.create_key(
        harness.table, name="capped", scopes=keys.SCOPES, key=harness.key, max_instances=100_000
    )
    harness.restart()
    return made.id
