"""What callers can see and take over: imports, lists and pages, connections, last use."""

from concurrent.futures import ThreadPoolExecutor

from tests.e2e.service import Service


def test_a_machine_that_was_bought_elsewhere_is_taken_under_management_once(service: Service) -> None:
    theirs = service.simulator.put_instance(name="by hand", status="running", ports="80/http")
    request = {"novitaInstanceId": theirs["id"]}

    answer = service.call("POST", "/api/instances/import", request)

    imported = answer.json()
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"/api/instances/{imported['instanceId']}"
    assert (imported["name"], imported["status"]) == ("by hand", "running")
    again = service.call("POST", "/api/instances/import", request)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "INSTANCE_ALREADY_MANAGED")
    assert again.json()["error"]["details"] == {"instanceId": imported["instanceId"]}
    unknown = service.call("POST", "/api/instances/import", {"novitaInstanceId": "nobody"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "INSTANCE_NOT_FOUND")
    service.operate(imported["instanceId"], "delete")
    service.wait_for(imported["instanceId"], "terminated")
    assert service.simulator.live() == []


def test_a_machine_of_ours_is_not_imported_a_second_time(service: Service) -> None:
    instance_id = service.create()
    machine_id = service.wait_for(instance_id, "running")["novitaInstanceId"]

    answer = service.call("POST", "/api/instances/import", {"novitaInstanceId": machine_id})

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "INSTANCE_ALREADY_MANAGED")
    assert service.get("/api/instances")["total"] == 1


def test_how_to_get_in_is_fetched_live_and_kept_nowhere(service: Service) -> None:
    instance_id = service.take_over()

    connection = service.get(f"/api/instances/{instance_id}/connection")

    assert connection["instanceId"] == instance_id
    assert connection["ssh"]["command"].startswith("ssh ")
    password = connection["ssh"]["password"]
    assert password
    assert password not in service.stored()
    assert password not in service.log()
    service.operate(instance_id, "delete")
    service.wait_for(instance_id, "terminated")
    gone = service.call("GET", f"/api/instances/{instance_id}/connection")
    assert (gone.status_code, gone.json()["error"]["code"]) == (409, "INSTANCE_HAS_NO_MACHINE")


def test_a_last_use_is_noted_as_given_or_as_now(service: Service) -> None:
    instance_id = service.take_over()
    path = f"/api/instances/{instance_id}/last-used"

    given = service.call("PUT", path, {"lastUsedAt": "2026-01-31T13:00:00+01:00"})
    now = service.call("PUT", path)

    assert (given.status_code, given.json()["lastUsedAt"]) == (200, "2026-01-31T12:00:00.000Z")
    assert now.status_code == 200
    assert (
        service.instance(instance_id)["lastUsedAt"] == now.json()["lastUsedAt"] > given.json()["lastUsedAt"]
    )


def test_lists_are_newest_first_in_pages_and_by_name_and_status(service: Service) -> None:
    ids = [service.take_over(name=f"machine-{number % 2}") for number in range(5)]
    ids += [service.take_over("exited", name="machine-0") for _ in range(2)]
    newest_first = list(reversed(ids))
    service.simulator.clear_calls()

    pages = [service.get("/api/instances?limit=3")]
    while "nextCursor" in pages[-1]:
        pages.append(service.get(f"/api/instances?limit=3&cursor={pages[-1]['nextCursor']}"))
    exited = service.get("/api/instances?status=exited")
    named = service.get("/api/instances?name=machine-0&limit=100")
    both = service.get("/api/instances?name=machine-0&status=running")
    other_listing = service.call("GET", f"/api/instances?status=exited&cursor={pages[0]['nextCursor']}")

    assert [[one["instanceId"] for one in page["instances"]] for page in pages] == [
        newest_first[:3],
        newest_first[3:6],
        newest_first[6:],
    ]
    assert [page.get("total") for page in pages] == [7, None, None]
    assert [one["instanceId"] for one in exited["instances"]] == newest_first[:2]
    assert (exited["total"], named["total"], both["total"]) == (2, 5, 3)
    assert {one["name"] for one in named["instances"]} == {"machine-0"}
    assert {one["status"] for one in both["instances"]} == {"running"}
    assert other_listing.json()["error"]["code"] == "INVALID_CURSOR"
    assert service.simulator.calls() == []


def test_the_same_key_gets_the_same_answer_and_buys_once(service: Service) -> None:
    request = {"name": "once", "productName": "RTX 4090 24GB", "templateId": "107672"}
    key = {"Idempotency-Key": "order-66"}

    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(service.call, "POST", "/api/instances", request, headers=key) for _ in range(2)]
    first, second = [call.result() for call in calls]
    other = service.call("POST", "/api/instances", {**request, "gpuNum": 2}, headers=key)

    assert (first.status_code, second.status_code) == (201, 201)
    assert second.text == first.text
    assert second.headers["Location"] == first.headers["Location"]
    assert (other.status_code, other.json()["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    service.wait_for(first.json()["instanceId"], "running")
    assert len(service.simulator.instances()) == 1
    by_name = {"instanceName": "once"}
    deleted = service.call("POST", "/api/instances/delete", by_name, headers=key)
    service.wait_for(first.json()["instanceId"], "terminated")
    again = service.call("POST", "/api/instances/delete", by_name, headers=key)
    assert (deleted.status_code, again.status_code) == (202, 202)
    assert again.json() == deleted.json()
