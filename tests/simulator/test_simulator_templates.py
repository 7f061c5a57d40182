"""Templates and registry logins."""

import pytest

from local.novita.client import Simulator
from local.novita.templates import AUTHS, TEMPLATES
from tests.simulator.bare_api import Api, reason

NEW = {
    "name": "mine",
    "image": "a/b:1",
    "type": "instance",
    "channel": "community",
    "ports": [{"type": "http", "ports": [80]}],
}


def test_a_template_is_wrapped_and_has_a_capital_id(api: Api) -> None:
    shown = api.get("/template", templateId="107672").json()["template"]

    assert (shown["Id"], shown["createdAt"], shown["rootfsSize"]) == ("107672", "1756959094", 60)
    assert shown["ports"] == [{"type": "http", "ports": [8188, 80]}, {"type": "tcp", "ports": [22]}]
    assert shown["imageAuth"] == ""


def test_a_private_template_names_its_login_by_id(api: Api) -> None:
    auths = {one["id"]: one for one in api.get("/repository/auths").json()["data"]}

    shown = api.get("/template", templateId="107673").json()["template"]

    assert auths[shown["imageAuth"]] == {
        "id": AUTHS[0][0],
        "name": "ghcr",
        "username": "ostler-demo",
        "password": "ghp_demo_1",
    }


def test_an_unknown_template_is_a_400(api: Api) -> None:
    assert reason(api.get("/template", templateId="1")) == (400, "TEMPLATE_NOT_FOUND")
    assert reason(api.get("/template")) == (400, "VALIDATOR_PARAM")


NOT_TAKEN = {"107674", "107675", "107676", "107678"}  # by Novita, so that it does not list them


def test_templates_are_listed_by_name_and_channel(api: Api) -> None:
    made = api.post("/template/create", {"template": NEW}).json()["templateId"]

    everything = api.get("/templates", pageSize=100, pageNum=0).json()
    commas = api.get("/templates", channel="community,official").json()
    repeated = api.get("/templates", channel=["community", "official"]).json()
    named = api.get("/templates", name="No Ports").json()

    assert (everything["total"], everything["pageSize"], everything["pageNum"]) == (
        len(TEMPLATES.keys() - NOT_TAKEN) + 1,
        100,
        0,
    )
    assert [one["Id"] for one in commas["template"]] == [made]
    assert repeated["template"] == commas["template"]
    assert [one["Id"] for one in named["template"]] == ["107677"]


def test_a_template_can_be_made_changed_and_deleted(api: Api) -> None:
    id_ = api.post("/template/create", {"template": NEW}).json()["templateId"]
    updated = api.post("/template/update", {"template": {**NEW, "Id": id_, "image": "c/d:2"}})
    shown = api.get("/template", templateId=id_).json()["template"]
    deleted = api.post("/template/delete", {"templateId": id_})

    assert updated.json() == deleted.json() == {"templateId": id_}
    assert (shown["image"], shown["channel"]) == ("c/d:2", "community")
    assert reason(api.get("/template", templateId=id_)) == (400, "TEMPLATE_NOT_FOUND")


@pytest.mark.parametrize(
    "wrong",
    [{"image": ""}, {"name": ""}, {"ports": [{"type": "udp", "ports": [1]}]}, {"readme": "x" * 102401}],
)
def test_a_bad_template_is_refused(api: Api, wrong: dict[str, object]) -> None:
    response = api.post("/template/create", {"template": {**NEW, **wrong}})

    assert reason(response) == (400, "VALIDATOR_PARAM")
    assert next(iter(wrong)) in response.json()["message"]


def test_any_template_can_be_set_by_hand(api: Api, sim: Simulator) -> None:
    sim.put_template("5", image="x/y", ports="nonsense")

    shown = api.get("/template", templateId="5").json()["template"]

    assert (shown["Id"], shown["image"], shown["ports"]) == ("5", "x/y", "nonsense")


def test_a_login_is_saved_without_an_answer_and_found_by_listing(api: Api) -> None:
    saved = api.post("/repository/auth/save", {"name": "n", "username": "u", "password": "p"})
    found = [one for one in api.get("/repository/auths").json()["data"] if one["name"] == "n"]
    deleted = api.post("/repository/auth/delete", {"id": found[0]["id"]})

    assert (saved.status_code, saved.content) == (204, b"")
    assert len(found) == 1
    assert deleted.json() == {}
    assert reason(api.post("/repository/auth/delete", {"id": found[0]["id"]})) == (400, "RESOURCE_NOT_FOUND")


def test_a_login_in_use_is_not_deleted(api: Api, sim: Simulator) -> None:
    sim.put_auth("by-hand", "n", "u", "p")
    api.create(imageAuthId="by-hand")

    assert reason(api.post("/repository/auth/delete", {"id": "by-hand"})) == (400, "IMAGE_AUTH_IN_USE")
    assert reason(api.post("/repository/auth/delete", {"id": AUTHS[0][0]})) == (400, "IMAGE_AUTH_IN_USE")
