"""The emulator alone, with a function on a table's stream, over a restart and a change of port."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from local.emulator import Emulator
from local.ports import Ports
from local.waiting import wait_until

CODE = """
def handler(event, context):
    for record in event["Records"]:
        print("seen", record["dynamodb"]["Keys"]["pk"]["S"])
        if record["dynamodb"]["Keys"]["pk"]["S"] == "bad":
            raise ValueError("a bad record")
"""


READS = """
import boto3

def handler(event, context):
    return boto3.client("dynamodb").list_tables()["TableNames"]
"""
ASSUMED_BY_LAMBDA = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}
LISTS_TABLES = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "dynamodb:ListTables", "Resource": "*"}],
}


def test_streams_queues_and_logs_survive_a_restart_on_another_port(tmp_path: Path) -> None:
    kept, log = tmp_path / "kept", tmp_path / "functions.log"
    kept.mkdir()
    with Emulator(tmp_path, Ports.free().emulator, persist_dir=kept) as emulator:
        _furnish(emulator)
        for name in ("one", "two", "three"):
            emulator.table("things").put_item(Item={"pk": name})
        assert wait_until(
            lambda: _lines(log) == ["listener seen one", "listener seen two", "listener seen three"], 20
        )

    with Emulator(tmp_path, Ports.free().emulator, persist_dir=kept) as emulator:
        emulator.table("things").put_item(Item={"pk": "four"})
        address = emulator.client("sqs").get_queue_url(QueueName="work")["QueueUrl"]
        message = emulator.client("sqs").receive_message(QueueUrl=address)["Messages"][0]

        assert wait_until(lambda: _lines(log) == ["listener seen four"], 20), _lines(log)
        assert (address.startswith(emulator.url), message["Body"]) == (True, "hello")

        emulator.table("things").put_item(Item={"pk": "bad"})

        assert wait_until(
            lambda: any("failed: " in line and "a bad record" in line for line in _lines(log)), 20
        )


def test_a_function_may_do_what_its_role_allows_and_nothing_else(tmp_path: Path) -> None:
    with Emulator(tmp_path, Ports.free().emulator, enforce_iam=True) as emulator:
        roles = emulator.client("iam")
        role = roles.create_role(RoleName="reader", AssumeRolePolicyDocument=json.dumps(ASSUMED_BY_LAMBDA))[
            "Role"
        ]
        emulator.client("lambda").create_function(
            FunctionName="reader",
            Runtime="python3.13",
            Role=role["Arn"],
            Handler="reader.handler",
            Code={"ZipFile": _zipped("reader.py", READS)},
        )

        refused = emulator.client("lambda").invoke(FunctionName="reader")
        roles.put_role_policy(RoleName="reader", PolicyName="Rights", PolicyDocument=json.dumps(LISTS_TABLES))
        allowed = emulator.client("lambda").invoke(FunctionName="reader")

    assert refused["FunctionError"]
    assert "AccessDenied" in refused["Payload"].read().decode()
    assert "FunctionError" not in allowed


def test_a_reset_leaves_a_clean_slate(tmp_path: Path) -> None:
    with Emulator(tmp_path, Ports.free().emulator) as emulator:
        _furnish(emulator)

        emulator.reset()

        assert emulator.client("dynamodb").list_tables()["TableNames"] == []
        assert emulator.client("lambda").list_functions()["Functions"] == []


def _furnish(emulator: Emulator) -> None:
    queue = emulator.client("sqs").create_queue(QueueName="work")["QueueUrl"]
    emulator.client("sqs").send_message(QueueUrl=queue, MessageBody="hello")
    table = emulator.client("dynamodb").create_table(
        TableName="things",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )["TableDescription"]
    emulator.client("lambda").create_function(
        FunctionName="listener",
        Runtime="python3.13",
        Role="arn:aws:iam::000000000000:role/listener",
        Handler="listener.handler",
        Code={"ZipFile": _zipped("listener.py", CODE)},
    )
    emulator.client("lambda").create_event_source_mapping(
        EventSourceArn=table["LatestStreamArn"], FunctionName="listener", StartingPosition="TRIM_HORIZON"
    )


def _zipped(name: str, code: str) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr(name, code)
    return archive.getvalue()


def _lines(log: Path) -> list[Any]:
    return log.read_text().splitlines() if log.exists() else []
