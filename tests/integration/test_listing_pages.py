"""Lists in pages: what a page costs, that none is missed or shown twice, that cursors cannot be made up."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.api.cursors import Cursors
from functions.shared.domain.ids import new_instance_id
from functions.shared.domain.instance.record import Spec
from functions.shared.domain.instance.status import Status
from functions.shared.stores.schema import packed, unpacked
from tests.integration.harness import Harness
from tests.integration.market import PRODUCT
from tests.integration.stored_records import put, put_alike, put_listed, reading, stored
from tests.unit.builders import new_instance


def page(harness: Harness, query: str = "", cursor: str | None = None) -> Any:
    parts = [part for part in (query, f"cursor={cursor}" if cursor else "") if part]
    status, answer = harness.call("GET", f"/api/instances?{'&'.join(parts)}")
    assert status == 200, answer
    return answer


def ids(answer: Any) -> list[str]:
    return [one["instanceId"] for one in answer["instances"]]


@pytest.mark.parametrize("many", [2000, pytest.param(5000, marks=pytest.mark.soak)])
def test_the_last_page_of_thousands_costs_what_page_1_costs(harness: Harness, many: int) -> None:
    began = harness.now() - timedelta(days=10)
    newest_first = [new_instance_id(began - timedelta(seconds=number)) for number in range(many)]
    put_alike(harness, stored(began), newest_first)
    page(harness, "limit=20")  # warm: the total is counted, the key, the circuit and the deployment are known
    with reading(harness) as of_page_1:
        first = page(harness, "limit=20")
    with reading(harness) as of_page_2:
        second = page(harness, "limit=20", first["nextCursor"])
    cursors = Cursors(harness.wiring.cursor_secret.value)
    assert first["nextCursor"] == cursors.make(newest_first[19], "[null, null, null, null]")
    last_but_one_ended = cursors.make(newest_first[many - 21], "[null, null, null, null]")
    with reading(harness) as of_the_last:
        last = page(harness, "limit=20", last_but_one_ended)

    assert first["total"] == many
    assert of_page_1.calls == of_page_2.calls == of_the_last.calls
    assert of_page_1.calls.count("Query") == 1
    assert of_page_1.calls.count("BatchGetItem") == 2  # the records, and when they were last used
    assert of_the_last.entries <= of_page_1.entries == of_page_2.entries == 21
    assert ids(first) + ids(second) == newest_first[:40]
    assert ids(last) == newest_first[-20:]
    assert "nextCursor" not in last


def test_inserts_and_deletes_between_pages_hide_nothing_and_repeat_nothing(harness: Harness) -> None:
    began = harness.now() - timedelta(hours=1)
    records = [stored(began + timedelta(seconds=number)) for number in range(30)]
    put(harness, records)

    seen: list[str] = []
    answer = page(harness, "limit=7&status=failed")
    while True:
        seen += ids(answer)
        if "nextCursor" not in answer:
            break
        # One comes, one that was shown leaves the listing, and one that is still to be shown does too.
        put(harness, [stored(harness.now())])
        left = sorted({one.id for one in records} - set(seen))
        for gone in (seen[-1], *left[:1]):
            old = next(one for one in records if one.id == gone)
            put(harness, [replace(old, status=Status.TERMINATED)])
            records = [one for one in records if one.id != gone or gone in seen]
        answer = page(harness, "limit=7&status=failed", answer["nextCursor"])

    assert len(seen) == len(set(seen))
    assert set(seen) == {one.id for one in records}


def test_an_instance_that_was_the_last_of_a_page_may_vanish_and_the_next_page_follows(
    harness: Harness,
) -> None:
    began = harness.now() - timedelta(hours=1)
    records = [stored(began + timedelta(seconds=number)) for number in range(5)]
    put(harness, records)
    first = page(harness, "limit=2")
    key = {"pk": {"S": ids(first)[-1]}, "sk": {"S": "record"}}
    harness.dynamodb.delete_item(TableName=harness.table_name, Key=key)

    second = page(harness, "limit=2", first["nextCursor"])

    assert ids(second) == [records[2].id, records[1].id]


@pytest.mark.parametrize("query", ["", "status=failed", "name=test", "name=test&status=failed"])
def test_every_filter_has_pages_and_a_total(harness: Harness, query: str) -> None:
    began = harness.now() - timedelta(hours=1)
    put(harness, [stored(began + timedelta(seconds=number)) for number in range(5)])
    put(harness, [stored(began + timedelta(seconds=9), name="other", status=Status.TERMINATED)])

    pages = [page(harness, f"limit=2&{query}")]
    while "nextCursor" in pages[-1]:
        pages.append(page(harness, f"limit=2&{query}", pages[-1]["nextCursor"]))

    found = [one for answer in pages for one in ids(answer)]
    assert len(found) == len(set(found)) == pages[0]["total"] == (5 if query else 6)
    assert all("total" not in answer for answer in pages[1:])


def test_a_record_that_cannot_be_read_hides_no_other(harness: Harness) -> None:
    """As after a roll-back. Each list is still answered, and so are the statistics."""
    broken, sound = harness.create(name="broken"), harness.create(name="sound")
    harness.settle()
    item = harness.table.get_item(Key={"pk": broken, "sk": "record"})["Item"]
    strange = {**item, "record": packed({**unpacked(bytes(item["record"])), "created_at": "the other day"})}
    harness.table.put_item(Item={**strange, "due": "instance", "dueAt": 0})

    assert ids(page(harness, "limit=5")) == ids(page(harness, "status=running")) == [sound]
    first = page(harness, "limit=1")
    assert (ids(first), ids(page(harness, "limit=1", first["nextCursor"]))) == ([sound], [])
    status, merged = harness.call("GET", "/api/instances/comprehensive")
    assert status == 200, merged
    assert {one.get("instanceId"): one["dataConsistency"] for one in merged["instances"]} == {
        sound: "consistent",
        None: "conflicted",  # its machine, which has our mark
    }
    assert harness.call("GET", "/api/jobs/stats")[0] == 200
    harness.table.put_item(Item=item)


LAMBDAS_LIMIT = 6 * 1024 * 1024


@pytest.mark.parametrize("path", ["/api/instances?limit=100", "/api/instances/comprehensive?limit=1000"])
def test_no_page_is_larger_than_lambda_can_answer(harness: Harness, path: str) -> None:
    """Whatever a caller may put into 20 tags: characters that JSON writes with twelve."""
    began = harness.now() - timedelta(hours=1)
    spec = replace(new_instance().spec, tags=tuple((f"{n:02d}" + "🐎" * 126, "🐎" * 256) for n in range(20)))
    records = [stored(began + timedelta(seconds=number), spec=spec) for number in range(100)]
    put(harness, records)

    seen: list[str] = []
    sizes: list[int] = []
    cursor = ""
    while cursor is not None:
        status, answer = harness.call("GET", f"{path}&cursor={cursor}" if cursor else path)
        assert status == 200, answer
        sizes.append(len(json.dumps({"statusCode": 200, "body": json.dumps(answer)})))
        seen += ids(answer)
        cursor = answer.get("nextCursor")

    assert seen == [one.id for one in records[::-1]]
    assert sum(sizes) > LAMBDAS_LIMIT > max(sizes)


def test_events_come_oldest_first_and_in_pages(harness: Harness) -> None:
    instance_id = harness.create()
    harness.settle()
    for what in ("stop", "start"):
        harness.call("POST", f"/api/instances/{instance_id}/{what}")
        harness.settle()
    path = f"/api/instances/{instance_id}/events"
    _, whole = harness.call("GET", path)

    pages = [harness.call("GET", f"{path}?limit=3")[1]]
    while "nextCursor" in pages[-1]:
        pages.append(harness.call("GET", f"{path}?limit=3&cursor={pages[-1]['nextCursor']}")[1])

    sequences = [event["sequence"] for event in whole["events"]]
    assert sequences == list(range(1, len(sequences) + 1))
    assert "nextCursor" not in whole
    assert [event for one in pages for event in one["events"]] == whole["events"]
    assert [len(one["events"]) for one in pages[:-1]] == [3] * (len(pages) - 1)
    status, refused = harness.call("GET", f"{path}?cursor={page(harness)['instances'][0]['instanceId']}")
    assert (status, refused["error"]["code"]) == (400, "INVALID_CURSOR")


def test_a_forged_cursor_is_refused(harness: Harness) -> None:
    began = harness.now() - timedelta(hours=1)
    put(harness, [stored(began + timedelta(seconds=number)) for number in range(3)])
    good = page(harness, "limit=1")["nextCursor"]
    swapped = good[:-1] + ("A" if good[-1] != "A" else "B")
    earlier = good[:10] + ("0" if good[10] != "0" else "1") + good[11:]

    for forged in (
        swapped,
        earlier,
        "x",
        "%F0%9F%90%B4",
        good[:20],
        good + "AAAA",
        "aW5zdF8wLjAwMDAwMDAwMDAwMDAwMDA",
    ):
        status, answer = harness.call("GET", f"/api/instances?cursor={forged}")
        assert (status, answer["error"]["code"]) == (400, "INVALID_CURSOR"), forged
    status, answer = harness.call("GET", f"/api/instances?status=failed&cursor={good}")
    assert (status, answer["error"]["code"]) == (400, "INVALID_CURSOR")


@pytest.mark.parametrize("listing", ["[null, null, null, null]", "events {id}", "comprehensive"])
def test_a_cursor_signed_with_what_is_in_every_machines_name_is_refused(
    harness: Harness, listing: str
) -> None:
    """The deployment's id is no secret: whoever sees a machine at Novita knows it."""
    instance_id = harness.create()
    harness.settle()
    paths = {
        "[null, null, null, null]": "/api/instances",
        "events {id}": f"/api/instances/{instance_id}/events",
        "comprehensive": "/api/instances/comprehensive",
    }
    forged = Cursors(harness.wiring.deployment.id).make("1", listing.format(id=instance_id))

    status, answer = harness.call("GET", f"{paths[listing]}?cursor={forged}")

    assert (status, answer["error"]["code"]) == (400, "INVALID_CURSOR")


