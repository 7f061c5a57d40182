"""One run with every secret the service meets, and then a search of everything it wrote or sent."""

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from functions.shared.domain.delivery.webhooks import derive_secret, origin_of, read_master, show_secret
from functions.shared.stores.table import marshal
from tests.e2e.service import Service

PASSWORD = f"registry-password-{uuid4().hex}"
VARIABLE = f"variable-value-{uuid4().hex}"
NOVITA_KEY = f"novita-key-{uuid4().hex}"
PRESENTED = f"ost_{'x' * 11}{uuid4().hex}"  # a key that is not valid, and still nobody's business


def put_in(service: Service, key: str) -> None:
    """And prove it, as an admin's word does: the machines of earlier tests are gone from the simulator."""
    secrets = service.stack.emulator.client("secretsmanager")
    put = secrets.put_secret_value(SecretId=service.stack.outputs["NovitaSecretId"], SecretString=key)
    item = {"pk": f"novita-key#{put['VersionId']}", "sk": "key", "kind": "key"}
    service.stack.emulator.client("dynamodb").put_item(
        TableName=service.stack.outputs["TableName"], Item=marshal({**item, "firstUsedAt": 0, "provenAt": 0})
    )


@pytest.fixture
def novita_key(service: Service) -> Iterator[None]:
    """A key that can be told from other words; functions read the secret anew after a second."""
    secrets = service.stack.emulator.client("secretsmanager")
    secret_id = service.stack.outputs["NovitaSecretId"]
    before = secrets.get_secret_value(SecretId=secret_id)["SecretString"]
    put_in(service, NOVITA_KEY)
    yield
    put_in(service, before)


@pytest.mark.usefixtures("novita_key")
def test_no_secret_is_in_any_log_record_message_error_event_or_webhook(service: Service) -> None:
    queue = service.subscribed()
    hook = service.simulator.inbox_url("secrets")
    service.simulator.put_auth("auth-1", "registry", "robot", PASSWORD)
    service.simulator.put_template(
        "900",
        image="registry.example/private:1",
        imageAuth="auth-1",
        envs=[{"key": "TOKEN", "value": VARIABLE}],
    )
    service.simulator.settings(imageAuthIdAccepted=False, privateImages=["registry.example/private:1"])

    answers = _live_through(service, hook)

    connection = answers.pop("connection")
    password = json.loads(connection)["ssh"]["password"]
    sent = {call["status"] for call in service.simulator.calls("/gpu/instance/create")}
    assert {200, 400} <= sent, "the login was refused by its id and then sent as user and password"
    master = service.stack.state.path.joinpath("webhook-secret").read_text().strip()
    secrets = {
        "the API key": service.stack.api_key,
        "a wrong key that was presented": PRESENTED,
        "Novita's key": NOVITA_KEY,
        "the registry's password": PASSWORD,
        "a variable of the template": VARIABLE,
        "the master webhook secret": master,
        "a receiver's secret": show_secret(derive_secret(read_master(master), origin_of(hook))),
        "an ssh password": password,
    }
    places = {
        "the functions' log": service.log(),
        "the table": service.stored(),
        "the topic": "\n".join(service.received(queue)),
        "the webhooks": json.dumps(service.simulator.inbox("secrets")),
        **{f"the answer to {what}": text for what, text in answers.items()},
    }
    found = [
        f"{what} in {place}"
        for what, value in secrets.items()
        for place, text in places.items()
        if value in text
    ]
    assert found == []
    assert all(places.values()), "a place that is empty proves nothing"


def _live_through(service: Service, hook: str) -> dict[str, str]:
    """A create from a private image with everything that can be shown of it, and errors on the way."""
    answers: dict[str, str] = {}

    def keep(what: str, method: str, path: str, body: object = None, **options: object) -> None:
        answers[what] = service.call(method, path, body, **options).text

    service.simulator.fault(
        "status", "/gpu/instance/create", status=500, message=f"bad {NOVITA_KEY}", times=1
    )
    instance_id = service.create(templateId="900", webhookUrl=hook)
    service.wait_for(instance_id, "running")
    keep("connection", "GET", f"/api/instances/{instance_id}/connection")
    keep("get", "GET", f"/api/instances/{instance_id}")
    keep("events", "GET", f"/api/instances/{instance_id}/events")
    keep("list", "GET", "/api/instances")
    keep("template", "GET", "/api/templates/900")
    keep("a wrong key", "GET", "/api/instances", headers={"Authorization": f"Bearer {PRESENTED}"})
    keep("bad input", "POST", "/api/instances", {"name": 1})
    keep("stop", "POST", f"/api/instances/{instance_id}/stop")
    service.wait_for(instance_id, "stopped")
    service.simulator.settings(rejectedKeys=[NOVITA_KEY])
    keep("refused by Novita", "POST", "/api/instances/import", {"novitaInstanceId": "abc"})
    service.simulator.settings(rejectedKeys=[])
    service.wait(lambda: len(service.simulator.inbox("secrets")) >= 5)
    return answers
