"""`ostler` against the deployed service: a machine's life, with Novita's faults in between."""

import json
import os
import subprocess
import sys
from pathlib import Path

from local.paths import ROOT
from tests.e2e.service import Service

CREATE = ("create", "first", "--product", "RTX 4090 24GB", "--template", "107672")


def ostler(service: Service, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Address and key are found where the local copy keeps them."""
    return subprocess.run(
        [sys.executable, "-m", "ostler.cli.main", *arguments],
        env={
            "PATH": f"{path}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "client/src"),
            "OSTLER_STATE_DIR": str(service.stack.state.path),
            "OSTLER_CONFIG": "/nonexistent",
        },
        capture_output=True,
        text=True,
        timeout=90,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_a_machines_life(service: Service, tmp_path: Path) -> None:
    fake = tmp_path / "ssh"
    fake.write_text('#!/bin/sh\necho "$@"\n')
    fake.chmod(0o755)
    service.simulator.fault("status", path="/products", status=503, times=3)

    made = ostler(service, "--yes", "--json", *CREATE, "--wait", "--timeout", "60s")

    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["status"] == "running"
    assert "first\trunning" in ostler(service, "ls").stdout
    assert "instance.running" in ostler(service, "events", "first").stdout
    assert "@" in ostler(service, "ssh", "first", path=str(tmp_path)).stdout
    for command in (("stop",), ("start",), ("--yes", "rm")):
        done = ostler(service, *command, "first", "--wait", "--timeout", "60s")
        assert done.returncode == 0, done.stderr


def test_a_pull_that_fails_ends_the_wait(service: Service) -> None:
    made = ostler(
        service, "--yes", "create", "bad", "--product", "RTX 4090 24GB", "--template", "107681", "--wait"
    )

    assert made.returncode == 1
    assert "manifest unknown" in made.stderr


def test_what_is_not_sold_is_not_found(service: Service) -> None:
    made = ostler(service, "--yes", "create", "x", "--product", "RTX 9090", "--template", "107672")

    assert made.returncode == 3
    assert "PRODUCT_NOT_FOUND" in made.stderr


def test_the_doctor_finds_the_service_well(service: Service) -> None:
    service.sweep()

    found = ostler(service, "--json", "doctor")

    assert {one["check"] for one in json.loads(found.stdout)} >= {"address", "Novita", "purchases"}
