"""`make run` as a person meets it: it starts, stops, comes back, and survives being killed."""

import socket
import stat
from pathlib import Path

import pytest
import requests

from local.novita.process import running
from local.ports import HOST, Ports
from local.waiting import wait_until
from ops.novita_account import NovitaAccount
from tests.local.local_copy import MAKE_RUN, RUN, LocalCopy

BUY = {
    "productId": "4090.18c96g",
    "gpuNum": 1,
    "rootfsSize": 60,
    "imageUrl": "ghcr.io/ostler-demo/comfyui:latest",
    "kind": "gpu",
    "clusterId": "cn-hongkong-1",
    "billingMode": "onDemand",
}
ULID = "01jd0000000000000000000000"


def test_it_starts_and_stops_and_comes_back_with_what_it_knew(copy: LocalCopy) -> None:
    copy.start(MAKE_RUN)

    assert copy.lines[-1] == f"ostler is ready on {copy.url}"
    assert sum(line.lstrip().startswith("curl ") for line in copy.lines) == 3
    assert copy.key in copy.output
    assert requests.get(f"{copy.url}/health", timeout=30).status_code == 200
    assert copy.get("/api/instances").status_code == 200
    assert _listening_addresses(copy.ports) == {HOST}
    assert _mode(copy.state_dir / "api-key") == _mode(copy.state_dir / "webhook-secret") == 0o600

    key, deployment = copy.key, _deployment(copy)
    machine = _buy(copy, f"mine-{deployment}-{ULID}")
    copy.press_ctrl_c()

    assert copy.leaves_nothing(), (copy.processes(), copy.open_ports())

    copy.start()

    assert "the stack is unchanged" in copy.lines
    assert (copy.key, _deployment(copy)) == (key, deployment)
    assert copy.get("/api/instances").status_code == 200
    assert _living(copy) == [machine]

    copy.press_ctrl_c()
    copy.start(FRESH="1")

    assert "the stack is created" in copy.lines
    assert _living(copy) == []
    assert copy.get("/api/instances").status_code == 200


def test_the_state_of_an_older_version_is_moved_aside_and_said_so(copy: LocalCopy) -> None:
    copy.start()
    key, deployment = copy.key, _deployment(copy)
    _buy(copy, f"mine-{deployment}-{ULID}")
    copy.press_ctrl_c()
    (copy.state_dir / "version").unlink()

    copy.start(MAKE_RUN)

    assert "was saved by an older version of Ostler (in format 1, this one reads 3)" in copy.output
    assert f"It is moved to {copy.state_dir / 'old-1'}; nothing is lost." in copy.output
    assert (copy.key, _deployment(copy)) == (key, deployment)
    assert copy.get("/api/instances", key).status_code == 200
    assert _living(copy) == []
    assert (copy.state_dir / "old-1" / "saved" / "simulator.json").exists()

    copy.press_ctrl_c()
    copy.start()

    assert "older version" not in copy.output
    assert "the stack is unchanged" in copy.lines


def test_an_older_version_is_not_moved_aside_while_real_machines_live(copy: LocalCopy) -> None:
    """The real Novita is a simulator of its own here: all that matters is that there is a key for it."""
    with running() as novita:
        novita.settings(listLagSeconds=0)
        real = {"NOVITA_API_KEY": "k", "NOVITA_API_BASE_URL": novita.api_url, "NO_PROXY": HOST}
        copy.start(RUN, **real)
        machine = novita.put_instance(name=f"mine-{_deployment(copy)}-{ULID}", status="running")
        copy.press_ctrl_c()

        copy.launch(RUN, FRESH="1", **real)

        assert copy.exit_code() == 2
        assert f"machines of ours live at Novita: {machine['name']}" in copy.output

        (copy.state_dir / "version").unlink()

        copy.launch(RUN, **real)

        assert copy.exit_code() == 2
        assert f"machines of ours live at Novita: {machine['name']}" in copy.output
        assert "FRESH=force" in copy.output
        assert not (copy.state_dir / "old-1").exists()

        novita.patch_instance(machine["id"], status="removed")
        copy.start(RUN, **real)

        assert f"It is moved to {copy.state_dir / 'old-1'}" in copy.output
        copy.press_ctrl_c()


