"""Every command and program in the README and the guides, run against the deployed service."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local.emulator import ACCESS_KEY, REGION, SECRET_KEY
from local.paths import ROOT
from local.ports import Ports
from tests.e2e.service import Service
from tests.snippets import FILE, RUNS, documents, snippets

RUN = [one for one in documents() if any(block.mark == RUNS for block in snippets(one))]


@pytest.fixture
def folder(service: Service, tmp_path: Path) -> Path:
    """As a checkout with a local copy in it, and `ostler` on the path."""
    (tmp_path / ".local").symlink_to(service.stack.state.path)
    programs = tmp_path / "bin"
    programs.mkdir()
    ostler = programs / "ostler"
    ostler.write_text(f'#!/bin/sh\nexec {sys.executable} -m ostler.cli.main "$@"\n')
    ostler.chmod(0o755)
    return tmp_path


def environment(service: Service, folder: Path) -> dict[str, str]:
    return {
        "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "client/src"),
        "OSTLER_CONFIG": "/nonexistent",
        "HOME": str(folder),
        "AWS_ENDPOINT_URL": service.stack.emulator_url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "TOPIC_ARN": service.stack.outputs["TopicArn"],
    }


@pytest.mark.parametrize("document", RUN, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_says_to_do_works(document: Path, service: Service, folder: Path) -> None:
    """All of a document in one shell, one after the other; the first that fails ends it."""
    lines = ["set -eo pipefail"]
    for one in snippets(document):
        if one.mark == FILE:
            (folder / one.about).write_text(one.text)
        elif one.mark == RUNS:
            lines.append(_here(one.text, service))

    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder,
        env=environment(service, folder),
        capture_output=True,
        text=True,
        timeout=180,
        stdin=subprocess.DEVNULL,
        check=False,
    )

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def _here(text: str, service: Service) -> str:
    """On this stack, and on ports that nobody else has: other checkouts may run the same at this moment."""
    text = text.replace("http://127.0.0.1:8080", service.stack.api_url)
    for port in set(re.findall(r"--port (\d+)", text)):
        text = text.replace(port, str(Ports.free().api))
    return text


def test_the_receiver_in_lambda_takes_what_is_genuine_and_nothing_else(
    service: Service, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = ROOT / "docs/guides/events.md"
    program = next(one for one in snippets(guide) if one.about == "lambda_receiver.py")
    (folder / program.about).write_text(program.text)
    url = service.simulator.inbox_url("lambda")
    secrets = service.get(f"/api/webhooks/secret?url={url}")["secrets"]
    monkeypatch.setenv("OSTLER_WEBHOOK_SECRETS", " ".join(secrets))
    instance_id = service.create(webhookUrl=url)
    service.wait_for(instance_id, "running")
    assert service.wait(lambda: service.simulator.inbox("lambda"))
    message = service.simulator.inbox("lambda")[0]

    handler = _loaded(folder / program.about).handler
    event = {"headers": message["headers"], "body": message["body"], "isBase64Encoded": False}
    forged = {**event, "body": json.dumps({"type": "instance.ready"})}

    assert handler(event, None) == {"statusCode": 204}
    assert handler(forged, None)["statusCode"] == 401
    service.operate(instance_id, "delete")
    service.wait_for(instance_id, "terminated")


def _loaded(file: Path) -> Any:
    found = importlib.util.spec_from_file_location(file.stem, file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module
