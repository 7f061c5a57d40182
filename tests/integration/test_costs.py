"""What instances cost: the intervals that Novita bills, in every view, by days and groups."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from functions.shared.domain.instance.status import Status
from functions.shared.domain.money.sums import Cost, DaySums
from tests.books import books_of, read_items
from tests.costs import Now, wrong_costs
from tests.integration.harness import Harness
from tests.integration.wire import Killed, Made

HOUR = 3600


def up(harness: Harness, **body: Any) -> tuple[str, str]:
    """An instance that runs, and its machine."""
    instance_id = harness.create(**body)
    harness.settle()
    return instance_id, str(harness.record(instance_id).machine.id)


def cost(harness: Harness, instance_id: str) -> Any:
    status, answer = harness.call("GET", f"/api/instances/{instance_id}/cost")
    assert status == 200, answer
    return answer


def costs(harness: Harness, query: str = "") -> Any:
    status, answer = harness.call("GET", f"/api/costs?{query}")
    assert status == 200, answer
    return answer


def intervals(harness: Harness, instance_id: str) -> list[tuple[float, float | None]]:
    found = [one for one in cost(harness, instance_id)["intervals"] if one["kind"] == "running"]
    return [(_seconds(one["from"]), _seconds(one["to"]) if "to" in one else None) for one in found]


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def billed(harness: Harness, machine_id: str) -> list[tuple[float, float | None]]:
    return [(one["from"], one["to"]) for one in harness.simulator.instance(machine_id)["billed"]]


def same(
    ours: list[tuple[float, float | None]], real: list[tuple[float, float | None]], within: float
) -> bool:
    pairs = [pair for one, other in zip(ours, real, strict=True) for pair in zip(one, other, strict=True)]
    return all(a is b or (a is not None and b is not None and abs(a - b) <= within) for a, b in pairs)


def sweep_on(harness: Harness, seconds: float, every: float = 60) -> None:
    """For so long; seldom where nothing changes."""
    for _ in range(int(seconds // every)):
        harness.advance(every)
        harness.sweep()
        harness.settle()


def shifted(machine: Any, **edges: float) -> Any:
    """As if the simulator's first interval had begun or ended later."""
    first, *others = machine["billed"]
    moved = {name: (first[name] or edges["now"]) + edges.get(name, 0) for name in ("from", "to")}
    return {**machine, "billed": [moved, *others]}


@pytest.mark.parametrize("edge", ["from", "to"])
@pytest.mark.parametrize(("seconds", "noticed"), [(0, False), (-5, True), (5, True)])
def test_the_books_notice_what_is_not_counted_right(
    harness: Harness, edge: str, seconds: float, noticed: bool
) -> None:
    _, machine_id = up(harness)
    harness.simulator.patch_instance(machine_id, status="exited")
    sweep_on(harness, 60)
    books = books_of(read_items(harness.dynamodb, harness.table_name))
    now = Now(datetime.fromtimestamp(harness.simulator.now(), UTC))
    (machine,) = harness.simulator.instances()

    found = list(wrong_costs([shifted(machine, **{edge: seconds})], books.histories, now))

    assert bool(found) is noticed, found
    uncounted = {**machine, "billed": [*machine["billed"], {"from": now.at.timestamp() - 500, "to": None}]}
    assert list(wrong_costs([uncounted], books.histories, now))


@pytest.mark.parametrize(("told", "within"), [(True, 1.01), (False, 61)])
def test_a_stop_and_a_start_in_novitas_console_count_from_when_they_happened(
    harness: Harness, told: bool, within: float
) -> None:
    harness.simulator.settings(timesTold=told)
    instance_id, machine_id = up(harness)
    sweep_on(harness, 600)
    harness.simulator.patch_instance(machine_id, status="exited")
    sweep_on(harness, 600)
    harness.simulator.patch_instance(machine_id, status="running")
    sweep_on(harness, 600)

    found, answer = intervals(harness, instance_id), cost(harness, instance_id)

    assert same(found, billed(harness, machine_id), within), (found, billed(harness, machine_id))
    assert answer.get("estimated", False) is not told
    harness.assert_books_balance()


