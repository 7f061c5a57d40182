"""The comprehensive list: what is here and what Novita shows, merged, paged, cached, and without Novita."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from functions.shared.domain.ids import machine_name, new_instance_id
from functions.shared.domain.instance.status import Status
from tests.integration.conftest import Build
from tests.integration.harness import Harness
from tests.integration.sweeps import another_accounts_key
from tests.integration.wire import Made

LIST = "novita GET /gpu/instances"
PATH = "/api/instances/comprehensive"


def listed(harness: Harness, query: str = "") -> Any:
    status, answer = harness.call("GET", f"{PATH}?{query}" if query else PATH)
    assert status == 200, answer
    return answer


def reads(harness: Harness) -> int:
    return sum(made.name == LIST and made.handler == "api" for made in harness.wire.calls)


def kinds(answer: Any) -> dict[str, tuple[str, str, str]]:
    """Source, consistency and status, by the id of ours or of Novita's."""
    return {
        one.get("instanceId") or one["novitaInstanceId"]: (
            one["source"],
            one["dataConsistency"],
            one["status"],
        )
        for one in answer["instances"]
    }


def bought(harness: Harness, **body: Any) -> str:
    instance_id = harness.create(**body)
    harness.settle()
    harness.advance(60)
    return instance_id


def test_what_is_here_what_is_there_and_what_is_both(build: Build) -> None:
    harness = build(MERGED_TTL="0", LIST_TTL="0.05")
    agreeing, differing, kept = bought(harness), bought(harness), bought(harness)
    theirs = harness.simulator.put_instance(name="theirs", status="running")["id"]
    machine = str(harness.record(differing).machine.id)
    harness.simulator.patch_instance(machine, status="exited")
    harness.advance(10)

    answer = listed(harness)

    assert kinds(answer) == {
        agreeing: ("merged", "consistent", "running"),
        differing: ("merged", "novita-newer", "exited"),
        kept: ("merged", "consistent", "running"),
        theirs: ("novita", "consistent", "running"),
    }
    assert answer["total"] == 4
    assert answer["sources"] == {"local": 0, "novita": 1, "merged": 3}
    assert answer["performance"].keys() == {
        "totalRequestTime",
        "novitaApiTime",
        "localDataTime",
        "mergeProcessingTime",
        "cacheHitRatio",
    }
    assert "stale" not in answer
    assert harness.record(differing).status is Status.RUNNING  # nothing was changed by looking
    harness.sweep()
    harness.settle()


def test_an_instance_without_a_machine_is_local(build: Build) -> None:
    harness = build(PURCHASE_MAX_WAIT="60")
    harness.simulator.fault("status", path="/products", status=503)
    waiting = harness.create()

    merged = listed(harness)

    assert kinds(merged) == {waiting: ("local", "consistent", "creating")}
    assert merged["sources"] == {"local": 1, "novita": 0, "merged": 0}
    harness.settle()


def test_what_the_key_of_another_account_shows_and_lacks_is_no_answer(harness: Harness) -> None:
    ours = bought(harness)
    with another_accounts_key(harness):
        answer = listed(harness)
    harness.sweep()  # by which the right key is proven again

    after = listed(harness)

    assert kinds(answer) == {ours: ("local", "local-newer", "running")}
    assert answer["stale"] is True
    assert kinds(after) == {ours: ("merged", "consistent", "running")}
    assert "stale" not in after


def test_novitas_own_can_be_left_out(harness: Harness) -> None:
    ours = bought(harness)
    harness.simulator.put_instance(name="theirs", status="running")
    harness.advance(10)

    answer = listed(harness, "includeNovitaOnly=false")

    assert list(kinds(answer)) == [ours]
    assert (answer["total"], answer["sources"]) == (1, {"local": 0, "novita": 0, "merged": 1})


def test_machines_that_carry_our_mark_and_are_nobodys_or_too_many_are_conflicts(harness: Harness) -> None:
    ours = bought(harness)
    deployment = harness.wiring.deployment.id()
    orphan = machine_name("x", deployment, new_instance_id(harness.now()), 1)
    surplus = machine_name("test", deployment, ours, 2)
    ids = [harness.simulator.put_instance(name=name, status="running")["id"] for name in (orphan, surplus)]
    harness.advance(10)

    answer = kinds(listed(harness))

    assert answer == {
        ours: ("merged", "consistent", "running"),
        ids[0]: ("novita", "conflicted", "running"),
        ids[1]: ("novita", "conflicted", "running"),
    }
    for one in ids:
        harness.simulator.patch_instance(one, status="removed")


