from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from functions.shared.domain.ids import (
    Mark,
    machine_name,
    new_deployment_id,
    new_instance_id,
    new_operation_id,
    read_mark,
    ulid,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
OURS, THEIRS = "0abc1def", "9xyz8wvu"
moments = st.integers(0, 250 * 365 * 86_400_000).map(
    lambda ms: datetime(2000, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=120)


def test_ids_say_what_they_are_and_are_never_the_same() -> None:
    instances = {new_instance_id(NOW) for _ in range(1000)}

    assert len(instances) == 1000
    assert all(len(one) == len("inst_") + 26 and one.startswith("inst_") for one in instances)
    assert new_operation_id(NOW).startswith("op_")


@given(moments, st.timedeltas(timedelta(milliseconds=2), timedelta(days=365)))
def test_an_id_made_later_sorts_later(first: datetime, between: timedelta) -> None:
    assert ulid(first) < ulid(first + between)


def test_a_deployment_id_can_stand_in_a_name() -> None:
    made = {new_deployment_id() for _ in range(100)}

    assert len(made) == 100
    assert all(len(one) == 8 and one.isascii() and one.isalnum() and one == one.lower() for one in made)


@given(names, st.integers(1, 9999))
def test_a_mark_can_be_read_back_whatever_the_instance_is_called(name: str, purchase: int) -> None:
    instance_id = new_instance_id(NOW)

    marked = machine_name(name, OURS, instance_id, purchase)

    assert read_mark(marked, OURS) == Mark(instance_id, purchase)
    assert read_mark(marked, THEIRS) is None
    assert marked.isascii()
    assert len(marked) <= 85


def test_the_first_purchase_has_no_suffix_and_each_name_is_another() -> None:
    instance_id = new_instance_id(NOW)
    plain = f"my-gpu-{OURS}-{instance_id.removeprefix('inst_').lower()}"

    named = [machine_name("My GPU!", OURS, instance_id, number) for number in (1, 2, 13)]

    assert named == [plain, f"{plain}-2", f"{plain}-13"]


def test_a_name_without_a_letter_is_still_a_name() -> None:
    assert machine_name("?! 漢字", OURS, new_instance_id(NOW), 1).startswith(f"gpu-{OURS}-")


def test_a_name_that_quotes_another_mark_is_its_own() -> None:
    mine, other = new_instance_id(NOW), new_instance_id(NOW)
    quoting = machine_name(f"a-{OURS}-{other.removeprefix('inst_').lower()}", THEIRS, mine, 2)

    assert read_mark(quoting, OURS) is None
    assert read_mark(quoting, THEIRS) == Mark(mine, 2)


def test_what_is_not_quite_a_mark_is_nobodys() -> None:
    good = machine_name("test", OURS, new_instance_id(NOW), 1)

    for name in (
        "",
        "test",
        OURS,
        good + "\n",
        good + "-",
        good + "-x",
        good + "-12345",
        good[:-1],
        good[1:],
    ):
        assert name == good[1:] or read_mark(name, OURS) is None, name
    assert read_mark(good + "-٣", OURS) is None
    assert read_mark(good.replace(OURS, OURS[:-1] + "."), OURS) is None
    assert read_mark(good, ".{8}") is None
