"""The process itself: its state over a restart, its end, its port."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from local.novita.process import ROOT, running
from tests.simulator.bare_api import NOON, Api


def test_state_survives_a_clean_restart(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "state.json"
    with running(state=state) as sim:
        sim.stand_still(NOON)
        sim.settings(bootSeconds=100, spotInGet=True)
        api = Api(sim)
        id_ = api.create(envs=[{"key": "A", "value": "b"}])
        sim.reclaim(id_, in_seconds=50)
        sim.patch_product("l40s.14c80g", stock={"CN-HK-01": 1})
        sim.put_template("5", image="x/y")
        sim.app(id_, 8188, status=418)
        machines, settings, products = sim.instances(), sim.settings(), sim.products()

    with running(state=state) as sim:
        kept = (sim.instances(), sim.settings(), sim.products())
        template = Api(sim).get("/template", templateId="5").json()["template"]["image"]
        sim.advance(53)
        shown = Api(sim).instance(id_)

    assert kept == (machines, settings, products)
    assert template == "x/y"
    assert (shown["status"], shown["spotStatus"]) == ("exited", "terminated")
    assert state.stat().st_mode & 0o077 == 0
    assert os.listdir(state.parent) == ["state.json"]  # noqa: PTH208  # nothing half written is left


def test_a_corrupt_state_is_moved_aside_and_said(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text('{"machines": {"a": 1}}')
    command = [sys.executable, "-m", "local.novita", "--port", "0", "--state", str(state)]

    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first_line = process.stdout.readline() if process.stdout else ""
    process.terminate()
    _, errors = process.communicate(timeout=10)

    assert first_line.startswith("novita simulator on http://127.0.0.1:")
    assert process.returncode == 0
    assert "state.json.corrupt-" in errors
    assert "Traceback" not in errors
    (aside,) = tmp_path.glob("state.json.corrupt-*")
    assert aside.read_text() == '{"machines": {"a": 1}}'
    assert json.loads(state.read_text())["machines"] == {}


def test_a_port_in_use_is_said_plainly() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "local.novita", "--port", str(port)]

        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)

    assert process.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in process.stderr
    assert "Traceback" not in process.stderr
