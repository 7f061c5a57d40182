"""From the start of a process to its first answer, in CPU time: each function as it is deployed, in turn
with one that has nothing in it but pydantic and boto3 and makes the same calls (`bench/bare`); and
where it goes, by a few starts more of each (`bench/sampling.py`).
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import boto3

from bench.stage import (
    BODY,
    Event,
    Stage,
    announce_event,
    create_event,
    dead_letters_event,
    monitor_event,
    request,
    running_instance,
    stage,
    startup_event,
    webhook_event,
)
from bench.table import Row, half_spread
from infra.asset import HERE, build
from local.paths import ROOT
from tests.integration.harness import Context, Harness
from tests.integration.wire import Made

ROUNDS, LOOKED_AT = 11, 5
API_BOUND, CONSUMER_BOUND = 1.25, 1.30
STARTING, LEAST = "starting Python", 0.02  # parts that are smaller are not told
ASSET = ROOT / ".build" / "asset-here"
SDK = ROOT / ".build" / "sdk-here"
BARE = ROOT / "bench" / "bare"

GIVEN_UP = (
    "mostly the making of frozen dataclasses, which the bare one has none of: given up would be dataclasses "
    "for values and use cases (tuples and dictionaries are free), or one module for each rule, so that "
    "fewer are imported; then Powertools (its router imports the classes of all AWS events, its logger and "
    "metrics are imported by every function), given up for a router and log lines of our own"
)

_SERVICES = {"SendMessage": "sqs", "Publish": "sns", "GetSecretValue": "secretsmanager"}
_ALWAYS = " OR attribute_exists(pk) OR attribute_not_exists(pk)"


@dataclass(frozen=True)
class Case:
    name: str
    module: str  # of ours
    event: Callable[[Harness], Event]
    bare: str = "replay"
    bound: float = CONSUMER_BOUND
    given_up: str = GIVEN_UP


def _get(harness: Harness) -> Event:
    found = [record.id for record in harness.records() if record.at_rest]
    return request(harness, "GET", f"/api/instances/{found[0] if found else running_instance(harness)}")


def _post(harness: Harness) -> Event:
    return request(harness, "POST", "/api/instances", BODY)


CASES = (
    Case("api, one instance", "functions.api.handler", _get, "api", API_BOUND),
    Case("api, create", "functions.api.handler", _post, "api", API_BOUND),
    Case("create", "functions.create.handler", create_event),
    Case("monitor", "functions.monitor.handler", monitor_event),
    Case("startup", "functions.startup.handler", startup_event),
    Case("webhook", "functions.webhook.handler", webhook_event),
    Case("reconcile", "functions.reconcile.handler", lambda _: {}),
    Case("announce", "functions.announce.handler", announce_event),
    Case("dead_letters", "functions.dead_letters.handler", dead_letters_event),
)


@dataclass(frozen=True)
class Run:
    seconds: float
    init_seconds: float  # of them, until its modules were imported
    memory_kb: int
    began_seconds: float  # until it was looked at
    looks: Counter[str]


class Processes:
    """Functions' processes: the asset and what Lambda's runtime has beside it, and nothing else."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = environment
        self._folder = folder
        build(ASSET, HERE)
        sdk()

    def run(self, module: str, event: Event, *parts: str, **environment: str) -> Run:
        result = self._folder / "result.json"
        paths = [ASSET, SDK] if module.startswith("functions.") else [ASSET, SDK, BARE]
        done = subprocess.run(  # noqa: S603  # ourselves
            [sys.executable, "-S", ROOT / "bench" / "process.py", module, result, *parts],
            env={**self._environment, "PYTHONPATH": os.pathsep.join(map(str, paths)), **environment},
            input=json.dumps([event]),
            text=True,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{module}: {done.stderr[-3000:]}{done.stdout[-2000:]}")
        found = json.loads(result.read_text())
        _require_done(module, found["answer"], done.stdout)
        init, *_, seconds = found["spent"]
        return Run(seconds, init, found["memory"], found["began"], Counter(found["looks"]))


def sdk() -> None:
    """What Lambda's runtime has of boto3: the asset has the rest."""
    SDK.mkdir(parents=True, exist_ok=True)
    for name in ("boto3", "botocore", "s3transfer", "dateutil", "six.py"):
        if not (SDK / name).exists():
            (SDK / name).symlink_to(Path(boto3.__file__).parents[1] / name)


def _require_done(module: str, answer: Any, output: str) -> None:
    """A process that had nothing to do, or failed, would be measured as a quick one."""
    failed = isinstance(answer, dict) and (
        answer.get("batchItemFailures") or answer.get("statusCode", 200) > 299
    )
    if failed or any(text in output for text in ("out of date", "overtaken", "Traceback", "not announced")):
        raise RuntimeError(f"{module} did not do its work: {answer} {output[-2000:]}")


def recorded(harness: Harness, case: Case) -> str:
    """The calls that the function makes for its event, for the bare one to make."""
    event = case.event(harness)
    harness.restart()
    harness.wire.calls.clear()
    name = case.module.split(".")[1]
    with harness.wire.handling(name):
        import_module(case.module).handler(event, Context())
    calls = [_call(made) for made in harness.wire.calls]
    address = harness.simulator.inbox_url("bench")
    if name in ("webhook", "startup"):
        method = "POST" if name == "webhook" else "GET"
        calls.insert(
            len(calls) // 2, {"service": "outbound", "operation": method, "params": {"url": address}}
        )
    return json.dumps({"calls": calls}, default=_bytes)


def _bytes(sent: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(sent).decode()}


def _call(made: Made) -> dict[str, Any]:
    if made.name.startswith("novita "):
        return {
            "service": "novita",
            "operation": made.name.removeprefix("novita "),
            "params": made.params or {},
        }
    operation = made.name.split()[0]
    method = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation)[1:]
    service = "sqs" if "QueueUrl" in made.params else _SERVICES.get(operation, "dynamodb")
    return {"service": service, "operation": method, "params": _without_condition(made.params)}


