"""Facts in doubt about Novita: each setting chooses another reading."""

from local.novita.client import Simulator
from local.novita.templates import AUTHS, PRIVATE_IMAGE
from tests.simulator.bare_api import NOON, Api, reason


def test_prices_are_strings_or_numbers(api: Api, sim: Simulator) -> None:
    strings = api.products()["4090.16c62g"]

    sim.settings(priceAs="number", spotPriceAs="number")
    numbers = api.products()["4090.16c62g"]

    assert (strings["price"], strings["spotPrice"]) == ("35000", "18000")
    assert strings["monthlyPrice"][0]["price"] == str(35000 * 720)
    assert (numbers["price"], numbers["spotPrice"]) == (35000, 18000)
    assert numbers["monthlyPrice"][0]["price"] == 35000 * 720


def test_region_names_are_plain_or_suffixed(api: Api, sim: Simulator) -> None:
    sim.settings(regionNames="plain")
    id_ = api.create()

    assert api.products()["4090.16c62g"]["regions"] == ["CN-HK-01", "US-CA-06"]
    assert api.get("/clusters").json()["data"][0]["name"] == "CN-HK-01"
    assert api.instance(id_)["clusterName"] == "CN-HK-01"


def test_not_found_is_400_or_404(api: Api, sim: Simulator) -> None:
    sim.settings(notFoundAs=404)

    assert reason(api.get("/gpu/instance", instanceId="x")) == (404, "RESOURCE_NOT_FOUND")
    assert reason(api.act("delete", "x")) == (404, "RESOURCE_NOT_FOUND")


def test_the_list_has_a_total_or_not(api: Api, sim: Simulator) -> None:
    with_total = api.get("/gpu/instances").json()
    sim.settings(totalInList=False)

    assert with_total == {"instances": [], "total": 0}
    assert api.get("/gpu/instances").json() == {"instances": []}


def test_the_list_has_endpoints_or_not(api: Api, sim: Simulator) -> None:
    sim.settings(listLagSeconds=0, bootSeconds=0)
    id_ = api.create()
    without = api.listed()[0]["portMappings"][0]

    sim.settings(endpointInList=True)

    assert without == {"port": 8188, "type": "http"}
    assert api.listed()[0]["portMappings"][0]["endpoint"] == sim.app_url(id_, 8188)


def test_paging_is_required_or_not(api: Api, sim: Simulator) -> None:
    sim.settings(pagingRequired=True)

    assert reason(api.get("/gpu/instances", pageSize=1)) == (400, "VALIDATOR_PARAM")
    assert api.get("/gpu/instances", pageSize=1, pageNum=0).status_code == 200


def test_actions_say_much_or_nothing(api: Api, sim: Simulator) -> None:
    id_ = sim.put_instance(status="running")["id"]
    sim.settings(actionBodies="empty", stopSeconds=0)
    empty = api.act("stop", id_)

    sim.settings(actionBodies="none")
    none = api.act("start", id_)

    assert empty.json() == {}
    assert (none.status_code, none.content) == (200, b"")


def test_passwords_of_logins_are_plain_or_masked(api: Api, sim: Simulator) -> None:
    sim.settings(maskAuthPasswords=True)

    assert {one["password"] for one in api.get("/repository/auths").json()["data"]} == {"******"}


def test_saving_a_login_answers_nothing_or_json(api: Api, sim: Simulator) -> None:
    sim.settings(authSaveAs="json")

    saved = api.post("/repository/auth/save", {"name": "n", "username": "u", "password": "p"})

    assert (saved.status_code, saved.json()) == (200, {})


def test_a_login_by_id_can_be_refused_for_a_private_image(api: Api, sim: Simulator) -> None:
    sim.settings(imageAuthIdAccepted=False)
    id_, _, user, password = AUTHS[0]

    refused = api.try_create(imageUrl=PRIVATE_IMAGE, imageAuthId=id_)
    accepted = api.try_create(imageUrl=PRIVATE_IMAGE, imageAuth=f"{user}:{password}")

    assert reason(refused) == (400, "VALIDATOR_PARAM")
    assert "imageAuthId" in refused.json()["message"]
    assert accepted.status_code == 200


