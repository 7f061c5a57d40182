import pytest

from functions.shared.domain.resilience import retry_wait


def wait(attempt: int, chance: float = 0.5) -> float:
    return retry_wait(attempt, base=5, cap=300, chance=lambda: chance)


def test_waits_grow_from_5_s_over_40_s_to_5_min() -> None:
    assert [wait(attempt) for attempt in (1, 2, 3, 4)] == [5, 40, 300, 300]


@pytest.mark.parametrize("attempt", [1, 2, 3, 4, 10, 10_000])
@pytest.mark.parametrize("chance", [0.0, 0.3, 0.999])
def test_jitter_stays_within_a_quarter_and_below_the_cap(attempt: int, chance: float) -> None:
    middle = wait(attempt)

    assert 0.75 * middle <= wait(attempt, chance) <= min(300, 1.25 * middle)


def test_not_everybody_comes_back_at_the_same_time() -> None:
    for attempt in (1, 2, 3):
        assert len({retry_wait(attempt, base=5, cap=300) for _ in range(20)}) > 1
