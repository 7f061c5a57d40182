"""Creates on the deployed template: from the request to the machine, whatever Novita does in between."""

from tests.e2e.service import Service

PRODUCT = "RTX 4090 24GB"
CREATE = "/gpu/instance/create"


def test_a_create_becomes_running_and_tells_everybody_in_order(service: Service) -> None:
    hook = service.simulator.inbox_url("first")
    request = {"name": "my first", "productName": PRODUCT, "templateId": 107672, "webhookUrl": hook}

    answer = service.call("POST", "/api/instances", request, headers={"X-Correlation-ID": "trace-1"})

    accepted = answer.json()
    assert answer.status_code == 201
    assert accepted["status"] == "creating"
    assert accepted["region"] == "CN-HK-01"
    assert answer.headers["Location"] == f"/api/instances/{accepted['instanceId']}"
    shown = service.wait_for(accepted["instanceId"], "running")
    assert shown["readyAt"]
    assert shown["productId"] == "4090.16c62g"
    assert {port["port"]: bool(port["endpoint"]) for port in shown["portMappings"]} == {
        8188: True,
        80: True,
        22: True,
    }
    events = service.events(accepted["instanceId"])
    assert [event["type"] for event in events] == [
        "instance.creating",
        "instance.starting",
        "instance.running",
    ]
    assert [event["actor"] for event in events] == ["key_local", "system", "system"]
    assert service.wait(lambda: len(service.simulator.inbox("first")) == 3)
    told = [service.opened(message, hook) for message in service.simulator.inbox("first")]
    assert sorted(one["id"] for one in told) == sorted(event["id"] for event in events)
    assert {one["sequence"]: one["status"] for one in told} == {1: "creating", 2: "starting", 3: "running"}
    assert {message["headers"]["x-correlation-id"] for message in service.simulator.inbox("first")} == {
        "trace-1"
    }
    assert [call["headers"]["X-Correlation-ID"] for call in service.simulator.calls(CREATE)] == ["trace-1"]


def test_a_private_image_is_bought_with_its_login_which_is_kept_nowhere(service: Service) -> None:
    by_id = service.create(name="by id", templateId="107673")
    service.wait_for(by_id, "running")
    service.simulator.settings(imageAuthIdAccepted=False)

    by_password = service.create(name="by password", templateId="107673")

    service.wait_for(by_password, "running")
    bodies = [call["body"] for call in service.simulator.calls(CREATE) if call["status"] == 200]
    assert "imageAuthId" in bodies[0]
    assert "imageAuth" in bodies[1]
    assert "ghp_demo_1" not in service.stored() + service.log()


def test_what_is_sold_out_everywhere_is_refused_at_once_with_every_regions_reason(service: Service) -> None:
    for product in service.simulator.products():
        if product["name"] == PRODUCT:
            service.simulator.patch_product(product["id"], available=False)

    answer = service.call(
        "POST", "/api/instances", {"name": "x", "productName": PRODUCT, "templateId": "107672"}
    )

    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "NO_OPTIMAL_PRODUCT_ANY_REGION"
    assert set(error["details"]["regions"]) == {"CN-HK-01", "AS-SGP-02", "AS-IN-01"}
    assert set(error["details"]["regions"].values()) == {"NOT_AVAILABLE"}
    assert service.get("/api/instances")["total"] == 0


def test_an_offer_refused_for_capacity_is_followed_by_the_next(service: Service) -> None:
    service.simulator.fault("status", CREATE, "POST", status=400, reason="INSUFFICIENT_RESOURCE", times=2)

    instance_id = service.create()

    service.wait_for(instance_id, "running")
    bought = [
        (call["body"]["productId"], call["body"]["clusterId"]) for call in service.simulator.calls(CREATE)
    ]
    assert bought == [
        ("4090.16c62g", "cn-hongkong-1"),
        ("4090.18c96g", "cn-hongkong-1"),
        ("4090.24c128g", "as-sgp-2"),
    ]
    assert service.instance(instance_id)["region"] == "AS-SGP-02"


def test_a_purchase_that_novita_refuses_for_good_fails_with_its_reason(service: Service) -> None:
    service.simulator.settings(balanceEnough=False)

    instance_id = service.create()

    shown = service.wait_for(instance_id, "failed")
    assert shown["error"]["code"] == "NOVITA_REJECTED"
    assert len(service.simulator.calls(CREATE)) == 1