@pytest.mark.parametrize("after", ["", "x", "-1", "1.5", "9" * 40, "\u0663"])
def test_an_events_cursor_that_names_no_number_is_refused(harness: Harness, after: str) -> None:
    instance_id = harness.create()
    ours = Cursors(harness.wiring.cursor_secret.value).make(after, f"events {instance_id}")

    status, answer = harness.call("GET", f"/api/instances/{instance_id}/events?cursor={ours}")

    assert (status, answer["error"]["code"]) == (400, "INVALID_CURSOR")
    harness.settle()


def test_lists_by_tag_and_by_owner(harness: Harness) -> None:
    """Of what each key made, and of what carries a tag; with a status, pages and a total."""
    mine = harness.create(tags={"team": "red", "env": "dev"})
    another = harness.add_key("ost_" + "a" * 43, "read", "write")
    theirs = {"Authorization": None, "authorization": f"Bearer ost_{'a' * 43}"}
    body = {"name": "theirs", "productName": PRODUCT, "templateId": "107672", "tags": {"team": "red"}}
    of_theirs = harness.call("POST", "/api/instances", body, headers=theirs)[1]["instanceId"]
    harness.settle()
    harness.call("DELETE", f"/api/instances/{mine}")
    harness.settle()

    assert ids(page(harness, "tag=team:red")) == [of_theirs, mine]
    assert ids(page(harness, "tag=team:red&status=running")) == [of_theirs]
    assert ids(page(harness, "tag=env:dev")) == ids(page(harness, "owner=me")) == [mine]
    assert ids(page(harness, f"owner={another}")) == [of_theirs]
    assert ids(page(harness, f"owner={another}&tag=env:dev")) == []
    first = page(harness, "limit=1&tag=team:red")
    assert first["total"] == 2
    assert ids(page(harness, "limit=1&tag=team:red", first["nextCursor"])) == [mine]
    assert first["instances"][0]["owner"] == another
    assert harness.call("GET", f"/api/instances?tag=env:dev&cursor={first['nextCursor']}")[0] == 400