def test_a_stop_and_a_start_between_two_sweeps_are_counted_where_novita_tells(harness: Harness) -> None:
    instance_id, machine_id = up(harness)
    sweep_on(harness, 300)
    harness.simulator.patch_instance(machine_id, status="exited")
    harness.advance(20)
    harness.simulator.patch_instance(machine_id, status="running")
    sweep_on(harness, 120)

    assert len(billed(harness, machine_id)) == 2
    assert same(intervals(harness, instance_id), billed(harness, machine_id), 1.01)


def test_a_stopped_machine_costs_what_is_stored_beyond_60_gb(harness: Harness) -> None:
    instance_id, _ = up(harness, rootfsSize=180)
    harness.call("POST", f"/api/instances/{instance_id}/stop")
    harness.settle()
    stopped = cost(harness, instance_id)
    harness.advance(24 * HOUR)

    answer = cost(harness, instance_id)

    assert (stopped["perHourUsd"], answer["perHourUsd"]) == ("0.025", "0.025")  # 120 GB at $0.005 a day
    assert Decimal(answer["totalUsd"]) - Decimal(stopped["totalUsd"]) == pytest.approx(
        Decimal("0.6"), abs=Decimal("0.001")
    )
    assert [one["kind"] for one in answer["intervals"]] == ["running", "storage"]


def test_every_view_says_what_it_has_cost(harness: Harness) -> None:
    instance_id, _ = up(harness, gpuNum=2)
    harness.advance(HOUR)

    one = harness.call("GET", f"/api/instances/{instance_id}")[1]["cost"]
    listed = harness.call("GET", "/api/instances")[1]["instances"][0]["cost"]
    merged = harness.call("GET", "/api/instances/comprehensive")[1]["instances"][0]["cost"]
    deleted = harness.call("DELETE", f"/api/instances/{instance_id}")[1]["cost"]

    price = harness.record(instance_id).machine.price
    assert price is not None
    assert one["perHourUsd"] == listed["perHourUsd"] == merged["perHourUsd"] == deleted["perHourUsd"]
    assert Decimal(one["perHourUsd"]) == 2 * price
    assert Decimal(one["soFarUsd"]) == pytest.approx(2 * price, rel=Decimal("0.02"))
    harness.settle()
    over = harness.call("GET", f"/api/instances/{instance_id}")[1]["cost"]
    assert over["perHourUsd"] == "0"
    assert Decimal(over["soFarUsd"]) >= Decimal(one["soFarUsd"])
    harness.assert_books_balance()


def test_a_quote_says_what_an_hour_and_a_day_cost(harness: Harness) -> None:
    status, answer = harness.call("POST", "/api/quotes", {"productName": "RTX 4090 24GB", "gpuNum": 2})

    assert status == 200
    assert Decimal(answer["perHourUsd"]) == 2 * Decimal(answer["pricePerGpuHour"])
    assert Decimal(answer["perDayUsd"]) == 24 * Decimal(answer["perHourUsd"])


def test_what_is_missing_is_counted_on_and_when_it_has_vanished_until_it_was_missed(harness: Harness) -> None:
    instance_id, machine_id = up(harness)
    sweep_on(harness, 300)
    harness.simulator.hide(machine_id)
    harness.advance(150)  # what was seen just now is not missed
    harness.sweep()
    harness.run(600)
    missing = harness.call("GET", f"/api/instances/{instance_id}")[1]
    since = datetime.fromisoformat(missing["missingSince"])
    harness.run(30 * HOUR)
    harness.settle()

    answer = cost(harness, instance_id)

    assert missing["cost"]["estimated"] is True
    assert missing["cost"]["perHourUsd"] != "0"
    assert harness.record(instance_id).status == "terminated"
    assert answer["intervals"][-1]["to"] == missing["missingSince"]
    assert answer["estimated"] is True
    assert harness.now() - since > timedelta(hours=24)
    harness.simulator.patch_instance(machine_id, status="removed")