def test_timestamps_are_there_or_not(api: Api, sim: Simulator) -> None:
    sim.settings(timestampsPresent=False)

    shown = api.instance(api.create())

    assert not {"createdAt", "lastStartedAt", "lastStoppedAt"} & set(shown)


def test_when_it_was_started_and_stopped_is_told_or_not(api: Api, sim: Simulator) -> None:
    id_ = api.create()
    sim.advance(10)
    told = api.instance(id_)["lastStartedAt"]
    sim.settings(startedAtMeans="running")
    running = api.instance(id_)["lastStartedAt"]
    sim.settings(timesTold=False)
    shown = api.instance(id_)

    assert (told, running) == (str(NOON + 3), str(NOON + 10))
    assert (shown["createdAt"], shown["lastStartedAt"]) == (str(NOON), "0")


def test_the_state_of_the_inventory_is_there_or_not(api: Api, sim: Simulator) -> None:
    sim.settings(inventoryStatePresent=False)

    assert "inventoryState" not in api.products()["4090.16c62g"]


def test_template_times_have_two_names(api: Api, sim: Simulator) -> None:
    sim.settings(templateTimesAs="createTime")

    shown = api.get("/template", templateId="107672").json()["template"]

    assert shown["createTime"] == "1756959094"
    assert "createdAt" not in shown


def test_node_is_an_object_or_an_array(api: Api, sim: Simulator) -> None:
    id_ = api.create()
    one = api.instance(id_)["node"]

    sim.settings(nodeAs="array")

    assert one == {"maxRootfsSize": 1000}
    assert api.instance(id_)["node"] == [{"maxRootfsSize": 1000}]


def test_spot_status_of_a_machine_that_is_not_spot(api: Api, sim: Simulator) -> None:
    sim.settings(spotInGet=True)
    id_ = api.create(billingMode="onDemand")
    empty = api.instance(id_)["spotStatus"]

    sim.settings(spotStatusWhenNotSpot="running", blankBillingMode=True)

    assert empty == ""
    assert api.instance(id_)["spotStatus"] == "running"
    assert api.instance(id_)["billingMode"] == ""


def test_kind_and_strict_names_can_be_let_go(api: Api, sim: Simulator) -> None:
    sim.settings(kindRequired=False, strictNames=False)

    assert api.try_create(without="kind", name="any name_at all").status_code == 200


def test_endpoints_can_come_later_than_running(api: Api, sim: Simulator) -> None:
    sim.settings(bootSeconds=0, endpointsAfterSeconds=30)
    id_ = api.create()

    early = api.instance(id_)["portMappings"][0]["endpoint"]
    sim.advance(30)

    assert early == ""
    assert api.instance(id_)["portMappings"][0]["endpoint"] != ""


def test_endpoints_can_have_novitas_form(api: Api, sim: Simulator) -> None:
    sim.settings(bootSeconds=0, realEndpoints=True)
    id_ = api.create()

    http, _, tcp = [one["endpoint"] for one in api.instance(id_)["portMappings"]]

    assert http == f"https://{id_}-8188.cn-hongkong-1.gpu-instance.novita.ai"
    assert tcp.startswith("proxy.cn-hongkong-1.gpu-instance.novita.ai:")


def test_endpoints_can_have_another_base(api: Api, sim: Simulator) -> None:
    sim.settings(bootSeconds=0, publicUrl="http://localhost:9/x/")
    id_ = api.create()

    http, _, tcp = [one["endpoint"] for one in api.instance(id_)["portMappings"]]

    assert (http, tcp) == (f"http://localhost:9/x/_sim/app/{id_}/8188", "localhost:9")


def test_the_rate_limit_says_when_or_not(api: Api, sim: Simulator) -> None:
    sim.settings(rateLimitPerMinute=2)
    allowed = [api.get("/clusters").status_code for _ in range(2)]
    silent = api.get("/clusters")
    sim.advance(20)
    sim.settings(retryAfterOn429=True)
    telling = api.get("/clusters")
    sim.advance(40)

    assert allowed == [200, 200]
    assert reason(silent) == reason(telling) == (429, "RATE_LIMIT_EXCEEDED")
    assert "Retry-After" not in silent.headers
    assert telling.headers["Retry-After"] == "40"
    assert api.get("/clusters").status_code == 200