def test_a_kill_leaves_nothing_that_stops_the_next_start(copy: LocalCopy) -> None:
    copy.start()
    deployment = _deployment(copy)

    copy.kill()
    copy.start()

    assert _deployment(copy) == deployment
    assert copy.get("/api/instances").status_code == 200

    copy.kill()

    assert wait_until(copy.leaves_nothing, seconds=5), (copy.processes(), copy.open_ports())


def test_ctrl_c_while_it_starts_leaves_nothing(copy: LocalCopy) -> None:
    copy.launch()
    assert wait_until(lambda: "deploying the stack to it" in copy.lines, seconds=60), copy.output

    copy.press_ctrl_c()

    assert copy.lines[-1] == "stopped"
    assert copy.leaves_nothing(), (copy.processes(), copy.open_ports())


def test_killing_make_stops_what_it_started(copy: LocalCopy) -> None:
    copy.start(MAKE_RUN)

    copy.kill()

    assert wait_until(copy.leaves_nothing, seconds=15), (copy.processes(), copy.open_ports())


def test_copies_run_side_by_side(copy: LocalCopy, tmp_path: Path) -> None:
    other = LocalCopy(tmp_path / "other", Ports.free())
    copy.launch()
    other.start()
    copy_is_ready = f"ostler is ready on {copy.url}"
    assert wait_until(lambda: copy_is_ready in copy.lines, seconds=60), copy.output

    _buy(copy, f"mine-{_deployment(copy)}-{ULID}")

    assert _living(other) == []
    assert copy.get("/api/instances").status_code == 200
    assert other.get("/api/instances", key=copy.key).status_code == 401

    other.process.terminate()

    assert other.exit_code() == 0
    assert other.leaves_nothing()
    assert copy.get("/api/instances").status_code == 200


@pytest.mark.parametrize("name", ["api", "simulator", "emulator"])
def test_a_port_that_is_taken_is_named_with_what_to_change(copy: LocalCopy, name: str) -> None:
    variable = {"api": "OSTLER_PORT", "simulator": "NOVITA_SIM_PORT", "emulator": "AWS_EMULATOR_PORT"}[name]
    with socket.socket() as taken:
        taken.bind((HOST, getattr(copy.ports, name)))
        taken.listen()
        copy.launch()

        assert copy.exit_code() == 2

    assert f"port {getattr(copy.ports, name)} " in copy.output
    assert variable in copy.output


def test_a_setting_that_cannot_be_is_named_before_anything_starts(copy: LocalCopy) -> None:
    copy.launch(INSTANCE_POLL_INTERVAL="soon")

    assert copy.exit_code() == 2
    assert "INSTANCE_POLL_INTERVAL" in copy.output
    assert len(copy.lines) == 1


def _buy(copy: LocalCopy, name: str) -> str:
    """Straight from the simulator: what the service itself buys is not the matter here."""
    address = f"http://{HOST}:{copy.ports.simulator}/gpu-instance/openapi/v1/gpu/instance/create"
    answer = requests.post(address, json={**BUY, "name": name}, headers=_bearer("local"), timeout=30)
    assert answer.status_code == 200, answer.text
    return name


def _living(copy: LocalCopy) -> list[str]:
    address = f"http://{HOST}:{copy.ports.simulator}/gpu-instance/openapi/v1"
    return NovitaAccount("local", address, loopback=True).living_machines(_deployment(copy))


def _deployment(copy: LocalCopy) -> str:
    return (copy.state_dir / "deployment").read_text().strip()


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def _listening_addresses(ports: Ports) -> set[str]:
    """Of the three ports, as the kernel says: little-endian hexadecimal address, port, state 0A."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    rows += [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    found = set()
    for row in rows:
        address, port = row[1].split(":")
        if row[3] == "0A" and int(port, 16) in (ports.api, ports.simulator, ports.emulator):
            found.add(".".join(str(byte) for byte in reversed(bytes.fromhex(address))))
    return found