def test_an_imported_machine_is_counted_from_then_on_at_novitas_price(harness: Harness) -> None:
    made = harness.simulator.put_instance(name="by hand", status="running", ageSeconds=9000, gpuNum=2)
    status, imported = harness.call("POST", "/api/instances/import", {"novitaInstanceId": made["id"]})
    harness.advance(HOUR)

    answer = cost(harness, imported["instanceId"])

    assert status == 201
    assert Decimal(answer["perHourUsd"]) == 2 * Decimal(made["pricePerGpuHour"]) / 100_000
    assert Decimal(answer["totalUsd"]) == pytest.approx(Decimal(answer["perHourUsd"]), rel=Decimal("0.01"))
    assert answer["estimated"] is True


def test_a_deleted_machine_costs_nothing_for_as_long_as_nobody_could_look(harness: Harness) -> None:
    instance_id, machine_id = up(harness)
    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.deliver()
    harness.advance(1800)

    harness.settle()

    assert harness.record(instance_id).status is Status.TERMINATED
    assert same(intervals(harness, instance_id), billed(harness, machine_id), within=61)
    assert cost(harness, instance_id)["estimated"] is True


def test_one_that_was_missed_before_its_delete_counts_until_then(harness: Harness) -> None:
    instance_id, machine_id = up(harness)
    sweep_on(harness, 300)
    harness.simulator.patch_instance(machine_id, status="removed")
    harness.advance(50)
    harness.sweep()
    harness.deliver()
    harness.advance(100)
    harness.call("DELETE", f"/api/instances/{instance_id}")

    harness.settle()

    assert harness.record(instance_id).status is Status.TERMINATED
    assert same(intervals(harness, instance_id), billed(harness, machine_id), within=61)


def test_one_that_stopped_while_nobody_could_look_counts_until_then_where_novita_tells(
    harness: Harness,
) -> None:
    """Its delete comes as soon as Novita answers again, and before any look."""
    harness.simulator.settings(removedVisibleSeconds=300)
    instance_id, machine_id = up(harness)
    harness.simulator.fault("status", status=503)
    harness.call("DELETE", f"/api/instances/{instance_id}")
    harness.run(60)
    harness.simulator.patch_instance(machine_id, status="exited")
    harness.run(1800)
    harness.simulator.clear_faults()

    harness.settle()

    assert harness.record(instance_id).status is Status.TERMINATED
    assert same(intervals(harness, instance_id), billed(harness, machine_id), within=1.01)
    assert "estimated" not in cost(harness, instance_id)
    harness.assert_books_balance()


def test_days_have_their_parts_by_whatever_they_are_grouped(harness: Harness) -> None:
    harness.begin(datetime(2026, 3, 1, 22, tzinfo=UTC))
    one, _ = up(harness, name="one", tags={"team": "a"})
    other, _ = up(harness, name="other", tags={"team": "b"}, gpuNum=2)
    sweep_on(harness, 3 * HOUR, every=600)

    by_day = costs(harness, "from=2026-03-01&to=2026-03-02")
    groups = {
        name: costs(harness, f"from=2026-03-01&to=2026-03-02&groupBy={name}")
        for name in ("instance", "product", "region", "key", "tag:team")
    }

    assert [one["key"] for one in by_day["groups"]] == ["2026-03-01", "2026-03-02"]
    now = sum(Decimal(cost(harness, id_)["totalUsd"]) for id_ in (one, other))
    assert Decimal(by_day["totalUsd"]) == pytest.approx(now, rel=Decimal("0.05"))
    for answer in groups.values():
        parts = sum(Decimal(one["amountUsd"]) for one in answer["groups"])
        assert parts == pytest.approx(Decimal(answer["totalUsd"]), abs=Decimal("0.001"))
        assert answer["totalUsd"] == by_day["totalUsd"]
    assert [group["key"] for group in groups["instance"]["groups"]] == sorted([one, other])
    assert [group["key"] for group in groups["tag:team"]["groups"]] == ["a", "b"]
    first, second = groups["tag:team"]["groups"]
    assert Decimal(second["amountUsd"]) == pytest.approx(2 * Decimal(first["amountUsd"]), rel=Decimal("0.05"))
    assert [day["date"] for day in first["days"]] == ["2026-03-01", "2026-03-02"]
    harness.assert_books_balance()


