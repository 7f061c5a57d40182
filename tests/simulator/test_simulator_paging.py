"""Pages of the list, counted from 0 or from 1."""

import pytest

from local.novita.client import Simulator
from tests.simulator.bare_api import Api, reason


@pytest.fixture
def five(api: Api, sim: Simulator) -> list[str]:
    sim.settings(listLagSeconds=0)
    return [api.create(name=f"machine-{number}") for number in range(5)][::-1]


def ids(api: Api, **query: int) -> list[str]:
    return [one["id"] for one in api.listed(**query)]


@pytest.mark.parametrize("start", [0, 1])
def test_pages_count_from_the_setting(api: Api, sim: Simulator, five: list[str], start: int) -> None:
    sim.settings(pageStart=start)

    pages = [ids(api, pageSize=2, pageNum=start + number) for number in range(4)]

    assert pages == [five[:2], five[2:4], five[4:], []]


def test_where_pages_count_from_one_page_zero_is_the_first(api: Api, sim: Simulator, five: list[str]) -> None:
    sim.settings(pageStart=1)

    assert ids(api, pageSize=2, pageNum=0) == ids(api, pageSize=2, pageNum=1) == five[:2]


def test_the_size_has_a_default_and_can_have_a_limit(api: Api, sim: Simulator, five: list[str]) -> None:
    sim.settings(defaultPageSize=3, maxPageSize=4)

    by_default = api.get("/gpu/instances").json()

    assert len(by_default["instances"]) == 3
    assert by_default["total"] == 5
    assert ids(api, pageSize=1000, pageNum=0) == five[:4]


def test_names_that_novita_does_not_know_are_ignored(api: Api, five: list[str]) -> None:
    found = api.get("/gpu/instances", page_size=1, pageNumber=3).json()["instances"]

    assert [one["id"] for one in found] == five


@pytest.mark.parametrize("wrong", ["-1", "x", "1.5", "9" * 5000])
def test_a_page_that_is_no_number_is_refused(api: Api, wrong: str) -> None:
    assert reason(api.get("/gpu/instances", pageNum=wrong)) == (400, "VALIDATOR_PARAM")


def test_a_thousand_machines_fit_on_a_page(api: Api, sim: Simulator) -> None:
    sim.settings(listLagSeconds=0)
    sim.put_instances(1000, name="machine", status="running")

    response = api.get("/gpu/instances", pageSize=1000, pageNum=0)

    shown = response.json()["instances"]
    assert len({one["id"] for one in shown}) == response.json()["total"] == 1000
    assert (shown[0]["name"], shown[-1]["name"]) == ("machine-1000", "machine-1")
    assert response.elapsed.total_seconds() < 1