def _without_condition(params: Any) -> Any:
    """What was written once can be written again."""
    if isinstance(params, list):
        return [_without_condition(one) for one in params]
    if not isinstance(params, dict):
        return params
    whole = {name: _without_condition(value) for name, value in params.items()}
    whole.pop("ClientRequestToken", None)
    if isinstance(condition := whole.get("ConditionExpression"), str):
        whole["ConditionExpression"] = f"({condition}){_ALWAYS}"
    return whole


def rows() -> Iterator[Row]:
    with stage() as place, tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            yield from _measured(place, Path(folder), case)


def _measured(place: Stage, folder: Path, case: Case) -> Iterator[Row]:
    harness, calls = place.harness(), folder / "calls.json"
    running_instance(harness)  # a deployment that is in use
    processes = Processes(place.environment(harness), folder)
    if case.bare == "replay":
        calls.write_text(recorded(harness, case))

    def start(*parts: str) -> tuple[Run, Run]:
        events = case.event(harness), case.event(harness)
        own = processes.run(case.module, events[0], *parts)
        return own, processes.run(case.bare, events[1], *parts, CALLS=str(calls))

    start()  # what is compiled, and read from the disk for the first time
    pairs = [start() for _ in range(ROUNDS)]
    ratios = [own.seconds / other.seconds for own, other in pairs]
    ours, bare = (median(one.seconds for one in runs) for runs in zip(*pairs, strict=True))
    told = f"{1000 * bare:.0f} ms bare; ours {1000 * ours:.0f}"
    yield Row(
        "cold",
        case.name,
        median(ratios),
        "times",
        case.bound,
        anchor=told,
        spread=half_spread(ratios),
        given_up=case.given_up,
    )
    if case is CASES[0]:
        memory = [own.memory_kb / other.memory_kb for own, other in pairs]
        yield Row("cold", "api, memory", median(memory), "times", anchor="bare", spread=half_spread(memory))
    imported = [median(one.init_seconds for one in runs) for runs in zip(*pairs, strict=True)]
    yield _part(case, "until all is imported", *imported)
    looked_at = zip(*(start("parts") for _ in range(LOOKED_AT)), strict=True)
    own_parts, bare_parts = (
        _parts(runs, seconds) for runs, seconds in zip(looked_at, (ours, bare), strict=True)
    )
    for name, seconds in own_parts.items():
        if seconds >= LEAST * ours:
            yield _part(case, name, seconds, bare_parts.get(name, 0.0))


def _parts(runs: Iterable[Run], seconds: float) -> dict[str, float]:
    """Of so many seconds, the largest first."""
    looked_at = list(runs)
    began = median(one.began_seconds for one in looked_at)
    looks = sum((one.looks for one in looked_at), Counter[str]())
    shares = {name: (seconds - began) * number / looks.total() for name, number in looks.items()}
    return dict(sorted({STARTING: began, **shares}.items(), key=lambda one: -one[1]))


def _part(case: Case, name: str, ours: float, bare: float) -> Row:
    anchor = f"{1000 * bare:.0f} bare"
    return Row("cold", f"{case.name}: {name}", 1000 * ours, "ms", anchor=anchor, is_part=True)
