"""A process that holds a fleet of any size: the table behind DynamoDB's wire, Novita's list behind its own.

For measuring what a sweep takes of a process of its own: what is kept and answered here is not counted there.
It knows no conditions, as nobody else writes meanwhile, and no clock.
"""

import json
import re
import sys
from base64 import b64encode
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import ceil
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from functions.shared.domain.ids import machine_name, new_deployment_id, new_instance_id
from functions.shared.domain.instance.record import Instance, RentedMachine, Spec
from functions.shared.domain.instance.status import Status
from functions.shared.domain.money.ledger import Ledger, LineKind, Meter
from functions.shared.stores.instances import record_item
from functions.shared.stores.table import Item, marshal

BEGAN = datetime(2030, 1, 1, 12, tzinfo=UTC)
_PAGE_BYTES = 1_000_000  # DynamoDB's own for a query
Wire = dict[str, Any]


def fleet_of(many: int, moving: int) -> list[Instance]:
    """At rest and running for an hour, and on the move with a step that was due and lost."""
    return [_instance(number, moving=number < moving) for number in range(many)]


def _instance(number: int, *, moving: bool) -> Instance:
    made_at = BEGAN - timedelta(days=1) + timedelta(milliseconds=number)
    seen_at, machine_id = BEGAN - timedelta(hours=1), f"{number:016x}"
    meter = Meter(
        machine_id, Decimal("0.35"), region="CN-HK-01", kind=LineKind.RUNNING, since=seen_at, confirmed=True
    )
    return Instance(
        id=new_instance_id(made_at),
        name=f"bench-{number}",
        spec=Spec("RTX 4090 24GB", "107672", tags=(("team", f"t{number % 20}"),)),
        status=Status.STARTING if moving else Status.RUNNING,
        created_at=made_at,
        updated_at=seen_at,
        deadline_at=BEGAN + timedelta(minutes=10) if moving else None,
        next_check_at=BEGAN if moving else None,
        actor=f"key_{number % 10}",
        correlation_id="bench",
        version=5,
        token=f"token-{number}",
        sequence=4,
        machine=RentedMachine(
            machine_id,
            "CN-HK-01",
            "4090",
            Decimal("0.35"),
            seen_at,
            novita_status="pulling" if moving else "running",
            seen_at=seen_at,
            acted_at=seen_at,
            owned=True,
        ),
        ledger=Ledger((meter,), tags=(("team", f"t{number % 20}"),)),
        ready_at=None if moving else seen_at,
    )


