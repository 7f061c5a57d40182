"""The real template with auth=jwt and auth=iam, deployed: the gateway checks, the function believes it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from local import credentials
from local.deployed import Deployed
from local.deployment import deploy
from local.emulator import ACCOUNT, REGION, Emulator
from local.ports import Ports
from tests.e2e.issuer import Issuer, issuing
from tests.infra.template import synthesise

NOWHERE = {"NOVITA_API_BASE_URL": "http://127.0.0.1:9"}
CREATE = {"name": "test", "productName": "RTX 4090 24GB", "templateId": "107672"}
# The stack takes no issuer without TLS, so a local one takes the place of this.
STAND_IN = "https://issuer.example"
PAST_THE_AUTHORIZER = ("/api", "/API/instances", "/", "/nothing")


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


Deploy = Callable[..., Gateway]


@pytest.fixture
def deployed(emulator: Emulator, issuer: Issuer, tmp_path: Path) -> Deploy:
    def put(**options: str) -> Gateway:
        template = synthesise(tmp_path, **options).file.read_text().replace(STAND_IN, issuer.url)
        deploy(emulator, json.loads(template), NOWHERE)
        made = Deployed.read(emulator.client("cloudformation"))
        credentials.put_secret(emulator.client("secretsmanager"), made.novita_secret_id, "a-key")
        return Gateway(f"{emulator.url}/_aws/execute-api/{made.api_id}/$default", made.api_id)

    return put


def test_a_token_of_the_issuer_opens_what_its_scopes_say(deployed: Deploy, issuer: Issuer) -> None:
    gateway = deployed(auth="jwt", jwtIssuer=STAND_IN, jwtAudience="ostler")

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


def test_a_signature_opens_what_iam_policies_say(deployed: Deploy, emulator: Emulator) -> None:
    gateway = deployed(auth="iam")
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


def _user(emulator: Emulator, name: str, resource: str) -> Credentials:
    """Somebody who may call these routes and nothing else."""
    iam = emulator.client("iam")
    iam.create_user(UserName=name)
    statement = {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": resource}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName=name, PolicyName="calls", PolicyDocument=policy)
    made = iam.create_access_key(UserName=name)["AccessKey"]
    return Credentials(made["AccessKeyId"], made["SecretAccessKey"])
