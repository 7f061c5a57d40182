"""The proxy in front of the emulator: each kind of fault is what it says, as the SDK sees it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from local.emulator import ACCESS_KEY, REGION, SECRET_KEY, Emulator
from tests.integration.harness import Harness
from tests.integration.production import attempts_at_once
from tests.integration.proxy import Fault, FaultProxy, Kind
from tests.integration.quick_http import send_quickly
from tests.integration.wire import LEAN

SEND = frozenset({"SendMessage"})
ALWAYS = 1.0


class Virtual:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Virtual:
    return Virtual()


@pytest.fixture
def proxy(emulator: Emulator, clock: Virtual) -> Iterator[FaultProxy]:
    with FaultProxy(emulator.url, now=clock) as started:
        yield started


@pytest.fixture
def sqs(proxy: FaultProxy) -> Any:
    return _client("sqs", proxy, LEAN)


@pytest.fixture
def queue(emulator: Emulator) -> str:
    return str(emulator.client("sqs").create_queue(QueueName=f"proxy-{uuid4().hex}")["QueueUrl"])


def _client(service: str, proxy: FaultProxy, config: Config) -> Any:
    made = boto3.client(  # type: ignore[call-overload]  # any service
        service,
        endpoint_url=proxy.url,
        config=config,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )
    return send_quickly(made)


def _send(sqs: Any, queue: str, body: str, delay: int = 0) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody=body, DelaySeconds=delay)


def _bodies(emulator: Emulator, queue: str) -> list[str]:
    answer = emulator.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
    return [message["Body"] for message in answer.get("Messages", [])]


def test_without_faults_everything_passes(emulator: Emulator, sqs: Any, queue: str) -> None:
    _send(sqs, queue, "a")

    assert _bodies(emulator, queue) == ["a"]


@pytest.mark.parametrize(
    ("kind", "arrived"), [(Kind.DROP, []), (Kind.LOST_ANSWER, ["a"])], ids=["dropped", "answer lost"]
)
def test_a_caller_without_an_answer_cannot_tell_whether_it_was_done(
    emulator: Emulator, proxy: FaultProxy, sqs: Any, queue: str, kind: Kind, arrived: list[str]
) -> None:
    proxy.faults = (Fault(kind, SEND, ALWAYS),)

    with pytest.raises(ConnectionClosedError):
        _send(sqs, queue, "a")

    assert _bodies(emulator, queue) == arrived
    assert proxy.injected == {kind: 1}


def test_the_sdk_sends_again_what_was_not_answered(emulator: Emulator, proxy: FaultProxy, queue: str) -> None:
    retries: Any = {"mode": "standard", "total_max_attempts": 3}
    sqs = _client("sqs", proxy, Config(retries=retries))
    proxy.faults = (Fault(Kind.LOST_ANSWER, SEND, ALWAYS),)

    with attempts_at_once(), pytest.raises(ConnectionClosedError):
        _send(sqs, queue, "a")

    assert _bodies(emulator, queue) == ["a", "a", "a"]


def test_a_doubled_message_is_there_twice(
    emulator: Emulator, proxy: FaultProxy, sqs: Any, queue: str
) -> None:
    proxy.faults = (Fault(Kind.DOUBLE, SEND, ALWAYS),)

    _send(sqs, queue, "a")

    assert _bodies(emulator, queue) == ["a", "a"]


def test_a_message_that_is_held_back_comes_after_those_sent_later(
    emulator: Emulator, proxy: FaultProxy, sqs: Any, queue: str, clock: Virtual
) -> None:
    proxy.faults = (Fault(Kind.HOLD, SEND, ALWAYS),)
    _send(sqs, queue, "first")
    proxy.faults = ()
    _send(sqs, queue, "second")
    proxy.release()
    before = _bodies(emulator, queue)

    clock.now += timedelta(seconds=proxy.hold_seconds)
    proxy.release()

    assert before == ["second"]
    assert _bodies(emulator, queue) == ["first"]


def test_a_lost_message_was_taken_and_never_comes(
    emulator: Emulator, proxy: FaultProxy, sqs: Any, queue: str, clock: Virtual
) -> None:
    proxy.faults = (Fault(Kind.LOSE, SEND, ALWAYS),)

    _send(sqs, queue, "a")
    clock.now += timedelta(days=1)

    assert proxy.release() == 0
    assert _bodies(emulator, queue) == []


def test_delays_pass_in_virtual_time(
    emulator: Emulator, proxy: FaultProxy, sqs: Any, queue: str, clock: Virtual
) -> None:
    _send(sqs, queue, "a", delay=900)
    clock.now += timedelta(seconds=899)
    early = proxy.release()

    clock.now += timedelta(seconds=1)
    proxy.release()

    assert early == 0
    assert _bodies(emulator, queue) == ["a"]


def test_a_queue_says_that_it_is_throttled_or_unavailable(proxy: FaultProxy, sqs: Any, queue: str) -> None:
    said = []
    for kind in (Kind.THROTTLE, Kind.REFUSE):
        proxy.faults = (Fault(kind, SEND, ALWAYS),)
        with pytest.raises(ClientError) as caught:
            _send(sqs, queue, "a")
        said.append(caught.value.response["Error"]["Code"])

    assert said == ["RequestThrottled", "ServiceUnavailable"]


def test_a_table_says_that_it_is_throttled_also_of_a_transaction(harness: Harness, proxy: FaultProxy) -> None:
    dynamodb = _client("dynamodb", proxy, LEAN)
    proxy.faults = (Fault(Kind.THROTTLE, frozenset({"PutItem", "TransactWriteItems"}), ALWAYS),)
    item = {"pk": {"S": "a"}, "sk": {"S": "a"}}
    write = {"Put": {"TableName": harness.table_name, "Item": item}}
    said = set()

    with pytest.raises(ClientError) as caught:
        dynamodb.put_item(TableName=harness.table_name, Item=item)
    put = caught.value.response["Error"]["Code"]
    for _ in range(10):
        with pytest.raises(ClientError) as caught:
            dynamodb.transact_write_items(TransactItems=[write])
        reasons: Any = caught.value.response.get("CancellationReasons", [])
        said.add((caught.value.response["Error"]["Code"], *(reason["Code"] for reason in reasons)))

    assert put == "ProvisionedThroughputExceededException"
    assert said == {("ThrottlingException",), ("TransactionCanceledException", "ThrottlingError")}
    assert [one for one in harness.items() if one["pk"] == item["pk"]] == []


def test_the_same_seed_strikes_the_same_calls(proxy: FaultProxy, sqs: Any, queue: str) -> None:
    def struck() -> list[bool]:
        proxy.random, proxy.faults = Random(5), (Fault(Kind.DROP, SEND, 0.3, 3),)
        return [_fails(sqs, queue) for _ in range(30)]

    first = struck()

    assert first == struck()
    assert {True, False} == set(first)


def _fails(sqs: Any, queue: str) -> bool:
    try:
        _send(sqs, queue, "a")
    except ConnectionClosedError:
        return True
    return False