def test_what_has_no_such_tag_is_a_group_of_its_own_and_groups_make_the_whole(harness: Harness) -> None:
    harness.begin(datetime(2026, 3, 1, 22, tzinfo=UTC))
    up(harness, name="untagged")
    sweep_on(harness, 3 * HOUR, every=600)
    up(harness, name="tagged", tags={"team": "a"})
    up(harness, name="other", tags={"team": "b", "stage": "test"})
    sweep_on(harness, HOUR, every=600)
    query = "from=2026-03-01&to=2026-03-02&groupBy=tag:team"

    whole, nobodys = costs(harness, query), costs(harness, query.replace("team", "nobody"))
    first = costs(harness, f"{query}&limit=1")
    second = costs(harness, f"{query}&limit=1&cursor={first['nextCursor']}")

    assert [group["key"] for group in whole["groups"]] == ["", "a", "b"]
    assert [day["date"] for day in whole["groups"][0]["days"]] == ["2026-03-01", "2026-03-02"]
    parts = sum(Decimal(one["amountUsd"]) for one in whole["groups"])
    assert parts == pytest.approx(Decimal(whole["totalUsd"]), abs=Decimal("0.0003"))
    assert [(one["key"], one["amountUsd"]) for one in nobodys["groups"]] == [("", nobodys["totalUsd"])]
    assert [one["key"] for page in (first, second) for one in page["groups"]] == ["", "a"]


def test_tags_of_what_has_ended_are_not_written_anew(harness: Harness) -> None:
    """However many of them a day has had: others may run on."""
    harness.begin(datetime(2026, 3, 1, 12, tzinfo=UTC))
    ended, _ = up(harness, name="ended", tags={f"job-{number}": "x" for number in range(20)})
    harness.call("DELETE", f"/api/instances/{ended}")
    harness.settle()
    up(harness, name="runs", tags={"team": "a"})
    sweep_on(harness, 600)
    harness.wire.calls.clear()
    harness.advance(300)

    harness.sweep()

    written = sum(one.name == "PutItem costs/sum" for one in harness.wire.calls)
    assert 0 < written <= 6  # all, instance, product, region, key, team
    day = harness.now().date()
    job = costs(harness, f"from={day}&to={day}&groupBy=tag:job-7")
    assert [one["key"] for one in job["groups"]] == ["", "x"]
    parts = sum(Decimal(one["amountUsd"]) for one in job["groups"])
    assert parts == pytest.approx(Decimal(job["totalUsd"]), abs=Decimal("0.0002"))


def test_a_sweep_that_dies_while_it_sums_leaves_no_sum_that_looks_new(harness: Harness) -> None:
    """The groups make the whole, wherever it has died, as soon as the next sweep has ended."""
    up(harness, tags={"team": "a"})
    writes = "PutItem costs/sum"
    sweep_on(harness, 60)
    harness.advance(300)
    harness.wire.calls.clear()
    harness.sweep()
    count = sum(one.name == writes for one in harness.wire.calls)
    assert count >= 6

    for last in range(count):
        harness.advance(300)
        made = iter(range(count))

        def die(one: Made, made: Iterator[int] = made, last: int = last) -> None:
            if one.name == writes and next(made) == last:
                raise Killed

        harness.wire.after = die
        harness.sweep()
        harness.wire.after = None
        harness.advance(60)
        harness.sweep()

        answers = [costs(harness, f"groupBy={one}") for one in ("instance", "region", "key", "tag:team")]
        assert {one["totalUsd"] for one in answers} == {one["groups"][0]["amountUsd"] for one in answers}
        age = harness.now() - datetime.fromisoformat(answers[0]["asOf"])
        assert age < timedelta(seconds=10) or last == count - 1


