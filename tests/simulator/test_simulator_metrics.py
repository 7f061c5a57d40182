"""GPU metrics of the simulator: for each GPU, at the interval asked for, late as Novita's are."""

from typing import Any

from local.novita.client import Simulator
from local.novita.wire import BILLING_PREFIX
from tests.simulator.bare_api import NOON, Api, reason


def _ask(sim: Simulator, api: Api, machine_id: str, **query: Any) -> Any:
    url = f"{sim.base_url}{BILLING_PREFIX}/metrics/gpu/instance"
    return api.session.get(url, params={"instanceId": machine_id, **query}, timeout=10)


def _series(sim: Simulator, api: Api, machine_id: str, **query: Any) -> dict[str, list[tuple[int, float]]]:
    shown = _ask(sim, api, machine_id, **query).json()["gpuUtilization"]["gpuIds"]
    return {gpu["gpuId"]: [(int(one["timestamp"]), one["value"]) for one in gpu["items"]] for gpu in shown}


def test_each_gpu_has_its_own_samples_at_the_interval_asked_for(sim: Simulator, api: Api) -> None:
    machine_id = sim.put_instance(status="running", gpuNum=2)["id"]
    sim.advance(120)
    sim.patch_instance(machine_id, gpuUtilization=[0, 80.5])
    sim.advance(180)

    found = _series(sim, api, machine_id, startTime=NOON, endTime=NOON + 300, interval=60)

    assert found["gpu-0"] == [(NOON + t, 0.0) for t in (60, 120, 180, 240)]
    assert found["gpu-1"] == [(NOON + 60, 0.0), *((NOON + t, 80.5) for t in (120, 180, 240))]


def test_a_gpu_can_be_without_samples_for_a_while_or_altogether(sim: Simulator, api: Api) -> None:
    machine_id = sim.put_instance(status="running", gpuNum=2)["id"]
    sim.patch_instance(machine_id, gpuUtilization=[0, None])
    sim.advance(120)
    sim.patch_instance(machine_id, gpuUtilization=[None, None])
    sim.advance(300)

    found = _series(sim, api, machine_id, startTime=NOON, endTime=NOON + 420, interval=60)

    assert found == {"gpu-0": [(NOON + 60, 0.0)]}


def test_bad_numbers_mean_the_last_minute_and_unknown_machines_an_error(sim: Simulator, api: Api) -> None:
    machine_id = sim.put_instance(status="running")["id"]
    sim.settings(metricsLagSeconds=0)
    sim.advance(600)

    found = _series(sim, api, machine_id, startTime="yesterday", interval="x")

    assert [t for t, _ in found["gpu-0"]] == [NOON + 600 - ago for ago in (45, 30, 15, 0)]
    assert reason(_ask(sim, api, "nobody")) == (400, "RESOURCE_NOT_FOUND")
