"""Novita's list, read by one process at a time and shared by all."""

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from functions.shared.domain.errors import NotNow, NovitaForNow
from functions.shared.domain.instance.machine import Endpoint, Machine, Mount
from functions.shared.engine.shared_polling import ListSnapshot, SharedList
from functions.shared.stores.cache import SharedCache
from functions.shared.stores.table import Table
from tests.unit.builders import NOW, after

WHOLE = Machine(
    id="m-1",
    name="ours",
    status="running",
    endpoints=(Endpoint(8188, "http", "https://8188.example"), Endpoint(22, "tcp", "")),
    region="EU",
    product_id="p1",
    product_name="RTX 4090",
    gpu_num=2,
    rootfs_size=80,
    billing_mode="spot",
    spot_status="notified",
    spot_reclaim_at=after(60),
    error="pulling: failed",
    created_at=NOW,
    started_at=after(5),
    stopped_at=after(4),
    price=Decimal("0.35"),
    storage_price=Decimal("0.005"),
    ends_at=after(3600),
    cluster_id="eu-1",
    image="ghcr.io/acme/app:1",
    cpu_num=16,
    memory=62,
    mounts=(Mount("network", "/data", "ns-1", 100), Mount("local", "/workspace")),
)
BARE = Machine(id="m-2", name="", status="")


def test_the_whole_machine_has_every_field_set() -> None:
    assert all(getattr(WHOLE, one.name) != one.default for one in fields(WHOLE))


class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Novita:
    """Its list, and what happens while it is read."""

    def __init__(self) -> None:
        self.reads = 0
        self.key = "key-1"  # the version that this process has
        self.meanwhile: Callable[[], Any] = lambda: None

    def key_version(self) -> str:
        return self.key

    def list_counted(self, *, within: float) -> tuple[tuple[Machine, ...], int]:
        assert within > 0
        self.reads += 1
        self.meanwhile()
        return (WHOLE, BARE), 3


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def novita() -> Novita:
    return Novita()


@pytest.fixture
def process(table: Table, clock: Clock, novita: Novita) -> Callable[[], SharedList]:
    def make() -> SharedList:
        return SharedList(novita, SharedCache(table, clock), table, clock, clock.wait)  # type: ignore[arg-type]  # a fake Novita

    return make


Process = Callable[[], SharedList]


def test_what_one_process_reads_another_has_without_a_call(process: Process, novita: Novita) -> None:
    read, mine = process().shared(5, None)

    found = process().newest()

    assert mine
    assert found == read == ListSnapshot(NOW, {"m-1": WHOLE, "m-2": BARE}, 3, "key-1")
    assert novita.reads == 1


def test_what_was_read_with_another_key_is_shared_with_nobody(process: Process, novita: Novita) -> None:
    """It may be another account's: functions change keys minutes apart."""
    process().shared(5, None)
    novita.key = "key-2"

    found = process().newest()
    read, mine = process().shared(5, None)

    assert (found, mine, read.key_version) == (None, True, "key-2")
    assert novita.reads == 2


def test_the_time_of_a_list_is_when_the_request_began(process: Process, novita: Novita, clock: Clock) -> None:
    novita.meanwhile = lambda: clock.wait(3)

    listed, _ = process().shared(5, None)

    assert (listed.began, clock.now) == (NOW, after(3))


def test_while_one_reads_the_others_wait_a_moment_for_what_it_finds(
    process: Process, novita: Novita, clock: Clock
) -> None:
    reader, other = process(), process()
    seen: list[Any] = []

    def another_asks() -> None:
        novita.meanwhile = lambda: None
        with pytest.raises(NotNow) as refused:
            other.shared(5, None)
        seen.append(refused.value.retry_after)

    novita.meanwhile = another_asks
    listed, mine = reader.shared(5, None)

    assert mine
    assert novita.reads == 1
    assert seen == [2.0]
    assert clock.now <= after(2.1)
    assert other.shared(5, None) == (listed, False)  # it has just been read


def test_where_the_reader_gives_up_one_of_those_who_wait_reads(
    process: Process, novita: Novita, clock: Clock
) -> None:
    reader, other = process(), process()
    lease = reader._take(5)
    assert lease
    wait = clock.wait

    def gives_up(seconds: float) -> None:
        wait(seconds)
        if seconds:
            reader._release(lease)

    other._wait = gives_up

    _, mine = other.shared(5, None)

    assert mine
    assert novita.reads == 1


def test_a_list_that_is_there_while_one_waits_is_taken(
    process: Process, novita: Novita, clock: Clock
) -> None:
    reader, other = process(), process()
    reader.shared(5, None)
    lease = reader._take(5)
    assert lease
    clock.wait(1)

    listed, mine = other.shared(5, NOW - timedelta(seconds=60))

    assert (listed.began, mine, novita.reads) == (NOW, False, 1)


def test_nobody_reads_again_what_was_read_while_they_made_up_their_mind(
    process: Process, novita: Novita, clock: Clock
) -> None:
    slow = process()
    known = slow.newest()
    assert known is None
    process().shared(5, None)
    clock.wait(1)

    listed, mine = slow.shared(5, None)

    assert (listed.began, mine, novita.reads) == (NOW, False, 1)


def test_a_reader_that_has_died_is_not_waited_for_longer_than_a_read_takes(
    process: Process, novita: Novita, clock: Clock
) -> None:
    def dies() -> None:
        raise KeyboardInterrupt

    reader = process()
    novita.meanwhile = dies
    reader._release = lambda lease: None  # type: ignore[method-assign]  # noqa: ARG005  # it crashed
    with pytest.raises(KeyboardInterrupt):
        reader.shared(5, None)
    novita.meanwhile = lambda: None

    with pytest.raises(NotNow):
        process().shared(5, None)
    clock.now = after(6)
    _, mine = process().shared(5, None)

    assert mine


def test_a_read_that_fails_is_nobodys_turn_any_more(process: Process, novita: Novita) -> None:
    def fails() -> None:
        novita.meanwhile = lambda: None
        raise NovitaForNow("NOVITA_UNAVAILABLE", "down")

    novita.meanwhile = fails
    with pytest.raises(NovitaForNow):
        process().shared(5, None)

    _, mine = process().shared(5, None)

    assert mine


def test_whoever_was_too_slow_does_not_end_the_turn_of_the_next(process: Process, clock: Clock) -> None:
    slow, next_one = process(), process()
    late = slow._take(5)
    assert late
    clock.now = after(7)
    assert next_one._take(5)

    slow._release(late)

    assert process()._take(5) is None


def test_a_list_of_another_version_is_none(process: Process, table: Table, clock: Clock) -> None:
    SharedCache(table, clock).put("list", {"began": "yesterday"})

    assert process().newest() is None
