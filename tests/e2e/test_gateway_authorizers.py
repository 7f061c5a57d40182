"""The real template with auth=jwt and auth=iam, deployed: the gateway checks, the function believes it."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import boto3
import pytest
import requests
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from local import credentials
from local.deploy import deploy
from local.emulator import ACCESS_KEY, ACCOUNT, REGION, SECRET_KEY, Emulator
from local.novita.client import Simulator
from local.novita.process import running
from local.ports import Ports
from ops.smoke import SmokeTest, find_service
from ops.stack import DeployedStack
from ops.target import Target
from tests.e2e.issuer import Issuer, issuing
from tests.infra.template import synthesise

CREATE = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"}
# The stack takes no issuer without TLS, so a local one takes the place of this.
STAND_IN = "https://issuer.example"
MODES = {
    "jwt": {"auth": "jwt", "jwtIssuer": STAND_IN, "jwtAudience": "ostler"},
    "iam": {"auth": "iam"},
}
PAST_THE_AUTHORIZER = ("/api", "/API/instances", "/nothing")


@dataclass(frozen=True)
class Gateway:
    """What one deployment answers, asked at the emulator itself: signatures are over the whole path."""

    url: str
    api_id: str

    def call(
        self, method: str, path: str, body: Any = None, *, bearer: str = "", key: Credentials | None = None
    ) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json"}
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        request = AWSRequest(method, self.url + path, headers, json.dumps(body) if body else None)
        if key:
            SigV4Auth(key, "execute-api", REGION).add_auth(request)
        answer = requests.request(
            method, self.url + path, data=request.data, headers=dict(request.headers), timeout=60
        )
        return answer.status_code, answer.json()


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    folder = tmp_path_factory.mktemp("authorizers")
    with Emulator(folder, Ports.free().emulator, enforce_iam=True) as started:
        yield started


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as started:
        yield started


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    with running() as started:
        yield started


@pytest.fixture(scope="module")
def gateway(
    request: pytest.FixtureRequest,
    emulator: Emulator,
    issuer: Issuer,
    simulator: Simulator,
    tmp_path_factory: pytest.TempPathFactory,
) -> Gateway:
    """One deployment at a time: pytest runs the tests of one mode before those of the other."""
    synthesised = synthesise(tmp_path_factory.mktemp("template"), **MODES[request.param])
    template = json.loads(synthesised.file.read_text().replace(STAND_IN, issuer.url))
    deploy(emulator, template, {"NOVITA_API_BASE_URL": simulator.api_url})
    made = DeployedStack.read(emulator.client("cloudformation"))
    credentials.put_secret(emulator.client("secretsmanager"), made.novita_secret_id, "a-key")
    return Gateway(f"{emulator.url}/_aws/execute-api/{made.api_id}/$default", made.api_id)


by_token = pytest.mark.parametrize("gateway", ["jwt"], indirect=True)
by_signature = pytest.mark.parametrize("gateway", ["iam"], indirect=True)


@by_token
def test_a_token_of_the_issuer_opens_what_its_scopes_say(gateway: Gateway, issuer: Issuer) -> None:
    def status(path: str = "/api/instances", method: str = "GET", **claims: Any) -> int:
        body = CREATE if method == "POST" else None
        return gateway.call(method, path, body, bearer=issuer.token(**claims))[0]

    assert status(scope="openid ostler/read") == 200
    assert status(method="POST", scope="read") == 403
    assert status("/api/webhooks/secret?url=https://a.example", scope="write") == 403
    assert status(scope="billing/admin") == 403
    assert status(scope="admin", exp=1) == 401
    assert status(scope="admin", aud="another") == 401
    assert status(scope="admin", iss="https://other.example") == 401
    assert status(scope="admin", forged=True) == 401
    assert gateway.call("GET", "/api/instances")[0] == 401
    for path in PAST_THE_AUTHORIZER:
        assert status(path, scope="admin") == 401
    assert gateway.call("GET", "/health")[0] == 200

    created, instance = gateway.call("POST", "/api/instances", CREATE, bearer=issuer.token(scope=["write"]))
    assert created == 201, instance
    path = f"/api/instances/{instance['instanceId']}/events"
    _, history = gateway.call("GET", path, bearer=issuer.token(scope="read"))
    assert (created, history["events"][0]["actor"]) == (201, "jwt:alice")


@by_token
def test_a_smoke_test_learns_the_mode_and_shows_the_token_that_it_is_given(
    gateway: Gateway, emulator: Emulator, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", emulator.url)
    _log_in(monkeypatch, Credentials(ACCESS_KEY, SECRET_KEY))

    assert _smoke(gateway, {"OSTLER_TOKEN": issuer.token(scope="read")}) == [
        "ok       health",
        "ok       table and queues",
        "ok       no token is refused",
        "ok       a wrong token is refused",
        "ok       description of the API",
        "ok       products",
        "ok       quote",
        "7 of 7 checks passed",
    ]


@by_signature
def test_a_smoke_test_signs_as_whoever_runs_it(
    gateway: Gateway, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{gateway.api_id}/*"
    _log_in(monkeypatch, _user(emulator, "smoker", resource))

    assert _smoke(gateway, {"OSTLER_URL": gateway.url, "OSTLER_AUTH": "iam"}) == [
        "ok       health",
        "ok       table and queues",
        "ok       no signature is refused",
        "ok       a wrong signature is refused",
        "ok       description of the API",
        "ok       products",
        "ok       quote",
        "7 of 7 checks passed",
    ]


@by_signature
def test_a_signature_opens_what_iam_policies_say(gateway: Gateway, emulator: Emulator) -> None:
    key = _user(emulator, "reader", f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{gateway.api_id}/*/GET/*")
    writer = _user(emulator, "writer", f"arn:aws:execute-api:{REGION}:{ACCOUNT}:{gateway.api_id}/*")

    assert gateway.call("GET", "/api/instances", key=key)[0] == 200
    assert gateway.call("POST", "/api/instances", CREATE, key=key)[0] == 403
    assert gateway.call("GET", "/api/instances")[0] == 403
    wrong = Credentials(key.access_key, "not-its-secret")
    assert gateway.call("GET", "/api/instances", key=wrong)[0] == 403
    for path in PAST_THE_AUTHORIZER:
        status, answer = gateway.call("GET", path)
        assert (status, answer["error"]["code"]) == (401, "UNAUTHORIZED")
    assert gateway.call("GET", "/health")[0] == 200

    created, instance = gateway.call("POST", "/api/instances", CREATE, key=writer)
    assert created == 201, instance
    _, history = gateway.call("GET", f"/api/instances/{instance['instanceId']}/events", key=key)
    assert (created, history["events"][0]["actor"]) == (201, f"iam:arn:aws:iam::{ACCOUNT}:user/writer")


def _smoke(gateway: Gateway, environment: dict[str, str]) -> list[str]:
    """What it says, without what it found; at the emulator's address, which the stack does not know."""
    said: list[str] = []
    with find_service(environment, lambda: Target.find(os.environ)) as service:
        SmokeTest(replace(service, url=gateway.url), "", None, said.append).run()
    return [line.split(":")[0] if line.startswith("ok") else line for line in said]


def _log_in(monkeypatch: pytest.MonkeyPatch, key: Credentials) -> None:
    """As whoever runs commands in a shell."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key.secret_key)


def _user(emulator: Emulator, name: str, resource: str) -> Credentials:
    """Somebody who may call these routes and nothing else."""
    iam = emulator.client("iam")
    iam.create_user(UserName=name)
    statement = {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": resource}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName=name, PolicyName="calls", PolicyDocument=policy)
    made = iam.create_access_key(UserName=name)["AccessKey"]
    return Credentials(made["AccessKeyId"], made["SecretAccessKey"])