class World:
    def __init__(self, many: int, moving: int) -> None:
        self.items: dict[str, dict[str, Wire]] = defaultdict(dict)
        self.fleet: dict[str, list[tuple[str, str]]] = defaultdict(
            list
        )  # by shard: id, and its entry as sent
        self.due: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
        self.counts: defaultdict[str, float] = defaultdict(float)
        self.machines: list[str] = []  # as Novita's list shows them
        self.deployment = new_deployment_id()
        self.put(_sent({"pk": "deployment", "sk": "deployment", "id": self.deployment}))
        for record in fleet_of(many, moving):
            self._add(record)

    def _add(self, record: Instance) -> None:
        self.put(_sent(record_item(record)))
        owner = {"pk": f"machine#{record.machine.id}", "sk": "owner", "instanceId": record.id}
        self.put(_sent(owner))
        name = machine_name(record.name, self.deployment, record.id, 1)
        self.machines.append(json.dumps(_machine(record, name)))

    # The table

    def put(self, item: Wire) -> None:
        pk, sk = item["pk"]["S"], item["sk"]["S"]
        before = self.items[pk].get(sk)
        self.items[pk][sk] = item
        self.counts["write units"] += ceil(len(json.dumps(item)) * 0.7 / 1000)  # without the types' names
        if (before or {}).get("dueAt") != item.get("dueAt"):
            if before and "dueAt" in before:
                self.due[before["due"]["S"]].remove((int(before["dueAt"]["N"]), pk, sk))
            if "dueAt" in item:
                insort(self.due[item["due"]["S"]], (int(item["dueAt"]["N"]), pk, sk))
        if "fleet" in item and (before or {}).get("summary") != item["summary"]:
            shard, id_ = self.fleet[item["fleet"]["S"]], item["id"]["S"]
            entry = json.dumps({name: item[name] for name in ("pk", "sk", "id", "fleet", "summary")})
            at = bisect_left(shard, (id_, ""))
            if at < len(shard) and shard[at][0] == id_:
                shard[at] = (id_, entry)
            else:
                shard.insert(at, (id_, entry))

    def query(self, asked: Wire) -> str:
        values = asked["ExpressionAttributeValues"]
        if asked.get("IndexName") == "fleet":
            return self._fleet_page(values[":key"]["S"], asked)
        if asked.get("IndexName") == "due":
            kind = self.due[values[":due"]["S"]]
            end = bisect_right(kind, (int(values[":until"]["N"]), "~", "~"))
            keys = [
                {"pk": {"S": pk}, "sk": {"S": sk}, "dueAt": {"N": str(at)}}
                for at, pk, sk in kind[: min(end, asked.get("Limit", end))]
            ]
            return json.dumps({"Items": keys, "Count": len(keys)})
        if "IndexName" in asked:  # dead letters, of which there are none
            return json.dumps({"Items": [], "Count": 0})
        of_it = self.items[values[":pk"]["S"]]
        begin = values.get(":sk", {}).get("S", "")
        start = asked.get("ExclusiveStartKey", {}).get("sk", {}).get("S", "")
        return self._page([of_it[sk] for sk in sorted(of_it) if sk.startswith(begin) and sk > start])

    def _fleet_page(self, shard: str, asked: Wire) -> str:
        entries = self.fleet[shard]
        start = asked.get("ExclusiveStartKey")
        at = bisect_right(entries, (start["id"]["S"], "~")) if start else 0
        sent, size = [], 0
        while at < len(entries) and size < _PAGE_BYTES:
            sent.append(entries[at][1])
            size += int(len(entries[at][1]) * 0.7)
            at += 1
        self.counts["read units"] += ceil(size / 4000) / 2
        last = f', "LastEvaluatedKey": {sent[-1]}' if at < len(entries) else ""
        return f'{{"Items": [{", ".join(sent)}], "Count": {len(sent)}{last}}}'

    def _page(self, found: list[Wire]) -> str:
        """As much of it as DynamoDB sends at once."""
        sent, size = [], 0
        for item in found:
            if size >= _PAGE_BYTES:
                break
            sent.append(json.dumps(item))
            size += int(len(sent[-1]) * 0.7)
        self.counts["read units"] += ceil(size / 4000)
        last = {name: found[len(sent) - 1][name] for name in ("pk", "sk")} if len(sent) < len(found) else None
        more = f', "LastEvaluatedKey": {json.dumps(last)}' if last else ""
        return f'{{"Items": [{", ".join(sent)}], "Count": {len(sent)}{more}}}'

    def get(self, asked: Wire) -> str:
        item = self.items[asked["Key"]["pk"]["S"]].get(asked["Key"]["sk"]["S"])
        self.counts["read units"] += 1
        return json.dumps({"Item": item} if item else {})

    def batch_get(self, asked: Wire) -> str:
        ((table, wanted),) = asked["RequestItems"].items()
        names = set(wanted.get("ExpressionAttributeNames", {}).values())
        found = [self.items[key["pk"]["S"]].get(key["sk"]["S"]) for key in wanted["Keys"]]
        self.counts["read units"] += len(wanted["Keys"]) * (1 if wanted.get("ConsistentRead") else 0.5)
        shown = [{name: one[name] for name in names or one if name in one} for one in found if one]
        return json.dumps({"Responses": {table: shown}, "UnprocessedKeys": {}})

    def put_item(self, asked: Wire) -> str:
        self.put(asked["Item"])
        return "{}"

    def update(self, asked: Wire) -> str:
        pk, sk = asked["Key"]["pk"]["S"], asked["Key"]["sk"]["S"]
        item = dict(self.items[pk].get(sk) or asked["Key"])
        values, names = asked.get("ExpressionAttributeValues", {}), asked.get("ExpressionAttributeNames", {})
        parts = re.split(r"\b(SET|ADD)\b", asked["UpdateExpression"])[1:]
        for verb, text in zip(parts[::2], parts[1::2], strict=True):
            for change in text.split(","):
                name, value = change.replace("=", " ").split()
                name, before = names.get(name, name), item.get(names.get(name, name), {"N": "0"})
                new = values[value]
                item[name] = new if verb == "SET" else {"N": str(int(before["N"]) + int(new["N"]))}
        self.put(item)
        return json.dumps({"Attributes": item})

    def transact(self, asked: Wire) -> str:
        for one in asked["TransactItems"]:
            if "Put" in one:
                self.put(one["Put"]["Item"])
        return "{}"

    # Novita

    def list_machines(self, query: dict[str, str]) -> str:
        self.counts["list calls"] += 1
        size, number = int(query["pageSize"]), int(query["pageNum"])
        shown = ", ".join(self.machines[number * size : (number + 1) * size])
        return f'{{"instances": [{shown}], "total": {len(self.machines)}}}'

    def get_machine(self, query: dict[str, str]) -> str:
        self.counts["get calls"] += 1
        return self.machines[int(query["instanceId"], 16)]


