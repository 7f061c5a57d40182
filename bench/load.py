"""How long callers wait when many ask at once: GET and POST over the local stack, in turn with a function on
the same emulator that does nothing.

Gateway, functions and clients share this machine's cores, so a time says how long the queue for them is; the
ratio is what an answer costs beside one that is free. What follows from a create is switched off meanwhile
(`burst` measures it), and no caller is held back for asking much.
"""

import asyncio
import io
import json
import logging
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from uuid import uuid4

from aiohttp import ClientSession

from bench.stage import BODY
from bench.table import Row, half_spread
from local.emulator import ACCOUNT, Emulator
from local.forwarder import Forwarder
from local.ports import Ports
from local.stack import LocalStack

CLIENTS, ROUNDS, EACH, LEAST = (1, 10, 50), 7, 3, 20
SETTINGS = {
    "REQUESTS_PER_CALLER": "1000000",
    "REQUESTS_PER_STRANGER": "1000000",
    "PRODUCTS_TTL": "3600",
    "TEMPLATES_TTL": "3600",
}
# With one line of log, as every function writes: the emulator waits 50 ms for the first.
NOTHING = 'def handler(event, context):\n    print("{}")\n    return {"statusCode": 200, "body": "{}"}\n'


@dataclass(frozen=True)
class Request:
    method: str
    url: str
    key: str
    wanted: int
    body: bytes | None = None

    async def seconds(self, session: ClientSession) -> float:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        if self.body:
            headers["Idempotency-Key"] = str(uuid4())
        began = time.perf_counter()
        async with session.request(self.method, self.url, headers=headers, data=self.body) as answer:
            text = await answer.text()
        if answer.status != self.wanted:
            raise RuntimeError(f"{self.method} {self.url}: {answer.status} {text[:500]}")
        return time.perf_counter() - began


async def waits(request: Request, clients: int) -> list[float]:
    """Of each answer, each client asking as soon as it has the last one."""
    found: list[float] = []

    async def ask(session: ClientSession) -> None:
        for _ in range(max(EACH, LEAST // clients)):
            found.append(await request.seconds(session))

    async with ClientSession() as session:
        await asyncio.gather(*(ask(session) for _ in range(clients)))
    return found


def rows() -> Iterator[Row]:
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)  # the forwarder's, a line for each request
    with tempfile.TemporaryDirectory() as folder, _stack(Path(folder)) as stack, _nothing(stack) as nothing:
        _switch_off_what_follows(stack.emulator)
        create = Request(
            "POST", f"{stack.api_url}/api/instances", stack.api_key, 201, json.dumps(BODY).encode()
        )
        instance_id = asyncio.run(_created(create))
        get = Request("GET", f"{create.url}/{instance_id}", stack.api_key, 200)
        for clients in CLIENTS:
            yield from _measured({"GET": get, "POST": create}, nothing, clients)


def _measured(asked: dict[str, Request], nothing: Request, clients: int) -> Iterator[Row]:
    every = {"nothing": nothing, **asked}
    for request in every.values():  # as many processes as are wanted
        asyncio.run(waits(request, clients))
    rounds = [{name: asyncio.run(waits(one, clients)) for name, one in every.items()} for _ in range(ROUNDS)]
    free = [one for found in rounds for one in found["nothing"]]
    for name in asked:
        found = [one for some in rounds for one in some[name]]
        ratios = [median(some[name]) / median(some["nothing"]) for some in rounds]
        whom = "1 client" if clients == 1 else f"{clients} clients"
        yield Row(
            "load",
            f"{name}, {whom}",
            median(ratios),
            "times",
            anchor=f"{_told(found)}; {_told(free)} of a function that does nothing",
            spread=half_spread(ratios),
        )


def _told(found: list[float]) -> str:
    return f"{1000 * median(found):.0f} ms, 95 of 100 within {1000 * quantiles(found, n=20)[-1]:.0f}"


@contextmanager
def _stack(folder: Path) -> Iterator[LocalStack]:
    with LocalStack(folder, Ports.free(), SETTINGS) as stack:
        yield stack


async def _created(create: Request) -> str:
    async with ClientSession() as session:
        headers = {"Authorization": f"Bearer {create.key}", "Content-Type": "application/json"}
        async with session.post(create.url, headers=headers, data=create.body) as answer:
            return str((await answer.json())["instanceId"])


def _switch_off_what_follows(emulator: Emulator) -> None:
    functions = emulator.client("lambda")
    for source in functions.list_event_source_mappings()["EventSourceMappings"]:
        functions.update_event_source_mapping(UUID=source["UUID"], Enabled=False)


@contextmanager
def _nothing(stack: LocalStack) -> Iterator[Request]:
    """A function that does nothing, behind a gateway of its own, reached as ours is."""
    functions, gateway = stack.emulator.client("lambda"), stack.emulator.client("apigatewayv2")
    deployed = next(one for one in functions.list_functions()["Functions"] if "Api" in one["FunctionName"])
    function: dict[str, Any] = functions.create_function(
        FunctionName="nothing",
        Runtime=deployed["Runtime"],
        Role=deployed["Role"],
        Handler="nothing.handler",
        MemorySize=deployed["MemorySize"],
        Code={"ZipFile": _zipped("nothing.py", NOTHING)},
    )
    api = gateway.create_api(Name="nothing", ProtocolType="HTTP")["ApiId"]
    integration = gateway.create_integration(
        ApiId=api,
        IntegrationType="AWS_PROXY",
        IntegrationUri=function["FunctionArn"],
        PayloadFormatVersion="2.0",
    )["IntegrationId"]
    gateway.create_route(ApiId=api, RouteKey="$default", Target=f"integrations/{integration}")
    gateway.create_stage(ApiId=api, StageName="$default", AutoDeploy=True)
    functions.add_permission(
        FunctionName="nothing",
        StatementId="gateway",
        Action="lambda:InvokeFunction",
        Principal="apigateway.amazonaws.com",
        SourceArn=f"arn:aws:execute-api:us-east-1:{ACCOUNT}:{api}/*",
    )
    port = Ports.free().api
    forwarder = Forwarder(port, f"{stack.emulator_url}/_aws/execute-api/{api}/$default")
    forwarder.start()
    try:
        yield Request("GET", f"http://127.0.0.1:{port}/", stack.api_key, 200)
    finally:
        forwarder.stop()


def _zipped(name: str, text: str) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr(name, text)
    return archive.getvalue()