def test_todays_sums_are_at_most_five_minutes_old(harness: Harness) -> None:
    up(harness)
    ages = []
    for _ in range(12):
        harness.advance(60)
        harness.sweep()
        ages.append((harness.now() - datetime.fromisoformat(costs(harness)["asOf"])).total_seconds())

    assert max(ages) < 300


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=2026-03-02&to=2026-03-01", "from"),
        ("from=2024-01-01&to=2026-03-01", "from"),
        ("from=yesterday", "from"),
        ("to=2026-13-01", "to"),
        ("to=0", "to"),
        ("to=2026-03-01T00:00:00", "to"),
        ("groupBy=colour", "groupBy"),
        ("groupBy=tag:", "groupBy"),
        ("limit=0", "limit"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(harness: Harness, query: str, field: str) -> None:
    status, answer = harness.call("GET", f"/api/costs?{query}")

    assert (status, answer["error"]["code"]) == (400, "VALIDATION_ERROR")
    assert [one["field"] for one in answer["error"]["validationErrors"]] == [field]


@pytest.mark.parametrize("group_by", ["day", "product"])
def test_a_cursor_of_none_of_its_pages_is_refused(harness: Harness, group_by: str) -> None:
    status, answer = harness.call("GET", f"/api/costs?groupBy={group_by}&cursor={'0' * 40}")

    assert (status, answer["error"]["code"]) == (400, "INVALID_CURSOR")


def test_pages_go_on_behind_the_longest_tag_that_there_can_be(harness: Harness) -> None:
    values = ["\N{ROCKET}" * 256, "\N{ROCKET}" * 255 + "\N{HELICOPTER}"]
    sums = DaySums()
    for value in values:
        sums.add(Cost(Decimal("0.5"), "inst_1", "RTX 4090 24GB", "CN-HK-01", "key_1", (("team", value),)))
    harness.wiring.cost_sums.write(date(2026, 1, 1), sums, harness.now())
    query = "from=2026-01-01&to=2026-01-01&groupBy=tag:team&limit=1"

    first = costs(harness, query)
    second = costs(harness, f"{query}&cursor={first['nextCursor']}")

    assert [one["key"] for page in (first, second) for one in page["groups"]] == values
    assert "nextCursor" not in second


def month_of(harness: Harness, instances: int, days: int) -> list[str]:
    ids = [f"inst_{number:026d}" for number in range(instances)]
    for number in range(days):
        sums = DaySums()
        for id_ in ids:
            sums.add(Cost(Decimal("0.5"), id_, "RTX 4090 24GB", "CN-HK-01", "key_1"))
        day = date(2026, 1, 1) + timedelta(days=number)
        harness.wiring.cost_sums.write(day, sums, harness.now())
    return ids


@pytest.mark.parametrize("instances", [600, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_month_is_read_at_a_price_that_does_not_grow_with_its_instances(
    harness: Harness, instances: int
) -> None:
    ids = month_of(harness, instances, 31)
    reads = {}
    for group_by in ("day", "product", "instance"):
        harness.wire.calls.clear()
        answer = costs(harness, f"from=2026-01-01&to=2026-01-31&groupBy={group_by}&limit=20")
        made = [one for one in harness.wire.calls if one.name.split()[0] in ("BatchGetItem", "Query", "Scan")]
        keys = [len(one.params["RequestItems"][harness.table_name]["Keys"]) for one in made]
        reads[group_by] = sum(keys)
        assert Decimal(answer["totalUsd"]) == instances * 31 * Decimal("0.5")

    # For each day: the sum of all, where the groups begin, and at most two items of groups.
    assert reads["day"] == 31
    assert max(reads.values()) <= 31 * 4

    seen, query = [], "from=2026-01-01&to=2026-01-31&groupBy=instance&limit=100"
    answer = costs(harness, query)
    for _ in range(5):
        seen += [group["key"] for group in answer["groups"]]
        assert all(group["amountUsd"] == "15.5000" for group in answer["groups"])
        answer = costs(harness, f"{query}&cursor={answer['nextCursor']}")
    assert seen == ids[:500]