def _sent(item: Item) -> Wire:
    """As it goes over the wire."""
    typed = marshal(item)
    return {name: {"B": b64encode(one["B"]).decode()} if "B" in one else one for name, one in typed.items()}


def _machine(record: Instance, name: str) -> Wire:
    return {
        "id": record.machine.id,
        "name": name,
        "clusterId": "cn-hongkong-1",
        "clusterName": "CN-HK-01",
        "productId": "4090",
        "productName": "RTX 4090 24GB",
        "status": record.machine.novita_status,
        "statusError": {"state": "", "message": ""},
        "imageUrl": "ghcr.io/example/image:latest",
        "gpuNum": "1",
        "cpuNum": "16",
        "memory": "64",
        "rootfsSize": 60,
        "portMappings": [{"port": 8188, "type": "http"}, {"port": 22, "type": "tcp"}],
        "envs": [{"key": f"NAME_{number}", "value": "some value"} for number in range(5)],
        "volumeMounts": [],
        "billingMode": "spot",
        "spotStatus": "running",
        "spotReclaimTime": "0",
        "instancePrice": "35000",
        "createdAt": str(int(record.created_at.timestamp())),
        "lastStartedAt": "0",
        "lastStoppedAt": "0",
    }


class Answers(BaseHTTPRequestHandler):
    world: ClassVar[World]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_POST(self) -> None:  # the name that the base class calls
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        operation = self.headers["X-Amz-Target"].partition(".")[2]
        self.world.counts[operation] += 1
        answers: dict[str, Callable[[Wire], str]] = {
            "Query": self.world.query,
            "GetItem": self.world.get,
            "BatchGetItem": self.world.batch_get,
            "PutItem": self.world.put_item,
            "UpdateItem": self.world.update,
            "TransactWriteItems": self.world.transact,
        }
        self._answer(answers[operation](asked), "application/x-amz-json-1.0")

    def do_GET(self) -> None:  # the name that the base class calls
        path, query = urlsplit(self.path).path, dict(parse_qsl(urlsplit(self.path).query))
        if path == "/_counts":
            text = json.dumps(self.world.counts)
            self.world.counts.clear()
        elif path == "/_handled":  # by those who take steps: nothing is overdue any more
            self.world.due.clear()
            text = "{}"
        elif path.endswith("/gpu/instances"):
            text = self.world.list_machines(query)
        elif path.endswith("/gpu/instance"):
            text = self.world.get_machine(query)
        else:  # the balance
            text = json.dumps({"availableBalance": "999999999999"})
        self._answer(text, "application/json")

    def _answer(self, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        pass


def main() -> None:
    Answers.world = World(int(sys.argv[1]), int(sys.argv[2]))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
