"""The simulator's money: bills by days from its own books, a balance that runs out."""

from typing import Any

import pytest
import requests

from local.novita.client import Simulator
from tests.simulator.bare_api import NOON, Api, reason

DAY, HOUR = 86_400, 3600
MIDNIGHT = NOON - NOON % DAY  # before it
UNITS = 10_000  # of a bill, in a dollar


def asked(api: Api, path: str, **query: Any) -> requests.Response:
    """Billing lies beside the machines' API."""
    base = api.url.removesuffix("/gpu-instance/openapi/v1")
    return api.session.get(f"{base}/openapi/v1/billing{path}", params=query, timeout=10)


def bills(api: Api, id_: str, begin: int, end: int) -> dict[str, int]:
    answer = asked(api, "/bill/list", ownerId=id_, cycleType="Day", startTime=begin, endTime=end)
    assert answer.status_code == 200, answer.text
    return {one["billTime"]: int(one["payAmount"]) for one in answer.json()["bills"]}


def balance(api: Api) -> int:
    return int(asked(api, "/balance/detail").json()["availableBalance"])


def test_a_bill_has_each_day_of_its_intervals_and_its_disk(api: Api, sim: Simulator) -> None:
    sim.settings(billLagSeconds=0)
    id_ = sim.put_instance(status="running", billingMode="spot", gpuNum=2, rootfsSize=180)["id"]
    until_midnight = MIDNIGHT + DAY - NOON
    sim.advance(until_midnight + 6 * HOUR)
    sim.patch_instance(id_, status="exited")
    sim.advance(DAY)

    shown = bills(api, id_, MIDNIGHT, MIDNIGHT + 2 * DAY)

    rate, disk = 2 * 18_000 / 100_000, 120 * 0.005 / 24  # USD an hour
    first = round(until_midnight / HOUR * rate * UNITS)
    second = round((6 * rate + 18 * disk) * UNITS)
    assert list(shown.values()) == [pytest.approx(first, abs=1), pytest.approx(second, abs=1)]
    billed = sum(end - begin for begin, end in intervals(sim, id_))
    assert sum(shown.values()) == pytest.approx((billed / HOUR * rate + 18 * disk) * UNITS, abs=2)


def intervals(sim: Simulator, id_: str) -> list[tuple[float, float]]:
    return [(one["from"], one["to"]) for one in sim.instance(id_)["billed"]]


def test_a_day_is_billed_some_time_after_its_end_and_what_is_gone_has_its_bills_still(
    api: Api, sim: Simulator
) -> None:
    sim.settings(billLagSeconds=HOUR)
    id_ = sim.put_instance(status="running", billingMode="spot")["id"]
    sim.advance(MIDNIGHT + DAY - NOON)
    api.act("delete", id_)
    sim.advance(HOUR - 1)
    early = bills(api, id_, MIDNIGHT, MIDNIGHT + DAY)
    sim.advance(1)

    assert early == {}
    assert len(bills(api, id_, MIDNIGHT, MIDNIGHT + DAY)) == 1
    sim.settings(billsAbsent=True)
    assert bills(api, id_, MIDNIGHT, MIDNIGHT + DAY) == {}


def test_a_bill_is_of_one_machine_and_of_a_month_at_most(api: Api, sim: Simulator) -> None:
    id_ = sim.put_instance(status="running")["id"]
    month: dict[str, Any] = {"cycleType": "Day", "startTime": NOON - 32 * DAY, "endTime": NOON}

    assert reason(asked(api, "/bill/list", ownerId=id_, **month)) == (400, "VALIDATOR_PARAM")
    assert reason(asked(api, "/bill/list", cycleType="Day")) == (400, "VALIDATOR_PARAM")
    assert bills(api, "somebody else's", NOON - DAY, NOON) == {}


def test_a_balance_runs_out_and_then_nothing_is_sold_or_started(api: Api, sim: Simulator) -> None:
    sim.settings(balance=UNITS, spendBalance=True)
    id_ = sim.put_instance(status="running", billingMode="spot")["id"]
    stopped = sim.put_instance(status="exited", billingMode="spot")["id"]
    sim.advance(5 * HOUR)
    left = balance(api)
    sim.advance(HOUR)

    assert left == pytest.approx(UNITS - 5 * 0.18 * UNITS, abs=2)
    assert balance(api) == 0
    assert reason(api.try_create()) == (400, "BALANCE_NOT_ENOUGH")
    assert reason(api.act("start", stopped)) == (400, "BALANCE_NOT_ENOUGH")
    assert api.act("stop", id_).status_code == 200
    sim.settings(balance=10 * UNITS)
    assert api.try_create().status_code == 200