@pytest.mark.parametrize("tag", ["a:b,c", "a:b c", "naïve:字", "a:", "a:b:c"])
def test_a_tag_is_taken_as_it_is_written(harness: Harness, tag: str) -> None:
    name, _, value = tag.partition(":")
    instance_id = harness.create(tags={name: value})
    harness.settle()

    assert ids(page(harness, f"tag={tag}")) == [instance_id]


@pytest.mark.parametrize(
    "query", ["tag=", "tag=a", "tag=:b", f"tag=a:{'b' * 400}", "owner=", f"owner={'b' * 400}"]
)
def test_what_can_be_no_tag_and_no_owner_is_refused(harness: Harness, query: str) -> None:
    status, answer = harness.call("GET", f"/api/instances?{query}")

    assert (status, answer["error"]["code"]) == (400, "VALIDATION_ERROR")


def test_a_page_by_tag_of_thousands_reads_what_it_shows(harness: Harness) -> None:
    """Entries of the index as many as are shown and one more, and the records; the same on every page."""
    began = harness.now() - timedelta(days=10)
    newest_first = [new_instance_id(began - timedelta(seconds=number)) for number in range(1000)]
    record = stored(began, spec=Spec(PRODUCT, "107672", tags=(("team", "red"),)))
    put_alike(harness, record, newest_first)
    put_listed(harness, record, newest_first)
    page(harness, "limit=20&tag=team:red")
    with reading(harness) as of_page_1:
        first = page(harness, "limit=20&tag=team:red")
    with reading(harness) as of_page_2:
        second = page(harness, "limit=20&tag=team:red", first["nextCursor"])
    with reading(harness) as of_both:
        both = page(harness, "limit=20&tag=team:red&status=failed", None)

    assert first["total"] == both["total"] == 1000
    assert ids(first) + ids(second) == newest_first[:40]
    assert ids(both) == newest_first[:20]
    assert of_page_1.calls == of_page_2.calls  # the total of so many is kept for a while
    assert of_page_2.calls.count("Query") == 1
    assert (of_page_2.entries, of_page_2.items) == (21, 20)
    # With a status: entries of two indexes, once more for the total, and the records that are shown.
    assert of_both.entries <= 2 * (21 + 1000)
    assert of_both.items == 20