def test_a_create_while_novita_is_down_is_accepted_and_bought_later(service: Service) -> None:
    service.simulator.fault("status", status=503)

    answer = service.call(
        "POST", "/api/instances", {"name": "later", "productName": PRODUCT, "templateId": "107672"}
    )

    assert answer.status_code == 201
    assert "could not be asked" in answer.json()["message"]
    instance_id = answer.json()["instanceId"]
    assert service.wait(lambda: "waitingFor" in service.instance(instance_id))
    service.simulator.clear_faults()
    service.wait_for(instance_id, "running")
    assert service.statuses(instance_id) == ["creating", "starting", "running"]


def test_a_boot_goes_on_while_novita_answers_5xx_and_is_shown_stale_meanwhile(service: Service) -> None:
    service.simulator.settings(bootSeconds=2)
    instance_id = service.create()
    service.wait_for(instance_id, "starting")

    service.simulator.fault("status", status=500)

    assert service.wait(lambda: service.instance(instance_id).get("stale"))
    states = {one["name"]: one["state"] for one in service.get("/api/circuits")["circuits"]}
    assert service.wait(lambda: _circuit(service, "reads") != "CLOSED"), states
    assert service.instance(instance_id)["status"] == "starting"
    service.simulator.clear_faults()
    assert "stale" not in service.wait_for(instance_id, "running")
    assert service.wait(lambda: _circuit(service, "reads") == "CLOSED")


def _circuit(service: Service, name: str) -> str:
    states = {one["name"]: one["state"] for one in service.get("/api/circuits")["circuits"]}
    return str(states[name])


def test_a_machine_to_be_kept_outlives_the_failure(service: Service) -> None:
    service.simulator.settings(bootSeconds=600)

    instance_id = service.create(maxWaitTime=1000, onFailure="keep")

    shown = service.wait_for(instance_id, "failed")
    assert "cleanup" not in shown
    assert [machine["id"] for machine in service.simulator.live()] == [shown["novitaInstanceId"]]


def test_garbage_from_novita_is_survived(service: Service) -> None:
    for body in ("html", "truncated", "list", "empty", "cut", "html", "[[[[[[", '{"data": {"a": 1}}'):
        service.simulator.fault("garbage", method="GET", body=body, times=1)

    instance_id = service.create()

    service.wait_for(instance_id, "running")
    assert service.statuses(instance_id) == ["creating", "starting", "running"]
    assert len(service.simulator.instances()) == 1
    assert all(fault["applied"] for fault in service.simulator.faults())


def test_a_machine_that_is_not_found_right_after_its_purchase_is_not_taken_for_gone(service: Service) -> None:
    service.simulator.settings(getLagSeconds=3, listLagSeconds=3)

    instance_id = service.create()

    service.wait_for(instance_id, "running")
    missed = [call for call in service.simulator.calls("/gpu/instance", "GET") if call["status"] == 400]
    assert missed
    assert service.statuses(instance_id) == ["creating", "starting", "running"]
    assert len(service.simulator.instances()) == 1


def test_a_create_asks_novita_twice_and_does_not_wait_for_the_purchase(service: Service) -> None:
    with service.at_a_standstill("create"):
        instance_id = service.create()
        calls = [call["path"].rsplit("/", 1)[1] for call in service.simulator.calls()]
        asked = sorted(name for name in calls if name != "instances")  # which the sweep of every minute reads
        service.operate(instance_id, "delete")
        service.wait_for(instance_id, "terminated")

    assert asked == ["products", "template"]
    assert service.statuses(instance_id) == ["creating", "deleting", "terminated"]
    assert service.simulator.instances() == []


def test_a_lost_message_is_made_good_by_the_sweep(service: Service) -> None:
    with service.at_a_standstill("create") as queue:
        instance_id = service.create()
        service.sqs.purge_queue(QueueUrl=queue)

    assert service.instance(instance_id)["status"] == "creating"

    def swept() -> bool:
        service.sweep()
        return bool(service.instance(instance_id)["status"] != "creating")

    assert service.wait(swept)
    service.wait_for(instance_id, "running")
    assert len(service.simulator.calls(CREATE)) == 1
