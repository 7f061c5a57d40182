"""What is asked of Novita when the cache does not know: all of it within the caller's one time."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from functions.shared.domain.errors import NotFound
from functions.shared.engine.catalog import Catalog
from tests.unit.builders import new_spec


class NoCache:
    def get(self, key: str, max_age: float) -> None:  # noqa: ARG002  # the cache's names
        return None

    def put(self, key: str, value: Any) -> None:
        pass


@dataclass
class SlowNovita:
    """Sells nothing, and takes half a second to say so."""

    now: float = 0.0
    given: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def clusters(self, *, within: float) -> dict[str, str]:
        return dict(self.products(within=within))

    def products(self, *, within: float, **_: Any) -> tuple[Any, ...]:
        self.given.append(within)
        self.now += 0.5
        return ()


def test_whatever_is_asked_one_after_the_other_shares_the_time() -> None:
    novita: Any = SlowNovita()
    cache: Any = NoCache()
    catalog = Catalog(novita, cache, "CN-HK-01", (), 300, 600, clock=novita.clock)

    with pytest.raises(NotFound):
        catalog.quote(new_spec(), within=2.0)
    with pytest.raises(NotFound):
        catalog.offers(new_spec(), max_age=30, excluded=frozenset(), within=5.0)

    assert novita.given == [2.0, 1.5, 5.0, 4.5, 4.0]