def test_the_same_name_twice_is_two_entries(harness: Harness) -> None:
    first, second = bought(harness, name="same"), bought(harness, name="same")
    theirs = [harness.simulator.put_instance(name="same", status="exited")["id"] for _ in range(2)]
    harness.advance(10)

    answer = kinds(listed(harness))

    assert answer == {
        first: ("merged", "consistent", "running"),
        second: ("merged", "consistent", "running"),
        **dict.fromkeys(theirs, ("novita", "consistent", "exited")),
    }


@pytest.mark.parametrize("page_start", [0, 1])
def test_250_machines_over_several_pages_are_all_there_once(harness: Harness, page_start: int) -> None:
    harness.simulator.settings(pageStart=page_start, maxPageSize=100)
    ours = bought(harness)
    theirs = harness.simulator.put_instances(249, name="theirs", status="running")
    harness.advance(10)

    answer = listed(harness, "limit=1000")

    assert reads(harness) >= 3
    assert set(kinds(answer)) == {ours, *theirs}
    assert len(answer["instances"]) == answer["total"] == 250


def _during_paging(harness: Harness, change: Callable[[], Any]) -> None:
    """Once, between the first page and the second."""

    def after(made: Made) -> None:
        if made.name == LIST:
            harness.wire.after = None
            change()

    harness.wire.after = after


def test_a_machine_that_appears_while_the_pages_are_read_hides_none(harness: Harness) -> None:
    harness.simulator.settings(maxPageSize=10, listLagSeconds=0)
    theirs = harness.simulator.put_instances(35, name="theirs", status="running")
    _during_paging(
        harness, lambda: theirs.append(harness.simulator.put_instance(name="new", status="running")["id"])
    )

    answer = listed(harness, "limit=1000")

    assert len(answer["instances"]) == answer["total"]
    assert set(kinds(answer)) == set(theirs)


def test_a_machine_that_vanishes_while_the_pages_are_read_hides_none_of_the_others(harness: Harness) -> None:
    harness.simulator.settings(maxPageSize=10, listLagSeconds=0)
    theirs = harness.simulator.put_instances(35, name="theirs", status="running")
    newest = theirs[-1]
    _during_paging(harness, lambda: harness.simulator.patch_instance(newest, status="removed"))

    answer = listed(harness, "limit=1000")

    assert set(theirs[:-1]) <= set(kinds(answer)) <= set(theirs)


def test_pages_follow_one_another_without_gaps(build: Build) -> None:
    harness = build(MERGED_TTL="0", LIST_TTL="0.05")
    theirs = harness.simulator.put_instances(12, name="theirs", status="running")
    ours = bought(harness)
    harness.advance(10)

    first = listed(harness, "limit=5")
    harness.simulator.put_instance(name="newer than all", status="running")
    harness.advance(10)
    second = listed(harness, f"limit=5&cursor={first['nextCursor']}")
    third = listed(harness, f"limit=5&cursor={second['nextCursor']}")

    found = [key for answer in (first, second, third) for key in kinds(answer)]
    assert len(found) == len(set(found)) == 13
    assert set(found) == {ours, *theirs}
    assert (first["total"], second["total"]) == (13, 14)
    assert "nextCursor" not in third
    status, answer = harness.call("GET", f"{PATH}?cursor={first['nextCursor'][:-2]}AA")
    assert (status, answer["error"]["code"]) == (400, "INVALID_CURSOR")


def test_the_merged_list_is_kept_for_30_seconds_by_all(harness: Harness) -> None:
    bought(harness)
    first = listed(harness)
    before = reads(harness)
    harness.simulator.put_instance(name="theirs", status="running")

    harness.advance(29)
    harness.restart()
    kept = listed(harness)

    assert kept["instances"] == first["instances"]
    assert reads(harness) == before
    harness.advance(2)
    assert listed(harness)["total"] == 2
    assert reads(harness) > before


