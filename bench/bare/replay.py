"""A function with nothing but pydantic and boto3 that makes the very calls that ours made for such an event.

They were recorded, and are in the file that `CALLS` names: service, operation and parameters; and Novita's.
"""

import base64
import json
import os
from typing import Any

import boto3
from pydantic import BaseModel


class Call(BaseModel):
    service: str
    operation: str
    params: dict[str, Any]


class Recorded(BaseModel):
    calls: list[Call]


class Record(BaseModel, extra="allow"):
    body: str = "{}"


class Event(BaseModel):
    Records: list[Record] = []


def _read(part: dict[str, Any]) -> Any:
    return base64.b64decode(part["base64"]) if part.keys() == {"base64"} else part


with open(os.environ["CALLS"]) as file:  # noqa: PTH123  # pathlib is an import of its own
    _recorded = Recorded.model_validate(json.load(file, object_hook=_read))
_wanted = {call.service for call in _recorded.calls}
_client: Any = boto3.client
_clients = {name: _client(name) for name in _wanted - {"novita", "outbound"}}
if "novita" in _wanted:
    import requests

    _session = requests.Session()
    _session.trust_env = False
if "outbound" in _wanted:
    import urllib3

    _http = urllib3.PoolManager(retries=False)


def handler(event: dict[str, Any], _: object) -> dict[str, Any]:
    for record in Event.model_validate(event).Records:
        json.loads(record.body)
    for call in _recorded.calls:
        if call.service == "novita":
            _ask_novita(call)
        elif call.service == "outbound":
            _http.request(call.operation, call.params["url"], timeout=5)
        else:
            getattr(_clients[call.service], call.operation)(**call.params)
    print(json.dumps({"level": "INFO", "message": "done", "calls": len(_recorded.calls)}))
    return {"batchItemFailures": []}


def _ask_novita(call: Call) -> None:
    method, _, path = call.operation.partition(" ")
    sent: dict[str, Any] = {"params": call.params} if method == "GET" else {"json": call.params}
    address = os.environ["NOVITA_API_BASE_URL"] + path
    _session.request(method, address, headers={"Authorization": "Bearer key"}, timeout=(2, 5), **sent).json()
