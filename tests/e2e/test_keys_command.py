"""`python -m ops.keys`, as whoever deploys it runs it, against the deployed template."""

import os
import subprocess
import sys

import pytest
import requests

from local.paths import ROOT
from tests.e2e.service import Service

pytestmark = pytest.mark.usefixtures("credentials")


def keys(*arguments: str) -> tuple[int, str, str]:
    ran = subprocess.run(
        [sys.executable, "-m", "ops.keys", *arguments],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return ran.returncode, ran.stdout.strip(), ran.stderr.strip()


def answered(service: Service, method: str, path: str, key: str) -> int:
    headers = {"Authorization": f"Bearer {key}"}
    return requests.request(method, service.stack.api_url + path, headers=headers, timeout=30).status_code


def test_a_key_is_made_listed_and_revoked(service: Service) -> None:
    made, key, about = keys("create", "--name", "ci, nightly", "--scopes", "read")
    key_id = about.splitlines()[-1].split()[0]

    assert made == 0
    assert ":stack/Ostler/" in about.splitlines()[0], "which deployment it is for"
    assert answered(service, "GET", "/api/instances", key) == 200
    assert answered(service, "POST", "/api/cache/cleanup", key) == 403
    _, listed, _ = keys("list")
    (line,) = [one for one in listed.splitlines() if one.startswith(key_id)]
    assert line.endswith("ci, nightly")
    assert key not in listed

    assert keys("revoke", key_id)[0] == 0
    assert service.wait(lambda: answered(service, "GET", "/api/instances", key) == 401, 60)
    assert "revoked" in keys("list")[1]
    assert keys("revoke", key_id)[0] == 1


@pytest.mark.parametrize("scopes", ["", "read,owner"])
def test_a_scope_that_there_is_not_is_named(scopes: str) -> None:
    ended, key, said = keys("create", "--name", "x", "--scopes", scopes)

    assert (ended, key) == (2, "")
    assert ("owner" if scopes else "at least one") in said