def test_sync_lets_records_follow_and_makes_none(harness: Harness) -> None:
    instance_id = bought(harness)
    machine = str(harness.record(instance_id).machine.id)
    harness.simulator.patch_instance(machine, status="exited")
    harness.simulator.put_instance(name="theirs", status="running")
    harness.advance(10)
    assert kinds(listed(harness))[instance_id] == ("merged", "novita-newer", "exited")

    answer = listed(harness, "syncLocalState=true")

    assert kinds(answer)[instance_id] == ("merged", "consistent", "exited")
    assert kinds(listed(harness)) == kinds(answer)  # as it was cached
    assert harness.record(instance_id).status is Status.EXITED
    assert harness.history(instance_id)[-1] == "instance.exited"
    assert [record.id for record in harness.records()] == [instance_id]
    assert kinds(listed(harness, "syncLocalState=true"))[instance_id][1] == "consistent"


def test_sync_of_an_empty_list_only_looks_again(harness: Harness) -> None:
    ids = [bought(harness) for _ in range(5)]
    harness.advance(300)
    harness.simulator.fault("garbage", path="/gpu/instances", body='{"instances": [], "total": 0}')

    answer = listed(harness, "syncLocalState=true")
    harness.simulator.clear_faults()
    harness.settle()

    assert {kind[:2] for kind in kinds(answer).values()} == {("local", "conflicted")}
    assert {harness.record(one).status for one in ids} == {Status.RUNNING}


def test_without_novita_only_what_is_here_is_shown_and_said_to_be_old(harness: Harness) -> None:
    instance_id = bought(harness)
    harness.simulator.fault("status", path="/gpu/instances", status=503)

    answer = listed(harness)
    before = reads(harness)
    again = [listed(harness) for _ in range(3)]

    assert answer["stale"] is True
    assert kinds(answer) == {instance_id: ("local", "local-newer", "running")}
    assert answer["sources"] == {"local": 1, "novita": 0, "merged": 0}
    assert all(one["stale"] for one in again)
    assert reads(harness) == before  # nobody waits for Novita again
    harness.simulator.clear_faults()
    harness.advance(6)
    assert "stale" not in listed(harness)


def test_both_sides_are_fetched_at_the_same_time(harness: Harness) -> None:
    bought(harness)
    harness.simulator.fault("slow", path="/gpu/instances", delayMs=400)

    def slow_table(made: Made) -> None:
        if made.name == "Query fleet#0":
            time.sleep(0.4)

    harness.wire.before = slow_table
    took = listed(harness)["performance"]
    harness.wire.before = None

    assert took["novitaApiTime"] >= 400
    assert took["localDataTime"] >= 400
    assert took["totalRequestTime"] < took["novitaApiTime"] + took["localDataTime"] - 200


def test_polling_and_the_merged_list_share_one_read(harness: Harness) -> None:
    bought(harness)
    harness.wiring.shared_list.shared(5, None)
    before = reads(harness)

    listed(harness)

    assert reads(harness) == before


def test_what_novita_shows_of_a_machine_is_shown_and_no_secret(build: Build) -> None:
    harness = build(MERGED_TTL="0", LIST_TTL="0.05")
    instance_id = bought(harness)
    own = str(harness.record(instance_id).machine.id)
    theirs = harness.simulator.put_instance(
        name="theirs",
        status="running",
        billingMode="monthly",
        envs=[{"key": "HF_TOKEN", "value": "a-value-of-theirs"}],
        command="serve --password of-theirs",
    )["id"]
    for id_ in (own, theirs):
        harness.simulator.patch_instance(id_, statusError={"state": "oom", "message": "killed"})
    harness.advance(10)

    answer = listed(harness)

    shown = {one["novitaInstanceId"]: one for one in answer["instances"]}
    for id_ in (own, theirs):
        facts = ("clusterId", "imageUrl", "cpuNum", "memory", "statusError")
        assert [shown[id_][name] for name in facts] == [
            "cn-hongkong-1",
            "ghcr.io/ostler-demo/comfyui:latest",
            16,
            62,
            "oom: killed",
        ]
    assert "endTime" not in shown[own]
    assert shown[theirs]["endTime"].endswith("Z")
    assert not {"envs", "command"} & shown[theirs].keys()
    assert "of-theirs" not in str(answer)
